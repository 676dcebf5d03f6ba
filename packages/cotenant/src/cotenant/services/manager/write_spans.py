"""OpenTelemetry spans of the manager's writes.

When amounts of a node come late it is not visible whether deciding, the limit of writes a second or the API server took
the time. A trace for each write that was answered, named by what was written.

    write Node          from the round that decided it to the answer
      decide            the round, shared by all of its writes
      wait              for the limit of writes a second, and earlier attempts
      request           to the API server

Limits: a write that a newer one of the same object replaced, and one that was dropped because leadership was lost, have
no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cotenant.drivers.kube.client.client import Client
from cotenant.engine.manager.instructions import DeleteObject
from cotenant.model.errors import CotenantError, Transient
from cotenant.model.json_object import JsonValue
from cotenant.model.traces.spans import SpanKind
from cotenant.services.kube_process.decision_trace import LONGEST_REASON, DecisionTrace, SpanSink
from cotenant.services.kube_process.statuses import Writer

DECIDE, WAIT, REQUEST = "decide", "wait", "request"


class KeyedWrite(Protocol):
    """A write of one object."""

    @property
    def key(self) -> tuple[str, str]:
        """What is written, and the object's name."""
        ...


@dataclass(slots=True)
class _Decided:
    """A write that is not answered."""

    write: KeyedWrite
    begun_s: float  # the round
    decided_s: float
    writes: int  # decided in the round


class WriteSpans:
    """Writes that are under way. `now`: the process's clock, Unix seconds."""

    def __init__(self, sink: SpanSink, now: Callable[[], float]) -> None:
        self._sink, self._now = sink, now
        self._open: dict[tuple[str, str], _Decided] = {}  # by key; at most one for each object

    def decided(self, writes: Sequence[KeyedWrite], begun_s: float) -> None:
        """A round that began then has decided these writes now."""
        now_s = self._now()
        for write in writes:
            self._open[write.key] = _Decided(write, begun_s, now_s, len(writes))

    def traced(self, writers: Mapping[type, Writer]) -> dict[type, Writer]:
        """The same writers, with a trace for each answer."""
        return {type_: self._traced(writer) for type_, writer in writers.items()}

    def _traced(self, writer: Writer) -> Writer:
        async def write(client: Client, what: JsonValue) -> None:
            sent_s = self._now()
            try:
                await writer(client, what)
            except Transient:
                raise  # it is tried again
            except CotenantError as error:
                self._answered(what, sent_s, str(error)[:LONGEST_REASON])
                raise
            self._answered(what, sent_s, "")

        return write

    def _answered(self, write: KeyedWrite, sent_s: float, why: str) -> None:
        found = self._open.get(write.key)
        if found is None or found.write is not write:  # a newer one waits already
            return
        del self._open[write.key]
        now_s = self._now()
        kind, name = write.key
        trace = DecisionTrace(
            f"{'delete' if isinstance(write, DeleteObject) else 'write'} {kind}", found.begun_s, now_s
        )
        trace.phase(DECIDE, found.begun_s, found.decided_s, {"cotenant.round.writes": found.writes})
        trace.phase(WAIT, found.decided_s, sent_s)
        trace.phase(REQUEST, sent_s, now_s, kind=SpanKind.CLIENT, error=why)
        said = {"cotenant.object": name}
        if why:
            said["cotenant.reason"] = why
        self._sink.add(trace.finished("refused" if why else "written", said, why))
