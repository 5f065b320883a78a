from __future__ import annotations

from pathlib import Path

import pytest

from wakeline.endpoint import CLIENT_SETTINGS
from wakeline.errors import InvalidArgument
from wakeline.runtime.settings import DEFAULTS, NAMES, Settings, describe, load


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": "/home/somebody", "WAKELINE_DATA": str(tmp_path)}


def write(environ: dict[str, str], text: str) -> Path:
    file = Path(environ["WAKELINE_DATA"]) / "config.toml"
    file.write_text(text)
    return file


def test_the_data_directory_follows_the_desktop_s_convention() -> None:
    assert load({}, {"HOME": "/home/somebody"})[0].data == Path("/home/somebody/.local/share/wakeline")
    assert load({}, {"HOME": "/home/somebody", "XDG_DATA_HOME": "/data"})[0].data == Path("/data/wakeline")


def test_a_flag_beats_the_environment_beats_the_file_beats_the_default(environ: dict[str, str]) -> None:
    file = write(environ, 'host = "file"\nport = 1\nrate_burst = 5\n')
    environ |= {"WAKELINE_HOST": "environment", "WAKELINE_PORT": "2"}
    settings, sources = load({"host": "flag", "port": None}, environ)
    assert (settings.host, settings.port, settings.rate_burst, settings.rate_per_second) == ("flag", 2, 5, 100)
    assert [sources[name] for name in ("host", "port", "rate_burst", "rate_per_second")] == [
        "flag --host",
        "environment WAKELINE_PORT",
        f"file {file}",
        "default",
    ]


def test_every_setting_has_a_meaning_a_default_and_a_source(environ: dict[str, str]) -> None:
    settings, sources = load({}, environ)
    assert set(sources) == set(NAMES) == {*DEFAULTS, "data"}
    for name in NAMES:
        assert describe(name).endswith(".")
        assert name == "data" or getattr(settings, name) == DEFAULTS[name]


def test_values_are_read_from_the_text_of_the_environment(environ: dict[str, str]) -> None:
    environ |= {
        "WAKELINE_AUTO_PROVISION": "true",
        "WAKELINE_RESTRICTED_TAGS": "root, sudo",
        "WAKELINE_KEEPALIVE_SECONDS": "0.5",
        "WAKELINE_HOST": "",
    }
    settings, sources = load({}, environ)
    assert (settings.auto_provision, settings.restricted_tags, settings.keepalive_seconds) == (
        True,
        ("root", "sudo"),
        0.5,
    )
    assert (settings.host, sources["host"]) == ("127.0.0.1", "default")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "70000"),
        ("port", "many"),
        ("rate_burst", "0"),
        ("direct_messages", "closed"),
        ("human_handle", "human"),
        ("database", "mysql://host/db"),
        ("auto_provision", "perhaps"),
        ("log_level", "loud"),
        ("default_workspace", "Big Name"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_source(environ: dict[str, str], name: str, value: str) -> None:
    variable = f"WAKELINE_{name.upper()}"
    with pytest.raises(InvalidArgument) as refused:
        load({}, environ | {variable: value})
    assert refused.value.code == "SETTING_INVALID"
    assert f"'{name}' (environment {variable})" in refused.value.message


def test_a_value_in_the_file_must_have_the_right_type(environ: dict[str, str]) -> None:
    for line in ('port = "80"', "port = true", 'restricted_tags = "a,b"'):
        write(environ, line)
        with pytest.raises(InvalidArgument, match=line.split(maxsplit=1)[0]):
            load({}, environ)


def test_an_unknown_name_in_the_file_is_refused_with_the_nearest_one(environ: dict[str, str]) -> None:
    write(environ, "prot = 80\n")
    with pytest.raises(InvalidArgument, match="the nearest is 'port'"):
        load({}, environ)


def test_what_a_client_is_told_may_stand_in_the_same_file(environ: dict[str, str]) -> None:
    names = [name for name in CLIENT_SETTINGS if name != "token"]
    write(environ, "".join(f'{name} = "x"\n' for name in names))
    load({}, environ)


@pytest.mark.parametrize("name", ["key", "token"])
def test_secrets_are_not_read_from_the_file(environ: dict[str, str], name: str) -> None:
    write(environ, f'{name} = "x"\n')
    with pytest.raises(InvalidArgument, match=f"WAKELINE_{name.upper()}"):
        load({}, environ)


def test_a_broken_file_is_refused_by_its_path(environ: dict[str, str]) -> None:
    file = write(environ, "port = = 1")
    with pytest.raises(InvalidArgument) as refused:
        load({}, environ)
    assert str(file) in refused.value.message


def test_another_file_can_be_named_and_must_then_exist(environ: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text('data = "/srv/wakeline"\n')
    del environ["WAKELINE_DATA"]
    settings, sources = load({}, environ | {"WAKELINE_CONFIG": str(other)})
    assert (settings.data, sources["data"]) == (Path("/srv/wakeline"), f"file {other}")
    with pytest.raises(InvalidArgument, match="config"):
        load({}, environ | {"WAKELINE_CONFIG": str(tmp_path / "missing.toml")})


def test_a_repr_shows_no_secret() -> None:
    settings = Settings(data=Path("/d"), key="secret-key", database="postgresql://user:hidden@host/db")
    assert "secret-key" not in repr(settings)
    assert "hidden" not in repr(settings)


def test_ranges_are_read_and_checked(environ: dict[str, str]) -> None:
    environ["WAKELINE_WEBHOOK_ALLOW"] = "127.0.0.0/8, fd00::/8"
    assert load({}, environ)[0].webhook_allow == ("127.0.0.0/8", "fd00::/8")
    for wrong in ("127.0.0.1/8", "localhost", "10.0.0.0/33"):
        environ["WAKELINE_WEBHOOK_ALLOW"] = wrong
        with pytest.raises(InvalidArgument) as caught:
            load({}, environ)
        assert caught.value.code == "SETTING_INVALID"


@pytest.mark.parametrize(("timeout", "lease"), [("300", None), ("25.5", None), ("30", "30"), ("11", "15")])
def test_an_attempt_that_could_outlive_its_lease_is_refused(
    environ: dict[str, str], timeout: str, lease: str | None
) -> None:
    environ["WAKELINE_WEBHOOK_TIMEOUT_SECONDS"] = timeout
    with pytest.raises(InvalidArgument, match="lease_seconds must be") as caught:
        load({"lease_seconds": lease}, environ)
    assert caught.value.code == "SETTING_INVALID"
    assert "'webhook_timeout_seconds' (environment WAKELINE_WEBHOOK_TIMEOUT_SECONDS)" in caught.value.message


@pytest.mark.parametrize(("timeout", "lease"), [("10", "15"), ("25", "30"), ("300", "305"), ("0.5", "15")])
def test_an_attempt_that_fits_into_its_lease_is_taken(environ: dict[str, str], timeout: str, lease: str) -> None:
    environ |= {"WAKELINE_WEBHOOK_TIMEOUT_SECONDS": timeout, "WAKELINE_LEASE_SECONDS": lease}
    assert load({}, environ)[0].lease_seconds == int(lease)
