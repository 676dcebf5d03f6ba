"""The CPU that batch may use on a node of the world: the arithmetic of the node policies, compiled.

The lab's results on node QoS must be about the code that runs on nodes, not about an approximation. The leaf functions
of `policy/nodeqos`, compiled unchanged, over milli-CPU.
Limits: the world settles a node at once, so limits that grow stepwise within seconds reach their end value; throttling
within a period is not modelled.
"""

from __future__ import annotations

from cotenant.model.compiled import njit
from cotenant.policy.nodeqos.cpu import allowance
from cotenant.policy.nodeqos.guard import step as guard_step
from cotenant_lab.world.state import Law, WorldState

allowance_m = njit(allowance.allowance_m)
slack_ppm = njit(guard_step.slack_ppm)
severity_of_slack = njit(guard_step.severity_of_slack)
next_mode = njit(guard_step.next_mode)
next_ceiling_m = njit(guard_step.next_ceiling_m)


@njit
def batch_budget_m(s: WorldState, w: Law, node: int, services_m: int) -> int:
    """The smaller of the allowance and the guard's ceiling, if there is a guard, milli-CPU. `services_m`: CPU used
    by services.
    """
    budget_m = max(w.min_m, allowance_m(w.capacity_m, w.threshold_pct, services_m, 0, 0))
    if w.node_guard:
        budget_m = min(budget_m, s.nodes[node].ceiling_m)
    return budget_m
