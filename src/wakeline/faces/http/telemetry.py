"""Prometheus metrics of the HTTP face and the streams behind it."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from wakeline.errors import WakelineError

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)


class Telemetry:
    content_type = CONTENT_TYPE_LATEST

    def __init__(self, issuer_age: Callable[[], float | None] | None = None) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "wakeline_request_seconds",
            "Requests by operation and status class, and how long they took.",
            ["operation", "status"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._refused = Counter(
            "wakeline_refusals_total", "Requests that were refused, by error code.", ["code"], registry=self.registry
        )
        self._unauthenticated = Counter(
            "wakeline_unauthenticated_total", "Calls without valid credentials.", registry=self.registry
        )
        self._streams = Gauge("wakeline_streams", "Event streams that are open now.", registry=self.registry)
        if issuer_age is not None:
            age = Gauge(
                "wakeline_issuer_keys_age_seconds",
                "How long ago the external issuer told us its keys; infinite: never.",
                registry=self.registry,
            )
            age.set_function(lambda: inf if (seconds := issuer_age()) is None else seconds)
        self._children: dict[tuple[str, int], Histogram] = {}

    def served(self, operation: str, status: int, seconds: float) -> None:
        key = (operation, status)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._seconds.labels(operation, str(status))
        child.observe(seconds)

    def refused(self, error: WakelineError) -> None:
        self._refused.labels(error.code).inc()

    def unauthenticated(self) -> None:
        self._unauthenticated.inc()

    def render(self, streams: int) -> bytes:
        self._streams.set(streams)
        return generate_latest(self.registry)
