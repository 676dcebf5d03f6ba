"""OpenTelemetry spans of scheduling attempts.

Why one pod took long to be bound is not in a histogram, and spans must cost nothing where they are off. A trace for
each attempt that ends in a bind or in a new reason to wait, made from times that the process has anyway: when the pod
could first be judged, the round that decided it, when the bind was sent, and when it was answered. `TracedOutcomes`
stands between the binder and the engine only where spans are on.

    schedule pod          from the first time that the pod could be judged to the answer
      queue wait          until the round that decided it; after a failed attempt it includes the earlier attempts and
                          back-offs
      filter and score    the round, shared by all pods that were decided in it
      reserve             assigned in memory until the bind is sent: waiting for a slot of --binds-in-flight
      bind                volumes of the pod, then the Binding request

Limits: filters and scores are one compiled pass, so they are one span. A pod that is refused again for the same reason
gets no further trace, like its condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.engine.framework.instructions import Bind, Instruction, Unschedulable
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.traces.spans import SpanKind
from cotenant.services.kube_process.decision_trace import LONGEST_REASON, DecisionTrace, SpanSink, of_pod
from cotenant.services.scheduler.actions.binding import BindOutcomes

ROOT, QUEUE, JUDGE, RESERVE, BIND = "schedule pod", "queue wait", "filter and score", "reserve", "bind"


@dataclass(slots=True)
class _Attempt:
    """A decided bind that is not answered."""

    bind: Bind
    begun_s: float  # the round
    decided_s: float
    pods: int  # decided in the round
    sent_s: float = 0.0  # 0 = not sent


class AttemptSpans:
    """Attempts that are under way. Times are those of the process's clock."""

    def __init__(self, sink: SpanSink) -> None:
        self._sink = sink
        self._open: dict[tuple[str, int], _Attempt] = {}  # by UID and number; as many as binds are under way

    def decided(self, instructions: Sequence[Instruction], begun_s: float, ended_s: float) -> None:
        """A round's instructions, with its begin and end."""
        made = [instruction for instruction in instructions if isinstance(instruction, Bind | Unschedulable)]
        for instruction in made:
            if isinstance(instruction, Bind):
                self._open[instruction.uid, instruction.number] = _Attempt(instruction, begun_s, ended_s, len(made))
            else:
                trace = DecisionTrace(ROOT, begun_s, ended_s)
                trace.phase(JUDGE, begun_s, ended_s, {"cotenant.round.pods": len(made)})
                said = {
                    **of_pod(instruction.key, instruction.uid),
                    "cotenant.nodes": instruction.record.nodes,
                    "cotenant.profile": instruction.record.policy,
                    "cotenant.reason": instruction.message[:LONGEST_REASON],
                }
                self._sink.add(trace.finished("unschedulable", said))

    def sending(self, uid: str, now_s: float, number: int) -> None:
        """This bind of the pod is being sent."""
        attempt = self._open.get((uid, number))
        if attempt is not None:
            attempt.sent_s = now_s

    def ended(self, uid: str, now_s: float, number: int, error: str = "") -> None:
        """This bind of the pod is answered; `error` says why it failed. What has no open attempt is ignored."""
        attempt = self._open.pop((uid, number), None)
        if attempt is None:
            return
        bind, record = attempt.bind, attempt.bind.record
        first_s = min(attempt.begun_s, record.at_s - bind.waited_s)
        trace = DecisionTrace(ROOT, first_s, now_s)
        trace.phase(QUEUE, first_s, attempt.begun_s)
        trace.phase(JUDGE, attempt.begun_s, attempt.decided_s, {"cotenant.round.pods": attempt.pods})
        trace.phase(RESERVE, attempt.decided_s, attempt.sent_s or now_s)
        if attempt.sent_s:
            trace.phase(BIND, attempt.sent_s, now_s, {"k8s.node.name": bind.node}, SpanKind.CLIENT, error)
        said = {
            **of_pod(bind.key, uid),
            "k8s.node.name": bind.node,
            "cotenant.nodes": record.nodes,
            "cotenant.profile": record.policy,
            "cotenant.attempts": bind.attempts,
        }
        if error:
            said["cotenant.reason"] = error[:LONGEST_REASON]
        self._sink.add(trace.finished("error" if error else "scheduled", said, error))


class TracedOutcomes:
    """`BindOutcomes` of an engine, noted in its attempts' spans."""

    def __init__(self, engine: BindOutcomes, spans: AttemptSpans) -> None:
        self._engine, self._spans = engine, spans

    def sending(self, uid: str, now_s: float, number: int) -> bool:
        """As the engine says; a withdrawn bind ends its attempt."""
        sends = self._engine.sending(uid, now_s, number)
        if sends:
            self._spans.sending(uid, now_s, number)
        else:
            self._spans.ended(uid, now_s, number, "withdrawn before it was sent")
        return sends

    def bound(self, uid: str, now_s: float, number: int) -> None:
        """The pod is bound."""
        self._engine.bound(uid, now_s, number)
        self._spans.ended(uid, now_s, number)

    def bind_failed(self, uid: str, why: str, now_s: float, retry: bool = True, number: int = 0) -> None:
        """The pod is not bound."""
        self._engine.bind_failed(uid, why, now_s, retry, number)
        self._spans.ended(uid, now_s, number, why)

    def bound_elsewhere(self, seen: ObservedPod, now_s: float, number: int) -> None:
        """Another scheduler has bound the pod."""
        self._engine.bound_elsewhere(seen, now_s, number)
        self._spans.ended(seen.uid, now_s, number, f"bound to {seen.node} by another scheduler")
