"""What this node did for objectives, from the agent's decisions: the `lastAction` of their status.

An objective's status should show whether a node acts for it, and the agent's log is on the node. Each decision about
best-effort work's CPU, or an eviction, is reported for every objective that burns on this node at that time. The last
rung of the recovery, a move, is nothing that this node can do: it is reported once, and the trace process asks for it.
Limits: a policy may have acted for another reason as well; its own words are the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cotenant.engine.node.decision_log import DecisionKind, KnobDecision
from cotenant.engine.node.recovery.policy import RecoveryMemory
from cotenant.engine.node.recovery.stages import RecoveryRung
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.node_state import NodeState
from cotenant.services.reporting.signals import MOVE_ACTION, ActionTaken

POLICIES = ("best-effort-cpu", "interference", "recovery")
_ACTIONS = {Knob.CPU_IDLE: "idle", Knob.CGROUP_FREEZE: "freeze"}
_MAX_TEXT = 500


def actions_of(
    decisions: Sequence[KnobDecision], state: NodeState, node: str, now_us: int, now_s: float
) -> Iterator[ActionTaken]:
    """The actions of new decisions; `now_us` and `now_s` are the same instant on the agent's clock and in Unix time."""
    burning = [
        (entry.pod.key, signal) for entry in state.pods for signal in entry.signals if signal.guard and signal.burns
    ]
    for decision in decisions:
        action = _action(decision)
        if not action:
            continue
        at_s = now_s - max(0, now_us - decision.at_us) / 1e6
        for pod, signal in burning:
            text = f"{decision.target or decision.pod}: {decision.reason.text}"[:_MAX_TEXT]
            yield ActionTaken(signal.objective, node, pod, action, text, max(0.0, at_s))


def moves_of(memory: RecoveryMemory, node: str, now_us: int, now_s: float, since_us: int) -> Iterator[ActionTaken]:
    """The moves that incidents wait for since `since_us`, not included. Clocks as in `actions_of`."""
    for incident in memory.incidents:
        lease = incident.lease
        if lease is None or lease.rung is not RecoveryRung.MOVE or lease.since_us <= since_us or not incident.objective:
            continue
        at_s = now_s - max(0, now_us - lease.since_us) / 1e6
        text = incident.events[-1].text[:_MAX_TEXT]
        yield ActionTaken(
            incident.objective, node, incident.name, MOVE_ACTION, text, max(0.0, at_s), culprit=lease.culprit_name
        )


def _action(decision: KnobDecision) -> str:
    """The action's name; empty for what is none."""
    if decision.what is DecisionKind.EVICTED:
        return "evict"
    if decision.policy not in POLICIES or decision.target is None:
        return ""
    if decision.what is DecisionKind.RELEASED:
        return "released"
    if decision.what is not DecisionKind.HELD:
        return ""
    return _ACTIONS.get(decision.target.knob, "cap")
