"""Requests that a plan rejects, and conflicts between policies: counted and logged once while they last."""

from __future__ import annotations

from cotenant.engine.node.decision_log import DecisionKind, DecisionLog
from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.knobs.plan import KnobPlan, RejectCause
from cotenant.model.machine.knob import KnobTarget
from cotenant.model.machine.node_decision import Reason


class RejectedRequests:
    """Those of one node's plans."""

    def __init__(self, counts: AgentCounts, log: DecisionLog) -> None:
        self._counts, self._log = counts, log
        self._noted: frozenset[tuple[str, KnobTarget, str]] = frozenset()

    def note(self, plan: KnobPlan, now_us: int) -> None:
        """What is new in this plan."""
        seen: set[tuple[str, KnobTarget, str]] = set()
        for rejected in plan.rejected:
            desired_knob, mark = rejected.request, (rejected.policy, rejected.request.target, rejected.why.value)
            if mark in seen:
                continue
            seen.add(mark)
            if mark not in self._noted:
                self._counts.outside_roots += rejected.why is RejectCause.OUTSIDE
                self._counts.bad_wishes += rejected.why is not RejectCause.OUTSIDE
                target, value = desired_knob.target, desired_knob.value
                reason = Reason("unfit", f"{target} at {value!r} {rejected.why}")
                self._log.note(now_us, DecisionKind.REFUSED, rejected.policy, target.group, reason, target, value)
        for target, desired in plan.desired.items():
            if desired.overruled:
                mark = (desired.policy, target, "conflict")
                seen.add(mark)
                self._counts.conflicts += mark not in self._noted
        self._noted = frozenset(seen)
