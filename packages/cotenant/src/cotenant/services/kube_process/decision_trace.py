"""The spans of one decision of a process, put together when it has ended.

A decision takes seconds to minutes, and nothing should be kept for it in the meantime. A trace is made at the end, from
times that the process has anyway: a root and the phases below it. The root is a SERVER span, so that decisions count as
requests of the process.
Limits: one level of phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import urandom
from typing import Protocol

from cotenant.drivers.otlp.encoding import Attributes, OwnSpan
from cotenant.model.traces.spans import SpanKind

LONGEST_REASON = 512  # characters


def of_pod(key: str, uid: str) -> dict[str, str | int]:
    """Attributes that name a pod, by OpenTelemetry's conventions. `key`: namespace/name."""
    namespace, _, name = key.partition("/")
    return {"k8s.namespace.name": namespace, "k8s.pod.name": name, "k8s.pod.uid": uid}


class SpanSink(Protocol):
    """Takes finished spans."""

    def add(self, spans: Sequence[OwnSpan]) -> None:
        """Send these soon."""
        ...


class DecisionTrace:
    """The root `name` and its phases. Times are Unix seconds."""

    def __init__(self, name: str, start_s: float, end_s: float) -> None:
        self._id, self._root = urandom(16).hex(), urandom(8).hex()
        self._name, self._start_s, self._end_s = name, start_s, end_s
        self._phases: list[OwnSpan] = []

    def phase(
        self,
        name: str,
        start_s: float,
        end_s: float,
        attributes: Attributes | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        error: str = "",
    ) -> None:
        """Add a phase."""
        self._phases.append(
            OwnSpan(self._id, urandom(8).hex(), self._root, name, start_s, end_s, kind, attributes or {}, error)
        )

    def finished(self, result: str, attributes: Attributes, error: str = "") -> list[OwnSpan]:
        """The root, with `result` as `cotenant.result`, and its phases."""
        root = OwnSpan(
            self._id,
            self._root,
            "",
            self._name,
            self._start_s,
            self._end_s,
            SpanKind.SERVER,
            {**attributes, "cotenant.result": result},
            error,
        )
        return [root, *self._phases]
