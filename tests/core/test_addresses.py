from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeline.core.message import Audience, audience_key, is_standing, parse_audience
from wakeline.core.principal import RESERVED, parse_handle, parse_new_handle, parse_role
from wakeline.errors import InvalidArgument

handles = st.from_regex(r"@[a-z0-9][a-z0-9._-]{0,62}", fullmatch=True).filter(lambda handle: handle not in RESERVED)


@pytest.mark.parametrize("text", ["@a", "@7", "@a.b_c-d", "@" + "a" * 63])
def test_a_handle_is_taken_as_it_is(text: str) -> None:
    assert parse_handle(text) == parse_new_handle(text) == text


NO_HANDLES = [
    "", "@", "a", "@A", "@-a", "@.a", "@a b", "@a\n", "@a\r\nx: y", "@ä", "@a/b", "@a@b", "@@a", "@" + "a" * 64,
    "@a\0", " @a", "@a ", "everyone", "role:a",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_HANDLES)
def test_what_is_not_a_handle_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_handle(text)


@pytest.mark.parametrize("text", sorted(RESERVED))
def test_a_reserved_word_is_nobodys_name(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_new_handle(text)


@pytest.mark.parametrize("text", ["a", "reviewer", "code_review-2", "a" * 63])
def test_a_role_is_one_lower_case_word(text: str) -> None:
    assert parse_role(text) == text


@pytest.mark.parametrize("text", ["", "A", "1a", "-a", "a b", "a\n", "a:b", "ä", "a" * 64, "a\0"])
def test_what_is_not_a_role_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_role(text)


@pytest.mark.parametrize(
    ("to", "audience"),
    [
        (["@bob"], Audience(handles=("@bob",))),
        (["@bob", "@carol", "@bob"], Audience(handles=("@bob", "@carol"))),  # named twice is named once
        (["@me"], Audience(handles=("@alice",))),
        (["@alice", "@me"], Audience(handles=("@alice",))),
        (["@bob/s1"], Audience(handles=("@bob",), sessions=(("@bob", "s1"),))),
        (["@bob", "@bob/s1"], Audience(handles=("@bob",), sessions=(("@bob", "s1"),))),  # one agent, one receipt
        (["@bob/s1", "@bob/s2"], Audience(handles=("@bob",), sessions=(("@bob", "s1"), ("@bob", "s2")))),
        (["@bob/s1", "@bob/s1"], Audience(handles=("@bob",), sessions=(("@bob", "s1"),))),
        (["@me/s1"], Audience(handles=("@alice",), sessions=(("@alice", "s1"),))),
        (["@meg"], Audience(handles=("@meg",))),
        (["role:reviewer"], Audience(role="reviewer")),
        (["everyone"], Audience(everyone=True)),
        (["@everyone"], Audience(everyone=True)),
    ],
)
def test_an_address_is_some_handles_or_one_role_or_everyone(to: list[str], audience: Audience) -> None:
    assert parse_audience(to, "@alice") == audience


@pytest.mark.parametrize(
    "to",
    [
        [],
        ["@bob", "everyone"],
        ["role:a", "role:b"],
        ["role:a", "@bob"],
        ["everyone", "everyone"],
        ["@system"],
        ["@bob", "@system"],
        ["role:"],
        ["role:A"],
        ["bob"],
        ["@bob\nrole:a"],
        ["@bob/"],
        ["@bob/a/b"],
        ["@bob/a b"],
        ["@bob/a\n"],
        ["@bob/" + "a" * 201],
        ["@system/s1"],
        ["@everyone/s1"],
        ["everyone/s1"],
        ["role:a/s1"],
        ["/s1"],
        [""],
    ],
)
def test_an_address_that_means_nothing_or_two_things_is_refused(to: list[str]) -> None:
    with pytest.raises(InvalidArgument):
        parse_audience(to, "@alice")


@given(st.lists(handles, min_size=1, max_size=6), handles)
def test_a_set_of_people_has_one_key_whoever_of_them_writes(to: list[str], sender: str) -> None:
    everybody = [sender, *to]
    keys = {
        audience_key(parse_audience([other for other in everybody if other != writer] or [writer], writer), writer)
        for writer in everybody
    }
    assert keys == {audience_key(Audience(handles=tuple(everybody)), sender)}


@given(st.frozensets(handles, min_size=1, max_size=4), st.frozensets(handles, min_size=1, max_size=4))
def test_two_sets_of_people_have_two_keys(one: frozenset[str], other: frozenset[str]) -> None:
    first, second = (audience_key(Audience(handles=tuple(people)), min(people)) for people in (one, other))
    assert (first == second) == (one == other)


def test_an_address_keeps_the_session_that_it_named() -> None:
    audience = parse_audience(["@bob/s1", "@carol", "@bob/s2"], "@alice")
    assert audience.addresses(audience.handles) == ["@bob/s1", "@bob/s2", "@carol"]
    assert audience.addresses(["@carol"]) == ["@carol"]
    assert audience_key(audience, "@alice") == audience_key(parse_audience(["@bob", "@carol"], "@alice"), "@alice")


def test_a_crowd_has_a_key_that_every_database_can_index() -> None:
    crowd = Audience(handles=tuple(f"@{n:062d}" for n in range(500)))
    key = audience_key(crowd, "@a")
    assert len(key) <= 2000
    assert key != audience_key(crowd, "@b")
    assert not is_standing(key)


def test_only_roles_and_everyone_have_standing_threads() -> None:
    assert is_standing(audience_key(Audience(role="reviewer"), "@a"))
    assert is_standing(audience_key(Audience(everyone=True), "@a"))
    assert not is_standing(audience_key(Audience(handles=("@everyone1",)), "@a"))
    assert not is_standing(None)
