"""Run in a process of its own: rehearse a policy, then put random clusters through everything, and print the
kernels that were compiled or loaded after the rehearsal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numba.core.dispatcher import Dispatcher

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Preempt
from cotenant.engine.rehearsal import rehearse
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod
from cotenant.model.cluster.pod import Pod, PodEstimate
from cotenant.model.cluster.taints import Match, Taint, TaintEffect, Toleration
from cotenant.model.groups.gang import GangMode, GangNotes, GangTopology
from cotenant.model.groups.quota import NAME, PREEMPTIBLE, Quota, QuotaObject
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.placement.contract import RoundPolicy
from cotenant.policy.placement.profiles import PlacementProfile, profile
from cotenant_lab.baselines.drf import DominantResourceFairness

STEPS = 150


def kernels() -> set[str]:
    """Every kernel of the package with every signature that it has machine code for in this process."""
    return {f"{name} {signature}" for name, kernel in _dispatchers() for signature in kernel.overloads}


def _dispatchers() -> Iterator[tuple[str, Dispatcher]]:
    for name, module in list(sys.modules.items()):
        if name.startswith("cotenant."):
            for var in vars(module).values():
                if isinstance(var, Dispatcher) and var.py_func.__module__ == name:
                    yield f"{name}.{var.py_func.__name__}", var


def random_cluster(policy: PlacementProfile | RoundPolicy, seed: int) -> None:
    """Pods, gangs, quotas, budgets, measurements and preemption in random order on a few nodes."""
    rng = np.random.default_rng(seed)
    cluster = Cluster(policy, np.random.default_rng(seed))
    pods: dict[str, ObservedPod] = {}
    names = [f"n{i}" for i in range(5)]
    for i, name in enumerate(names):
        taints = (Taint("soft", effect=TaintEffect.PREFER_NO_SCHEDULE),) if i == 0 else ()
        labels = Labels.of({HOSTNAME: name, ZONE: "ab"[i % 2]})
        cluster.node_seen(Node(name, Amounts.of({"cpu": 4000, "memory": 8 << 30, "pods": 9}), labels, taints=taints))
    for name, most, least in (("team", 9000, 2000), ("other", 9000, 4000)):
        min_of = Amounts.of({"cpu": least})
        quota = Quota(name, Amounts.of({"cpu": most}), min_of if rng.random() < 0.8 else NOTHING)
        cluster.plugins.quotas.quota_seen(QuotaObject(f"quotas/{name}", name, quota), 0.0)
    cluster.budget_seen(DisruptionBudget("default", "b", LabelSelector.of({"app": "x"}), 1))
    for step in range(STEPS):
        now_s = 5.0 * step
        gang = None
        if rng.random() < 0.3:
            topology = GangTopology((ZONE,), True) if rng.random() < 0.3 else None
            gang = GangNotes(
                name=f"g{step}",
                min_available=int(rng.integers(1, 4)),
                mode=GangMode.STRICT if rng.random() < 0.7 else GangMode.NON_STRICT,
                topology=topology,
            )
        for i in range(int(rng.integers(1, 4))):
            labels = {"app": "x"} if rng.random() < 0.3 else {}
            labels |= {NAME: str(rng.choice(["team", "other"]))} if rng.random() < 0.5 else {}
            labels |= {PREEMPTIBLE: "false"} if rng.random() < 0.1 else {}
            service = rng.random() < 0.4
            pod = Pod(
                f"p{step}-{i}",
                requests=Amounts.of(
                    {"cpu": int(rng.choice([500, 1000, 3000])), "memory": int(rng.integers(1, 4)) << 30}
                ),
                priority=int(rng.integers(0, 4)) * 5,
                labels=Labels.of(labels),
                anti_affinity=(PodTerm(HOSTNAME, LabelSelector.of({"app": "x"})),) if rng.random() < 0.1 else (),
                tolerations=(Toleration("soft", Match.EXISTS),) if rng.random() < 0.3 else (),
                estimate=PodEstimate(0.4, 1 << 30, 0.3, 0.3, 0.5, np.inf if service else 60.0),
                objective_p99_ms=10.0 if service else None,
            )
            pods[pod.name] = ObservedPod(pod, pod.name, cluster.settings.scheduler, now_s, demands=Demands(gang=gang))
            cluster.pod_seen(pods[pod.name], now_s)
        for instruction in cluster.decide(now_s):
            gone: tuple[str, ...] = ()
            match instruction:
                case Bind(uid=uid, node=node) if cluster.sending(uid, now_s):
                    cluster.bound(uid, now_s)
                    pods[uid] = replace(pods[uid], node=node, started_s=now_s)
                    cluster.pod_seen(pods[uid], now_s)
                case Evict(victim=victim):
                    gone = (victim.uid,)
                case Preempt(victims=victims):
                    gone = tuple(victim.uid for victim in victims)
            for uid in gone:
                if pods.pop(uid, None) is not None:
                    cluster.pod_gone(uid, now_s)
        bound = [uid for uid, pod in pods.items() if pod.node]
        if bound and cluster.wants_measurements:
            numbers = np.array([cluster.number_of(uid) for uid in bound])
            cluster.usage_measured(numbers, rng.random(len(bound)), rng.random(len(bound)) * (1 << 30), now_s)
        for uid in bound:
            if rng.random() < 0.15:
                del pods[uid]
                cluster.pod_gone(uid, now_s)
        if rng.random() < 0.05:
            name = str(rng.choice(names))
            cluster.node_gone(name, now_s)
            cluster.node_seen(Node(name, Amounts.of({"cpu": 4000, "memory": 8 << 30, "pods": 9})))


def main() -> None:
    policy = DominantResourceFairness() if sys.argv[1] == "drf" else profile(sys.argv[1])
    rehearse(policy)
    before = kernels()
    for seed in range(3):
        random_cluster(policy, seed)
    for name in sorted(kernels() - before):
        print(name[:300])


if __name__ == "__main__":
    main()
