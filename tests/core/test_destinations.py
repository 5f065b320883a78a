from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeline.core.destination import check_private, check_url, parse_networks, refused_range
from wakeline.errors import Forbidden

LOOPBACK = parse_networks(["127.0.0.0/8"])


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("0.0.0.0", "unspecified"),  # noqa: S104 - nothing is bound to it
        ("0.1.2.3", "unspecified"),
        ("10.0.0.1", "private"),
        ("100.64.0.1", "shared"),
        ("100.127.255.255", "shared"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("169.254.169.254", "link-local"),  # where clouds answer with credentials
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.0.0.8", "reserved"),
        ("192.168.1.1", "private"),
        ("198.18.0.1", "reserved"),
        ("224.0.0.1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),  # mapped
        ("::ffff:10.0.0.1", "private"),
        ("::127.0.0.1", "loopback"),  # compatible
        ("64:ff9b::10.0.0.1", "private"),  # NAT64
        ("64:ff9b:1::1", "private"),
        ("2002:7f00:1::", "loopback"),  # 6to4
        ("2002:a00:1::1", "private"),
        ("2001:0:4136:e378:8000:63bf:f5ff:fffe", "private"),  # Teredo, to 10.0.0.1
        ("2001:0:a00:1:8000:63bf:f7f7:f7f7", "private"),  # Teredo, through 10.0.0.1
        ("2001:db8::1", "reserved"),
        ("100::1", "reserved"),
        ("fc00::1", "private"),
        ("fd12:3456::1", "private"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fec0::1", "private"),
        ("ff02::1", "multicast"),
        ("4000::1", "reserved"),
    ],
)
def test_addresses_that_are_not_for_strangers_are_refused(address: str, kind: str) -> None:
    found = refused_range(ip_address(address), ())
    assert found is not None
    assert found.startswith(kind)


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "2a00:1450::1"),
        *("::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::1"),
    ],
)
def test_the_public_internet_is_not_refused(address: str) -> None:
    assert refused_range(ip_address(address), ()) is None


@given(st.ip_addresses(v=4))
def test_no_way_of_writing_ipv4_in_ipv6_gets_around_the_rule(address: IPv4Address) -> None:
    number = int(address)
    plain = refused_range(address, ())
    mapped = refused_range(IPv6Address(0xFFFF << 32 | number), ())
    nat64 = refused_range(IPv6Address(0x0064_FF9B << 96 | number), ())
    sixtofour = refused_range(IPv6Address(0x2002 << 112 | number << 80), ())
    assert mapped == nat64 == sixtofour == plain


def test_an_allowed_range_is_allowed_in_every_spelling_and_nothing_else_is() -> None:
    for address in ("127.0.0.1", "::ffff:127.0.0.1", "::127.9.9.9"):
        assert refused_range(ip_address(address), LOOPBACK) is None
    for address in ("10.0.0.1", "::1", "128.0.0.1"):
        assert refused_range(ip_address(address), LOOPBACK) == refused_range(ip_address(address), ())


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/hook",
        "http://example.org:8080/hook?key=a%2Bb",
        "https://hooks.example.org./x",
        "https://xn--bcher-kva.example/",
        "https://1.1.1.1/hook",
        "https://[2606:4700::1111]:8443/hook",
        "https://with_underscore.example.org/",
    ],
)
def test_ordinary_urls_are_taken_as_they_are(url: str) -> None:
    assert str(check_url(url, ())) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org/hook",
        "ftp://example.org/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "gopher://example.org/",
        "https://",
        "https:///path",
        "https://user@example.org/",
        "https://user:password@example.org/",
        "https://@example.org/",
        "https://example.org/#fragment",
        "https://example.org/#",
        "https://exa mple.org/",
        "https://example.org/\r\nX-Injected: 1",
        "https://example.org\\@10.0.0.1/",
        "https://example.org:0/",
        "https://example.org:99999/",
        "https://example.org:port/",
        "https://bücher.example/",
        "https://①②⑦.⓪.⓪.①/",
        "https://-bad-.example/",
        "https://a..b/",
        "https://" + "a" * 2048,
        "http://localhost/",
        "http://LOCALHOST:80/",
        "http://a.localhost./",
        "http://127.0.0.1/",
        "http://127.1/",
        "http://0/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.0.0.1./",
        "http://010.8.8.8/",
        "http://8.8.8.8.8/",
        "http://[::1]/",
        "http://[::ffff:7f00:1]/",
        "http://[fe80::1%25eth0]/",
        "http://[::1",
        "http://169.254.169.254/latest/meta-data/",
        "http://%31%32%37.0.0.1/",
    ],
)
def test_hostile_and_senseless_urls_are_refused(url: str) -> None:
    with pytest.raises(Forbidden) as caught:
        check_url(url, ())
    assert caught.value.code == "WEBHOOK_URL_REFUSED"


def test_the_refusal_names_the_range_and_the_setting() -> None:
    with pytest.raises(Forbidden) as caught:
        check_url("http://10.1.2.3/", LOOPBACK)
    assert "10.0.0.0/8" in caught.value.message
    assert "WAKELINE_WEBHOOK_ALLOW" in caught.value.message
    assert caught.value.details["range"] == "private (10.0.0.0/8)"


def test_an_allowed_range_opens_its_addresses_and_names() -> None:
    for url in ("http://127.0.0.1:9000/x", "http://localhost/", "http://[::ffff:127.0.0.1]/"):
        check_url(url, LOOPBACK)
    with pytest.raises(Forbidden):
        check_url("http://127.1/", LOOPBACK)  # an odd notation stays one


PLAIN = {
    "https to a name": ("https://hooks.example.org/", True),
    "https to an address": ("https://8.8.8.8/", True),
    "http to an allowed address": ("http://127.0.0.1:9000/", True),
    "http to this machine's name": ("http://localhost:9000/", True),
    "http to a public address": ("http://8.8.8.8/", False),
    "http to a name": ("http://hooks.example.org/", False),
}


@pytest.mark.parametrize(("url", "private"), PLAIN.values(), ids=PLAIN.keys())
def test_without_tls_only_an_allowed_range_is_private(url: str, *, private: bool) -> None:
    found = check_url(url, LOOPBACK)
    if private:
        check_private(found, LOOPBACK)
        return
    with pytest.raises(Forbidden):
        check_private(found, LOOPBACK)


@given(st.text())
def test_any_text_is_either_a_url_or_refused(text: str) -> None:
    try:
        check_url(text, ())
    except Forbidden as error:
        assert error.code == "WEBHOOK_URL_REFUSED"  # noqa: PT017 - either is fine, nothing else is
