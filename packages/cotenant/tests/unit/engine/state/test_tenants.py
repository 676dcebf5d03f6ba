"""What the scheduler keeps of tenants, whose names are the pods' owners' to write."""

from __future__ import annotations

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile


def test_names_that_come_and_go_leave_nothing_behind_and_sums_stay_right() -> None:
    """One namespace names another tenant with each of its pods."""
    c = Cluster(profile("founding"), np.random.default_rng(1))
    c.node_seen(Node("n", Amounts.of({"cpu": 100_000, "memory": 64 << 30}), Labels.of({HOSTNAME: "n"})))
    request = Amounts.of({"cpu": 100, "memory": 1 << 20})
    c.pod_seen(ObservedPod(Pod("stays", tenant="a", requests=request), "stays", "cotenant", 0.0, node="n"), 0.0)
    sizes = []
    for i in range(1_500):
        value = Pod(f"p{i}", tenant=f"t{i}", requests=request)
        c.pod_seen(ObservedPod(value, f"u{i}", "cotenant", 0.0, node="n"), float(i))
        if i % 100 == 0:
            c.decide(float(i))
            c.validate()
        c.pod_gone(f"u{i}", float(i))
        sizes.append(c._components.assignments.encoder.tenant_rows)
    c.validate()
    assert sizes[-1] == max(sizes[:700])
    assert len(c._components.assignments.ledger.tenants.weight) < 1_000
