"""Every setting of the server: its default, its limits and its meaning, once.

A value comes from a flag, else from the environment (`WAKELINE_<NAME>`), else from the file (`$WAKELINE_CONFIG`, or
`config.toml` in the data directory), else from the default here.  Settings are read once, at start, and handed down;
nothing reads the environment later.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from wakeline.endpoint import CLIENT_SETTINGS, Sources, invalid

Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[int, Meta(ge=0)]
WakePolicy = Literal["silent", "next_turn", "immediate"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    data: Annotated[Path, Meta(description="The directory that holds everything Wakeline keeps.")]
    host: Annotated[str, Meta(min_length=1, description="The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port to listen on; 0 picks a free one.")] = 7799
    database: Annotated[
        str,
        Meta(
            pattern=r"^(postgres(ql)?://.+)?$",
            description="postgresql://… to share one database between nodes; empty: SQLite in the data directory.",
        ),
    ] = ""
    default_workspace: Annotated[
        str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$", description="The workspace that the first start makes.")
    ] = "default"
    human_handle: Annotated[
        str, Meta(pattern=r"^@[a-z0-9][a-z0-9._-]{0,62}$", description="The human that the first start makes.")
    ] = "@human"

    rate_per_second: Annotated[Count, Meta(description="Messages that one sender may post per second.")] = 100
    rate_burst: Annotated[Count, Meta(description="Messages that one sender may post at once.")] = 1000
    subject_limit: Annotated[Count, Meta(description="The longest subject, in characters.")] = 200
    body_limit: Annotated[Count, Meta(description="The largest body, in bytes.")] = 262_144
    restricted_tags: Annotated[tuple[str, ...], Meta(description="Tags that only coordinators and humans may use.")] = (
        "system",
        "override",
    )
    direct_messages: Annotated[
        Literal["open", "granted"],
        Meta(description="Who may write to whom first: open to all, or only with a CAN_REPLY_TO grant."),
    ] = "open"
    direct_wake_policy: Annotated[
        WakePolicy,
        Meta(description="When direct messages, and questions that wait for a reply, wake, unless they say."),
    ] = "immediate"
    broadcast_wake_policy: Annotated[
        WakePolicy, Meta(description="When mail to a role or to everyone wakes, unless it says.")
    ] = "next_turn"

    coalesce_seconds: Annotated[
        int, Meta(ge=0, le=300, description="The window in which further events become one digest; 0: none.")
    ] = 30
    coalesce_cap_seconds: Annotated[
        Count, Meta(description="How long the first event of a digest waits at most, in seconds.")
    ] = 300
    wake_budget_per_hour: Annotated[Count, Meta(description="Wakes that one agent gets per hour.")] = 60
    wake_age_seconds: Annotated[
        Count, Meta(description="An event whose delivery failed is not tried again when it is older, in seconds.")
    ] = 3600
    outstanding_seconds: Annotated[
        Count, Meta(description="How long a wake under way keeps others away from its session, in seconds.")
    ] = 300
    supervisor_seconds: Annotated[Count, Meta(description="How often undelivered wakes are looked at again.")] = 30
    lease_seconds: Annotated[
        int,
        Meta(
            ge=15,
            description="How long a node may hold a delivery without settling it, in seconds; "
            "5 more than webhook_timeout_seconds at least.",
        ),
    ] = 30
    repoke_seconds: Annotated[
        Count, Meta(description="After how long a rung session whose mail stays unread is rung again, in seconds.")
    ] = 900
    repoke_limit: Annotated[
        Amount, Meta(description="How often mail that stays unread rings again inside sessions; 0: never.")
    ] = 2
    bridge: Annotated[bool, Meta(description="Run the bridge for the sessions of this host in the server.")] = True
    bridge_host: Annotated[
        str, Meta(max_length=200, description="The name of this host, as its sessions know it; empty: the system's.")
    ] = ""
    codex_homes: Annotated[
        tuple[str, ...],
        Meta(description="The Codex homes whose threads the bridge follows; empty: CODEX_HOME, or ~/.codex."),
    ] = ()
    codex_steer: Annotated[
        bool, Meta(description="Ring inside a running turn of Codex; what the model was just saying is lost.")
    ] = False
    commands_file: Annotated[
        str,
        Meta(description="The operator's own commands that ring agents; empty: commands.toml beside the data."),
    ] = ""
    opencode_servers: Annotated[
        tuple[str, ...], Meta(description="The addresses of opencode servers whose sessions the bridge follows.")
    ] = ()
    opencode_password_file: Annotated[
        str, Meta(description="A file with the password of these servers; empty: OPENCODE_SERVER_PASSWORD, or none.")
    ] = ""
    heartbeat_seconds: Annotated[
        Amount, Meta(description="How often agents without a healthy push route get a pulse, in seconds; 0: never.")
    ] = 300
    heartbeat_bypass: Annotated[
        bool, Meta(description="Pass over agents with a healthy push route; off: pulses for all, to diagnose.")
    ] = True
    delivery_retention_days: Annotated[
        Count, Meta(description="How long settled deliveries and their evidence are kept, in days.")
    ] = 30
    loop_turn_limit: Annotated[
        Amount, Meta(description="Turns between agents in one thread without progress that call the human; 0: any.")
    ] = 20
    loop_repeat_limit: Annotated[
        Amount, Meta(description="How often agents may say one text in a row before the human is called; 0: any.")
    ] = 3
    loop_chain_limit: Annotated[
        int,
        Meta(ge=0, le=50, description="Hops of one chain from thread to thread that call the human; 0: any."),
    ] = 8
    status_flip_limit: Annotated[
        Amount,
        Meta(
            description="How often agents may undo each other's change of a status before the human is called; 0: any."
        ),
    ] = 4
    cause_minutes: Annotated[
        Amount,
        Meta(description="How long what an agent took up counts as the cause of what it posts; 0: only replies do."),
    ] = 15
    presence_stale_seconds: Annotated[
        Count, Meta(description="After how long a session's presence is unknown, in seconds.")
    ] = 300
    dormant_seconds: Annotated[Count, Meta(description="After how long a silent session is dormant, in seconds.")] = 900
    activation_lag_seconds: Annotated[
        Amount, Meta(description="How long mail of a dormant agent is unread before anything is done, in seconds.")
    ] = 120
    activation_tries: Annotated[
        Amount, Meta(description="Ordinary wakes that a dormant agent gets before a process may be started.")
    ] = 3
    activation_backoff_seconds: Annotated[
        Count, Meta(description="How long to wait after a first try, in seconds; twice as long after each further one.")
    ] = 60
    activation_seconds: Annotated[
        Count, Meta(description="How long a process that was started for an agent may run, in seconds.")
    ] = 1800
    activation_concurrency: Annotated[
        Count, Meta(description="Processes started for agents that run at once, in one workspace.")
    ] = 4
    activation_per_hour: Annotated[
        Count, Meta(description="The most processes per hour that may be allowed for one agent.")
    ] = 12
    activation_failure_limit: Annotated[
        Count, Meta(description="Started processes in a row that bring nothing before no more are; the human hears.")
    ] = 3
    context_gate_tokens: Annotated[
        Count, Meta(description="How much context is too much for a session that names no limit, in tokens.")
    ] = 250_000

    token_days: Annotated[Count, Meta(description="How long a new token is valid, in days.")] = 90
    jwks_url: Annotated[str, Meta(description="Keys of an external token issuer; empty: the local one only.")] = ""
    jwks_issuer: Annotated[str, Meta(description="What the external issuer calls itself ('iss').")] = ""
    jwks_audience: Annotated[str, Meta(description="What the external issuer calls us ('aud').")] = ""
    jwks_refresh_seconds: Annotated[
        float, Meta(gt=0, description="How often the external issuer's keys are fetched, in seconds.")
    ] = 600
    jwks_keep_seconds: Annotated[
        float,
        Meta(ge=0, description="How long keys of an issuer that cannot be reached are still trusted, in seconds."),
    ] = 3600
    auto_provision: Annotated[
        bool, Meta(description="Add agents that the external issuer vouches for when they first call.")
    ] = False
    key: Annotated[
        str, Meta(description="The secret that encrypts stored secrets (environment only); empty: the file 'key'.")
    ] = ""

    log_retention_days: Annotated[
        Amount, Meta(description="How long log rows and ended sessions are kept, in days; 0: for ever.")
    ] = 30
    log_retention_rows: Annotated[Amount, Meta(description="How many log rows are kept; 0: no limit.")] = 0
    closed_thread_retention_days: Annotated[
        Amount,
        Meta(description="How long messages of closed threads are kept once all are read, in days; 0: for ever."),
    ] = 0
    dead_letters_per_sender: Annotated[Amount, Meta(description="Dead letters kept for one sender.")] = 100
    dead_letter_bytes: Annotated[Amount, Meta(description="The largest dead letter kept, in bytes.")] = 65_536

    subscriptions_per_agent: Annotated[Count, Meta(description="Wake subscriptions that one agent may have.")] = 1000
    webhook_allow: Annotated[
        tuple[str, ...],
        Meta(description="Ranges of addresses (CIDR) that webhooks may call although they are not public."),
    ] = ()
    webhook_timeout_seconds: Annotated[
        float, Meta(gt=0, le=300, description="How long one attempt of a webhook may take, in seconds.")
    ] = 10
    webhook_connections_per_host: Annotated[
        Count, Meta(description="Connections that webhooks hold to one host at once.")
    ] = 4
    webhook_key_overlap_hours: Annotated[
        Amount, Meta(description="How long the previous signing key signs beside a new one, in hours.")
    ] = 24

    max_streams: Annotated[Count, Meta(description="Event streams open at once.")] = 10_000
    stream_buffer: Annotated[Count, Meta(description="Frames a slow stream may lag behind before it is cut.")] = 256
    mcp_hosts: Annotated[
        tuple[str, ...],
        Meta(description="Names that /mcp answers to besides loopback's, if a proxy gives it others; '*': any."),
    ] = ()
    mcp_events: Annotated[bool, Meta(description="Offer MCP Events, a draft: poll, stream, webhooks.")] = False
    mcp_channel: Annotated[
        bool, Meta(description="Serve /channel/mcp, for Claude Code's channels: the handshake era of MCP only.")
    ] = False
    keepalive_seconds: Annotated[float, Meta(gt=0, description="How often an idle stream shows life, in seconds.")] = 15
    receive_seconds: Annotated[
        float, Meta(gt=0, description="How long one request may take to arrive, in seconds; then it is cut off.")
    ] = 30
    drain_seconds: Annotated[float, Meta(ge=0, description="How long a stopping server finishes work, in seconds.")] = (
        10
    )
    sweep_seconds: Annotated[
        float, Meta(gt=0, description="How often expiry runs and late answers are looked for, in seconds.")
    ] = 30
    metrics_public: Annotated[bool, Meta(description="Show /metrics to all, not only loopback and tokens.")] = False
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="How much the server writes to stderr.")
    ] = "info"

    def __repr__(self) -> str:
        """Never the secrets: a repr ends up in logs and in tracebacks."""
        return f"Settings({', '.join(f'{name}={show(self, name)!r}' for name in NAMES)})"


SETTLING_SECONDS = 5  # of a lease that an attempt leaves for its turn to be sent and for its result to be stored
SECRET = "key"  # noqa: S105 - the name of a setting
NAMES: tuple[str, ...] = Settings.__struct_fields__
DEFAULTS: dict[str, Any] = {
    field.name: field.default for field in msgspec.structs.fields(Settings) if field.default is not msgspec.NODEFAULT
}
_PASSWORD = re.compile(r"(://[^/@]*:)[^/]*@")
_KINDS = get_type_hints(Settings, include_extras=True)


def load(flags: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[Settings, dict[str, str]]:
    """The settings, and for each name where its value came from."""
    sources = Sources(flags, environ)
    _refuse_strangers(sources)
    values: dict[str, Any] = {"data": Path(sources.data)}
    origins = dict.fromkeys(NAMES, "default")
    for name in NAMES:
        found = sources.find(name)
        if found is None:
            continue
        value, origins[name] = found
        if name != "data":
            values[name] = _convert(name, value, origins[name])
    settings = Settings(**values)
    _require_time_to_settle(settings, origins)
    return settings, origins


def commands_path(settings: Settings) -> Path:
    """Where the operator's own commands stand."""
    given = settings.commands_file
    return Path(given).expanduser() if given else settings.data / "commands.toml"


