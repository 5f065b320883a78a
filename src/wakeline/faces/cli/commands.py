"""The tables of the command line: its commands, its groups and its exit codes.

Only the module of the command that runs is imported, so this says in which module each one is.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable

    from wakeline.faces.cli.context import Context

OK, FAILED, USAGE, NOT_FOUND, NOT_ALLOWED, UNAVAILABLE, NO_REPLY, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130

EXIT_CODES = {
    OK: "done",
    FAILED: "failed or refused",
    USAGE: "wrong usage",
    NOT_FOUND: "not found",
    NOT_ALLOWED: "not authenticated, or not allowed",
    UNAVAILABLE: "the server cannot be reached, or cannot serve now",
    NO_REPLY: "'ask' had no reply in time; the question stays posted",
    INTERRUPTED: "interrupted",
}

GROUPS = {
    "agent": "agents and humans",
    "token": "their tokens",
    "thread": "conversations",
    "deliveries": "wakes on their way, with every step",
    "activations": "attempts to bring dormant agents back",
    "session": "running instances of agents",
    "wake": "what wakes an agent, and by which route",
    "seat": "what runs inside a harness, started by it",
    "hook": "what the hooks of harnesses call",
    "dead-letter": "mail that could not be brought to anybody",
    "grant": "who may do what beyond the open rules",
    "block": "whose mail is not wanted",
    "workspace": "separate worlds on one server",
}

# name: the module it is in, and what it does in one line
INDEX = {
    "up": ("up", "run the server"),
    "bridge": ("bridge", "ring inside the sessions of this host, for a server elsewhere"),
    "connect": ("connect", "wire a harness to this server, so that mail wakes its sessions"),
    "disconnect": ("connect", "take a connection away, and put every file back as it was"),
    "run": ("run", "start a harness ready-wired, without writing into its configuration"),
    "mcp": ("mcp", "speak MCP on stdin and stdout"),
    "send": ("send", "post a message"),
    "ask": ("send", "post a message and wait for the reply"),
    "inbox": ("inbox", "show unread mail"),
    "read": ("inbox", "read a thread, or one message with its receipts"),
    "ack": ("inbox", "mark messages as read"),
    "archive": ("inbox", "put messages away"),
    "retract": ("inbox", "take back a message that nobody has read"),
    "search": ("inbox", "find messages by their words"),
    "thread create": ("threads", "open a thread"),
    "thread list": ("threads", "list threads"),
    "thread show": ("threads", "show a thread and its members"),
    "thread status": ("threads", "move a thread to another status"),
    "thread members": ("threads", "show, add or remove members"),
    "thread summary": ("threads", "summarise a thread"),
    "peers": ("sessions", "show who is there, with presence and unread mail"),
    "session heartbeat": ("sessions", "say that a session is there and how it is; hear of mail"),
    "session list": ("sessions", "list sessions"),
    "session end": ("sessions", "say that a session has ended"),
    "hook codex": ("codex", "tell how a Codex session is, and announce its mail in its turn"),
    "wake subscribe": ("wake", "be woken by what happens"),
    "wake list": ("wake", "list wake subscriptions"),
    "wake show": ("wake", "show a wake subscription, with how it is and what it did"),
    "wake update": ("wake", "change what wakes, or by which route"),
    "wake unsubscribe": ("wake", "remove a wake subscription"),
    "wake resume": ("wake", "try a degraded route again"),
    "wake resync": ("wake", "replay what is unread since a position"),
    "wake rotate-key": ("wake", "make a new signing key, and print it once"),
    "seat claude-code": ("seat", "serve a Claude Code session: the tools, and the doorbell"),
    "seat hook": ("seat", "wait for the doorbell, as a hook of a Claude Code without an inbox socket"),
    "agent add": ("identity", "add an agent or a human, and print a token once"),
    "agent list": ("identity", "list agents and humans"),
    "agent role": ("identity", "set an agent's roles"),
    "agent quiet": ("quiet", "say when somebody is not to be woken"),
    "agent activation": ("activations", "say what may be started for an agent that is dormant"),
    "agent retire": ("identity", "retire an agent: its tokens open nothing any more"),
    "token create": ("identity", "make a token, and print it once"),
    "token list": ("identity", "list tokens"),
    "token revoke": ("identity", "revoke a token"),
    "whoami": ("identity", "show who you are to the server"),
    "grant add": ("policy", "allow somebody something about somebody"),
    "grant remove": ("policy", "take a grant away"),
    "grant list": ("policy", "list grants"),
    "block add": ("policy", "refuse somebody's mail"),
    "block remove": ("policy", "lift a block"),
    "block list": ("policy", "list blocks"),
    "refusals": ("policy", "show what the rules have refused"),
    "log": ("log", "show the log, or follow it"),
    "status": ("operations", "show counts and positions"),
    "deliveries list": ("deliveries", "list wakes that were brought out"),
    "deliveries show": ("deliveries", "show a delivery with every step"),
    "deliveries retry": ("deliveries", "send again what did not arrive"),
    "activations list": ("activations", "list attempts to bring dormant agents back, and why nothing is started"),
    "activations show": ("activations", "show an attempt, with what its process printed"),
    "activations stop": ("activations", "end what was started for an agent"),
    "dead-letter list": ("operations", "list dead letters"),
    "dead-letter redrive": ("operations", "post a dead letter again"),
    "workspace add": ("operations", "add a workspace"),
    "workspace list": ("operations", "list workspaces"),
    "prune": ("operations", "remove old log rows and ended sessions now"),
    "backup": ("copies", "copy the database while it is in use"),
    "restore": ("copies", "put a backup in place of the database"),
    "doctor": ("doctor", "check that everything works, probe a harness, or ring a live session"),
    "levels": ("levels", "show what was proven of each way into a harness"),
    "config": ("config", "list every setting and where it came from"),
    "completion": ("completion", "print a completion script for a shell"),
    "version": ("config", "print the version"),
}


class Command:
    """One command: what it takes, what it does, and how people use it.

    `remote` commands call the server and take the options that say where it is and who we are.  One that `passes` hands
    what stands behind '--' on to another program, untouched.
    """

    __slots__ = ("arguments", "examples", "passes", "remote", "run", "usage")

    def __init__(
        self,
        run: Callable[[Context], int],
        *,
        arguments: Callable[[ArgumentParser], None] | None = None,
        usage: str = "",
        examples: tuple[str, ...],
        remote: bool = True,
        passes: bool = False,
    ) -> None:
        self.run, self.arguments, self.usage, self.examples, self.remote = run, arguments, usage, examples, remote
        self.passes = passes


def load(name: str) -> Command:
    module = __import__(f"wakeline.faces.cli.{INDEX[name][0]}", fromlist=("COMMANDS",))
    command: Command = module.COMMANDS[name]
    return command
