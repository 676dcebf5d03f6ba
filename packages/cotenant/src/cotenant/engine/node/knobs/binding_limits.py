"""The quotas of best-effort work that are held for the policy `best_effort_cpu`, with what binds it.

A service may be calm only because all best-effort work is held, and who asks what happened to it must hear so. What a
policy wants may be overruled or refused: only what the tracker has as its own counts.
Limits: quotas, not CPU sets; `NodeState.knobs` says whether a quota stands.
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.engine.node.knobs.knob_tracker import KnobTracker
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.node_state import BindingLimit
from cotenant.policy.nodeqos.cpu.best_effort import BestEffortCpuMemory

POLICY = "best-effort-cpu"


def binding_limits(tracker: KnobTracker, memory: object) -> Mapping[str, BindingLimit]:
    """By group. `memory`: the policy's; none where it is off."""
    if not isinstance(memory, BestEffortCpuMemory) or memory.binding is None:
        return {}
    limit = BindingLimit(POLICY, memory.binding, memory.binding_us)
    found = {}
    for wanted in memory.wanted:
        entry = tracker.get(wanted.target) if wanted.target.knob is Knob.CPU_MAX else None
        if entry is not None and entry.policy == POLICY and not entry.status.is_backing_off:
            found[wanted.target.group] = limit
    return found