def show(settings: Settings, name: str) -> Any:
    """One value as anybody may see it: no key, no password of the database."""
    value = getattr(settings, name)
    if name == SECRET:
        return "***" if value else ""
    if name == "database":
        return _PASSWORD.sub(r"\1***@", value)
    return str(value) if name == "data" else value


def describe(name: str) -> str:
    """The meaning of one setting."""
    for note in reversed(_KINDS[name].__metadata__):
        if isinstance(note, Meta) and note.description:
            return note.description
    raise LookupError(name)


def _convert(name: str, value: object, source: str) -> object:
    is_text = isinstance(value, str) and not source.startswith("file")  # a file has types of its own
    if is_text and isinstance(DEFAULTS.get(name), tuple):
        value = [word.strip() for word in str(value).split(",") if word.strip()]
    try:
        converted = msgspec.convert(value, _KINDS[name], strict=not is_text)
        if name == "webhook_allow":
            _check_networks(converted)
    except (msgspec.ValidationError, ValueError) as error:
        raise invalid(name, source, f"{str(error)[:1].lower()}{str(error)[1:]}") from None
    return converted


def _check_networks(texts: tuple[str, ...]) -> None:
    from wakeline.core.destination import parse_networks  # noqa: PLC0415 - only who allows any pays for it

    parse_networks(texts)


def _require_time_to_settle(settings: Settings, origins: Mapping[str, str]) -> None:
    """What outlives its lease is sent once more while it is still under way, and its own result counts for nothing."""
    needed = math.ceil(settings.webhook_timeout_seconds) + SETTLING_SECONDS
    if needed > settings.lease_seconds:
        why = (
            f"an attempt must end {SETTLING_SECONDS} s before its lease does, so lease_seconds must be {needed} or more"
        )
        raise invalid(
            "webhook_timeout_seconds", origins["webhook_timeout_seconds"], f"{why}, not {settings.lease_seconds}"
        )


def _refuse_strangers(sources: Sources) -> None:
    place = f"file {sources.path}"
    if SECRET in sources.file or "token" in sources.file:
        name = SECRET if SECRET in sources.file else "token"
        raise invalid(name, place, f"secrets are not read from here; use WAKELINE_{name.upper()}")
    for name in sources.file:
        if name not in NAMES and name not in CLIENT_SETTINGS:
            raise invalid(name, place, f"there is no such setting{_nearest(name)}")


def _nearest(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only a refusal pays for it

    close = get_close_matches(name, [*NAMES, *CLIENT_SETTINGS], n=1)
    return f"; the nearest is '{close[0]}'" if close else ""
