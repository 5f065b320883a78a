"""The one door of all faces: a module per noun, put together here."""

from __future__ import annotations

from dataclasses import dataclass

from wakeline.core.principal import Caller
from wakeline.service.activations import Activations
from wakeline.service.audit import Audit
from wakeline.service.bridges import Bridges
from wakeline.service.callbacks import Callbacks
from wakeline.service.dead_letters import DeadLetters
from wakeline.service.deliveries import Deliveries
from wakeline.service.hub import Hub
from wakeline.service.identity import Identity
from wakeline.service.inbox import Inboxes
from wakeline.service.launches import Launches
from wakeline.service.listeners import Published, Stream
from wakeline.service.log import Logs
from wakeline.service.messages import Messages
from wakeline.service.operations import Operations
from wakeline.service.principals import Principals
from wakeline.service.proofs import Proofs
from wakeline.service.pushes import Ear, Push, Pushes
from wakeline.service.sessions import Sessions
from wakeline.service.subscriptions import Subscriptions
from wakeline.service.threads import Threads
from wakeline.service.wake_protocol import WakeProtocol

__all__ = ["Caller", "Ear", "Hub", "Identity", "Published", "Push", "Pushes", "Services", "Stream"]


@dataclass(frozen=True, slots=True)
class Services:
    identity: Identity
    messages: Messages
    inboxes: Inboxes
    threads: Threads
    principals: Principals
    sessions: Sessions
    logs: Logs
    dead_letters: DeadLetters
    deliveries: Deliveries
    subscriptions: Subscriptions
    callbacks: Callbacks
    wake_protocol: WakeProtocol
    operations: Operations
    audit: Audit
    hub: Hub
    pushes: Pushes
    bridges: Bridges
    proofs: Proofs
    activations: Activations
    launches: Launches
