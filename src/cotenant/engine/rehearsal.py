"""A rehearsal: a few judgements on a cluster that does not exist.

Problem: what compiles on first use would stop the event loop for half a minute while a lease runs out and pods wait. Choice: before anything
is at stake, go once through every way that a judgement can take. Limits: the first time on a machine it takes that half minute.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Effect, Match, Taint, Toleration
from cotenant.model.groups.quota import Quota, QuotaObject
from cotenant.model.resources import Amounts
from cotenant.policy.placement.contract import RoundPolicy
from cotenant.policy.placement.profiles import PlacementProfile


def rehearse(policy: PlacementProfile | RoundPolicy) -> None:
    """Judge a few pods of a cluster that does not exist, so that nothing waits for what compiles on first use."""
    cluster = Cluster(policy, np.random.default_rng(0))
    size = Amounts.of({"cpu": 1000, "memory": 1 << 30})
    node = Node("rehearsal", size, taints=(Taint("rehearsal", effect=Effect.PREFER_NO_SCHEDULE),))
    cluster.node_seen(node)
    for i, tolerations in enumerate(((), (Toleration("rehearsal", Match.EXISTS),), ())):
        pod = Pod(f"rehearsal-{i}", requests=Amounts.of({"cpu": 400, "memory": 1 << 20}), tolerations=tolerations)
        cluster.pod_seen(ObservedPod(pod, pod.name, cluster.settings.scheduler, 0.0), 0.0)
    cluster.decide(0.0)
    cluster.pod_seen(
        ObservedPod(Pod("rehearsal-3", requests=size), "rehearsal-3", cluster.settings.scheduler, 0.0), 0.0
    )
    cluster.decide(1.0)
    cluster.node_seen(replace(node, allocatable=size + size))
    cluster.decide(20.0)
    # the same pods have a quota now, that one of them is too many for
    cluster.plugins.quotas.quota_seen(QuotaObject("rehearsal/default", "", Quota("default", size + size)), 20.0)
    cluster.pod_seen(
        ObservedPod(Pod("rehearsal-4", requests=size), "rehearsal-4", cluster.settings.scheduler, 0.0), 20.0
    )
    cluster.decide(21.0)
    cluster.pod_gone("rehearsal-3", 21.0)
    cluster.decide(60.0)
