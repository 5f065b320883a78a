"""Where a webhook may go: which URLs make sense, and which addresses are not for strangers to reach through us.

Whoever subscribes names a URL and this server calls it, from inside the network that it runs in.  So only addresses of
the public internet are called, and what the operator allows by range.  A name is checked again when it has become an
address, by who connects (`adapters/webhook.py`): what it means can change at any time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from yarl import URL

from wakeline.errors import Forbidden

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

URL_LIMIT = 2_048
SETTING = "WAKELINE_WEBHOOK_ALLOW"

# Not Python's own is_private and is_global: what they mean has changed between its versions.
_RANGES: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared (carrier-grade NAT)"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "reserved"),
    ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "reserved"),
    ("198.51.100.0/24", "reserved"),
    ("203.0.113.0/24", "reserved"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("64:ff9b:1::/48", "private"),
    ("2001::/23", "reserved"),
    ("2001:db8::/32", "reserved"),
    ("3fff::/20", "reserved"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "private"),
    ("ff00::/8", "multicast"),
)
_REFUSED = tuple((ip_network(text), kind) for text, kind in _RANGES)
_GLOBAL = IPv6Network("2000::/3")  # all that was ever handed out of IPv6; the rest is reserved
_COMPATIBLE, _NAT64 = IPv6Network("::/96"), IPv6Network("64:ff9b::/96")
_LOCAL = (IPv6Address("::"), IPv6Address("::1"))

_printable = re.compile(r"[!-~]+")
_name = re.compile(
    r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?", re.IGNORECASE
)
_number = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?", re.IGNORECASE)  # what old resolvers take for an address


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Raises ValueError for what is not a range of addresses."""
    return tuple(ip_network(text) for text in texts)


def check_url(text: str, allowed: Sequence[Network]) -> URL:
    """The URL, if as much as can be known without asking anybody speaks for it."""
    if len(text) > URL_LIMIT or not _printable.fullmatch(text) or "\\" in text:
        raise _refused(f"It must be at most {URL_LIMIT} printable ASCII characters; write other names in punycode.")
    try:
        url = URL(text, encoded=True)
        scheme, host, port = url.scheme, url.raw_host or "", url.port
    except ValueError as error:
        raise _refused(f"It cannot be read as a URL: {error}.") from error
    if scheme not in ("http", "https") or port == 0:
        raise _refused("It must begin with https:// or http://, and name no port or a real one.")
    if "@" in url.raw_authority or "#" in text:
        raise _refused("It must hold no user name, no password and no fragment; a secret can be part of the path.")
    check_host(host, allowed)
    return url


def check_private(url: URL, allowed: Sequence[Network]) -> None:
    """Without TLS only into a range that the operator allows; what a name would lead to, nobody can say before."""
    host = (url.raw_host or "").rstrip(".").lower()
    try:
        address = ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        address = None
    if url.scheme != "https" and not (address and any(address in network for network in allowed)):
        raise _refused("It must begin with https://, unless its address is in a range that the operator allows.")


def check_host(host: str, allowed: Sequence[Network]) -> None:
    """An address is judged; a name can only be told from what looks like one."""
    try:
        address = ip_address(host)
    except ValueError:
        _check_name(host, allowed)
        return
    check_address(address, allowed)


def check_address(address: Address, allowed: Sequence[Network]) -> None:
    found = refused_range(address, allowed)
    if found is not None:
        raise _refused(
            f"{address} is {found}. The operator can allow its range with the setting webhook_allow ({SETTING}).",
            address=str(address),
            range=found,
            setting=SETTING,
        )


def refused_range(address: Address, allowed: Sequence[Network]) -> str | None:
    """The kind of address that it is, if it is one that must not be called."""
    if any(address in network for network in allowed):
        return None
    carried = _carried(address) if isinstance(address, IPv6Address) else ()
    if carried:
        return next((found for one in carried if (found := refused_range(one, allowed))), None)
    for network, kind in _REFUSED:
        if address in network:
            return f"{kind} ({network})"
    if isinstance(address, IPv6Address) and address not in _GLOBAL:
        return "reserved"
    return None


def _carried(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that an IPv6 address stands for, in any of the ways that were ever invented."""
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    if address in _NAT64 or (address in _COMPATIBLE and address not in _LOCAL):
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    return ()


def _check_name(host: str, allowed: Sequence[Network]) -> None:
    if _number.fullmatch(host):
        raise _refused(f"{host} is an address in an odd notation; write four decimal numbers with dots.")
    if not _name.fullmatch(host):
        raise _refused(f"{host!r} is not the name of a host.")
    if host.rstrip(".").lower().split(".")[-1] == "localhost":
        check_address(IPv4Address("127.0.0.1"), allowed)


def _refused(why: str, **details: str) -> Forbidden:
    return Forbidden("WEBHOOK_URL_REFUSED", f"This webhook URL is refused. {why}", rule="webhook_url", **details)
