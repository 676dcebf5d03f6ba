"""`spec.minResources` of a PodGroup: no member is placed while the cluster has less than that free.

A gang whose minimum cannot fit should not be tried member by member, and its author may know what it needs beyond its
pods' requests. The sum of free resources over all nodes, with what the gang's own members hold or are nominated for
counted as free, is compared with minResources and as many pods as the minimum, before members are placed. Only the sum
counts: the filters still decide whether the members fit.
Limits: selectors, taints and cordons are not considered, as upstream; a satisfied gang is not checked again; no pod is
evicted for it.

Source: scheduler-plugins, pkg/coscheduling/core/core.go (PreFilter, CheckClusterResource), which also subtracts the
excess of nodes that are over capacity.
"""

from __future__ import annotations

import numpy as np

from cotenant.engine.framework.plugin import PodRefused
from cotenant.engine.plugins.gangs.members import Gang
from cotenant.engine.state.assignments import Assignments
from cotenant.model.resources import PODS_NAME, format_amount

FILTER = "GangResources"  # events that help are listed in engine/framework/events.py


def shortage(assignments: Assignments, gang: Gang) -> PodRefused | None:
    """Why members of a gang are not placed now; None if enough is free. The arrays must be up to date."""
    spec = gang.spec
    if spec is None or not spec.min_resources or gang.goes_alone():
        return None
    ledger = assignments.ledger
    nodes, axis = ledger.nodes, assignments.encoder.axis
    requested = nodes.requested.copy()
    for uid, entry in gang.members.items():
        if entry.row >= 0 and (entry.node or uid in assignments.reserved):
            requested[entry.row] -= ledger.shapes.request[entry.shape]
    free = np.where(nodes.ready[:, None], np.maximum(0, nodes.capacity - requested), 0).sum(axis=0)
    columns = {name: column for column, name in enumerate(axis.names)}
    missing = []
    for name, amount in (*spec.min_resources, (PODS_NAME, spec.min_available)):
        available = int(free[columns[name]]) if name in columns else 0
        if available < amount:
            missing.append(f"{format_amount(name, available)} of {format_amount(name, amount)} {name}")
    if not missing:
        return None
    message = f"gang {gang.key}: the cluster has less free than its minResources."
    return PodRefused(FILTER, message, f"Free are {', '.join(missing)}", about_nodes=True)
