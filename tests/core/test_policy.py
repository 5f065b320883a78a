from __future__ import annotations

import pytest

from wakeline.core.log import Workspace
from wakeline.core.picture import Facts, Picture
from wakeline.core.policy import CAN_READ_INBOX_OF, CAN_REPLY_TO, check_direct
from wakeline.core.principal import AUDITOR, COORDINATOR, HUMAN_ROLE, PARTICIPANT, Caller, Kind
from wakeline.core.records import Block, Grant
from wakeline.errors import Forbidden

AGENT = Caller(1, "default", "@alice", Kind.AGENT, PARTICIPANT)
AUDIT = Caller(1, "default", "@alice", Kind.AGENT, AUDITOR)
LEAD = Caller(1, "default", "@alice", Kind.AGENT, COORDINATOR)
HUMAN = Caller(1, "default", "@alice", Kind.HUMAN, HUMAN_ROLE)

GRANT = Grant(1, CAN_REPLY_TO, "@alice", "@bob", "@bob", 0)
REVOKED = Grant(1, CAN_REPLY_TO, "@alice", "@bob", "@bob", 0, revoked_at=1)
OTHER_WAY = Grant(1, CAN_REPLY_TO, "@bob", "@alice", "@alice", 0)
OTHER_SCOPE = Grant(1, CAN_READ_INBOX_OF, "@alice", "@bob", "@bob", 0)
BLOCK = Block(1, "@bob", "@alice", "@bob", 0)
LIFTED = Block(1, "@bob", "@alice", "@bob", 0, lifted_at=1)
THEIR_BLOCK = Block(1, "@alice", "@bob", "@alice", 0)


@pytest.mark.guarantee("G-BLOCK")
@pytest.mark.parametrize(
    ("policy", "caller", "known", "grants", "blocks", "expected", "why"),
    [
        ("open", AGENT, False, [], [], "yes", "anybody may write first"),
        ("open", AGENT, False, [], [BLOCK], "BLOCKED", "except who is blocked"),
        ("open", AGENT, False, [], [LIFTED], "yes", "a lifted block is none"),
        ("open", AGENT, False, [], [THEIR_BLOCK], "yes", "a block works one way"),
        ("granted", AGENT, False, [], [], "GRANT_MISSING", "nobody allowed it"),
        ("granted", AGENT, True, [], [], "yes", "an answer needs no grant"),
        ("granted", AGENT, False, [GRANT], [], "yes", "the recipient allowed it"),
        ("granted", AGENT, False, [REVOKED], [], "GRANT_MISSING", "and took it back"),
        ("granted", AGENT, False, [OTHER_WAY], [], "GRANT_MISSING", "a grant works one way"),
        ("granted", AGENT, False, [OTHER_SCOPE], [], "GRANT_MISSING", "reading is not writing"),
        ("granted", AUDIT, False, [], [], "GRANT_MISSING", "an auditor has no right to write"),
        ("granted", LEAD, False, [], [], "yes", "a coordinator coordinates"),
        ("granted", HUMAN, False, [], [], "yes", "the human may always write"),
        ("granted", AGENT, False, [GRANT], [BLOCK], "BLOCKED", "a block wins over a grant"),
        ("granted", AGENT, True, [], [BLOCK], "BLOCKED", "over an answer"),
        ("open", LEAD, False, [], [BLOCK], "BLOCKED", "over a role"),
        ("open", HUMAN, False, [], [BLOCK], "BLOCKED", "and over a human, if a human set it"),
    ],
)
def test_who_may_write_to_whom_first(
    policy: str,
    caller: Caller,
    *,
    known: bool,
    grants: list[Grant],
    blocks: list[Block],
    expected: str,
    why: str,
) -> None:
    picture = Picture(Facts(0, Workspace(1, "default", "e", 0, 0, 1, 0), grants=grants, blocks=blocks))
    if expected == "yes":
        check_direct(picture, caller, "@bob", known=known, policy=policy)
        return
    with pytest.raises(Forbidden) as caught:
        check_direct(picture, caller, "@bob", known=known, policy=policy)
    assert caught.value.code == expected, why
    assert caught.value.details["rule"]


def test_nobody_needs_a_grant_to_write_to_themselves() -> None:
    picture = Picture(Facts(0, Workspace(1, "default", "e", 0, 0, 1, 0)))
    check_direct(picture, AGENT, "@alice", known=False, policy="granted")


@pytest.mark.parametrize(
    ("caller", "human", "reads_everything", "manages_threads"),
    [
        (AGENT, False, False, False),
        (Caller(1, "default", "@a", Kind.AGENT, HUMAN_ROLE), False, False, False),  # a word is not a kind
        (AUDIT, False, True, False),
        (LEAD, False, True, True),
        (HUMAN, True, True, True),
        (Caller(1, "default", "@a", Kind.HUMAN, PARTICIPANT), True, True, True),
    ],
)
def test_rights_follow_from_kind_and_role(
    caller: Caller, *, human: bool, reads_everything: bool, manages_threads: bool
) -> None:
    found = (caller.is_human, caller.reads_everything, caller.manages_threads)
    assert found == (human, reads_everything, manages_threads)
