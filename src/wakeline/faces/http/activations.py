"""The operations of activation: for humans and agents, and for bridges."""

from __future__ import annotations

from wakeline import wire
from wakeline.faces.http.operation import Call, Operation


async def _allow(call: Call) -> wire.MandateView:
    return await call.services.activations.allow(call.caller, call.path["handle"], call.body)


async def _mandate(call: Call) -> wire.MandateView:
    return await call.services.activations.mandate(call.caller, call.path["handle"])


async def _list(call: Call) -> wire.Activations:
    return await call.services.activations.list(call.caller, call.query)


async def _get(call: Call) -> wire.ActivationView:
    return await call.services.activations.get(call.caller, call.path["activation_id"])


async def _stop(call: Call) -> wire.ActivationView:
    return await call.services.activations.stop(call.caller, call.path["activation_id"], call.body)


async def _claim(call: Call) -> wire.ActivationOrders:
    return await call.services.launches.claim(call.caller, call.body)


async def _start(call: Call) -> wire.ActivationSettled:
    return await call.services.launches.start(call.caller, call.body)


async def _settle(call: Call) -> wire.ActivationSettled:
    return await call.services.launches.settle(call.caller, call.body)


_AGENT = "/v1/agents/{handle}/activation"
_ONE = "/v1/activations/{activation_id}"
_BRIDGE = "/v1/bridge/activations"

# fmt: off
ACTIVATIONS: tuple[Operation, ...] = (
    Operation("PUT", _AGENT, "allow_activation", "Say what may be started for an agent that is dormant", _allow,
              wire.MandateView, body=wire.AllowActivation),
    Operation("GET", _AGENT, "get_mandate", "What may be started for an agent that is dormant", _mandate,
              wire.MandateView),
    Operation("GET", "/v1/activations", "list_activations",
              "Attempts to bring dormant agents back, newest first, and why nothing is started", _list,
              wire.Activations, query=wire.ActivationsQuery),
    Operation("GET", _ONE, "get_activation", "One attempt, with what its process printed", _get, wire.ActivationView),
    Operation("POST", f"{_ONE}/stop", "stop_activation", "End what was started for an agent", _stop,
              wire.ActivationView, body=wire.StopActivation),
    Operation("POST", f"{_BRIDGE}/claim", "claim_activations", "Take up what is to be started on the bridge's host",
              _claim, wire.ActivationOrders, body=wire.ClaimActivations, bridge=True),
    Operation("POST", f"{_BRIDGE}/start", "start_activation", "Say that a process runs, with its fence", _start,
              wire.ActivationSettled, body=wire.StartActivation, bridge=True),
    Operation("POST", f"{_BRIDGE}/settle", "settle_activation", "Say what came of a process, with its fence", _settle,
              wire.ActivationSettled, body=wire.SettleActivation, bridge=True),
)
# fmt: on
