"""A rehearsal: scheduling rounds on clusters that do not exist, so that every kernel is compiled or loaded before
anything is at stake.

A kernel that compiles on first use (the first preemption, the first quota) stops the event loop for up to twenty
seconds, while a lease runs out and pods wait. Run every path of a scheduling round that calls compiled code once,
before readiness is reported: placement, waking, preference scores, preemption with budgets and gangs, named quotas.
Limits: with an empty cache it takes half a minute; a test compares with random clusters.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Preempt
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Match, Taint, TaintEffect, Toleration
from cotenant.model.groups.gang import GangNotes
from cotenant.model.groups.quota import NAME, Quota, QuotaObject
from cotenant.model.resources import Amounts
from cotenant.policy.placement.contract import RoundPolicy
from cotenant.policy.placement.profiles import PlacementProfile

_SIZE = Amounts.of({"cpu": 1000, "memory": 1 << 30})


def rehearse(policy: PlacementProfile | RoundPolicy) -> None:
    """Run all scenes with this policy, each on a cluster of its own."""
    for scene in (_places, _preempts, _preempts_for_a_gang, _limits_by_quota):
        scene(_Stage(policy))


class _Stage:
    """A cluster whose API server carries out instructions at once."""

    def __init__(self, policy: PlacementProfile | RoundPolicy) -> None:
        self.cluster = Cluster(policy, np.random.default_rng(0))
        self._pods: dict[str, ObservedPod] = {}

    def create(
        self,
        name: str,
        requests: Amounts = _SIZE,
        *,
        on: str = "",
        priority: int = 0,
        gang: GangNotes | None = None,
        tolerations: tuple[Toleration, ...] = (),
        labels: dict[str, str] | None = None,
    ) -> None:
        pod = Pod(name, requests=requests, priority=priority, tolerations=tolerations, labels=Labels.of(labels or {}))
        self._see(
            ObservedPod(pod, name, self.cluster.settings.scheduler, 0.0, node=on, demands=Demands(gang=gang)), 0.0
        )

    def decide(self, now_s: float) -> None:
        for instruction in self.cluster.decide(now_s):
            match instruction:
                case Bind(uid=uid, node=node) if self.cluster.sending(uid, now_s):
                    self.cluster.bound(uid, now_s)
                    self._see(replace(self._pods[uid], node=node), now_s)
                case Evict(victim=victim):
                    self.delete(victim.uid, now_s)
                case Preempt(victims=victims):
                    for victim in victims:
                        self.delete(victim.uid, now_s)

    def delete(self, name: str, now_s: float) -> None:
        if self._pods.pop(name, None) is not None:
            self.cluster.pod_gone(name, now_s)

    def _see(self, seen: ObservedPod, now_s: float) -> None:
        self._pods[seen.uid] = seen
        self.cluster.pod_seen(seen, now_s)


def _places(stage: _Stage) -> None:
    """Placement with and without preference scores, a refusal, waking by a changed and by a freed row."""
    cluster = stage.cluster
    node = Node("rehearsal", _SIZE, taints=(Taint("rehearsal", effect=TaintEffect.PREFER_NO_SCHEDULE),))
    cluster.node_seen(node)
    for i, tolerations in enumerate(((), (Toleration("rehearsal", Match.EXISTS),), ())):
        stage.create(f"a-{i}", Amounts.of({"cpu": 400, "memory": 1 << 20}), tolerations=tolerations)
    stage.decide(0.0)
    stage.create("b")
    stage.decide(1.0)
    cluster.node_seen(replace(node, allocatable=_SIZE + _SIZE))
    stage.decide(20.0)
    stage.delete("b", 21.0)
    stage.decide(60.0)


def _preempts(stage: _Stage) -> None:
    """Victims with a budget, victims of which some return, members of a gang among them."""
    cluster = stage.cluster
    cluster.node_seen(Node("rehearsal", Amounts.of({"cpu": 4000, "memory": 4 << 30})))
    cluster.budget_seen(DisruptionBudget("default", "low", LabelSelector.of({"app": "low"}), 1))
    stage.create("low-0", on="rehearsal", labels={"app": "low"})
    stage.create("low-1", on="rehearsal", labels={"app": "low"}, priority=1)
    for i in range(2):
        stage.create(f"member-{i}", on="rehearsal", gang=GangNotes(name="gang", min_available=2))
    stage.create("high", priority=10)
    stage.decide(1.0)
    stage.decide(30.0)
    stage.create("higher", Amounts.of({"cpu": 3000, "memory": 1 << 20}), priority=20)
    stage.decide(60.0)
    stage.decide(90.0)


def _preempts_for_a_gang(stage: _Stage) -> None:
    """A gang that fits on free nodes, and one that needs victims on several."""
    for i in range(2):
        stage.cluster.node_seen(Node(f"rehearsal-{i}", _SIZE + _SIZE))
        stage.create(f"low-{i}", on=f"rehearsal-{i}")
    for name, priority in (("first", 0), ("second", 10)):
        for i in range(2):
            stage.create(f"{name}-{i}", gang=GangNotes(name=name, min_available=2), priority=priority)
        stage.decide(float(priority))
        stage.decide(priority + 30.0)


def _limits_by_quota(stage: _Stage) -> None:
    """Pods within and beyond the default quota and a named one, plain and in a gang; another quota's demand revokes
    what one borrowed.
    """
    cluster = stage.cluster
    cluster.node_seen(Node("rehearsal", Amounts.of({"cpu": 8000, "memory": 8 << 30})))
    both = _SIZE + _SIZE
    for name, least in (("default", Amounts.of({})), ("team", both), ("other", both)):
        cluster.plugins.quotas.quota_seen(QuotaObject(f"rehearsal/{name}", name, Quota(name, both + both, least)), 0.0)
    for i in range(3):
        stage.create(f"plain-{i}", both)
        stage.create(f"team-{i}", both, labels={NAME: "team"})
        stage.create(f"gang-{i}", labels={NAME: "other"}, gang=GangNotes(name="gang", min_available=3))
    for now_s in (1.0, 30.0):
        stage.decide(now_s)
    stage.delete("team-0", 60.0)
    stage.create("urgent", both, labels={NAME: "other"}, priority=10)
    for now_s in (61.0, 400.0):
        stage.decide(now_s)
