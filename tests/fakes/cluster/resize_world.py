"""Pods that are resized in place beside gangs, quotas and budgets: kubelets that give, defer and refuse, an engine that
hears of it, and the same cluster in plain sums.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations
from random import Random

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Instruction, Preempt
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.plugins.resizes.plugin import DeferredResizes
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.demands import NO_DEMANDS, Demands
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.gang import GangNotes
from cotenant.model.groups.quota import NAME, ROOT_QUOTA, Quota, QuotaObject
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

NODES, NODE_M = 3, 8000
QUOTAS = ("red", "blue")
LEAST = 2  # members of a gang


@dataclass
class Plain:
    """A pod in plain words. `cpu_m`: what its spec asks for; `given_m`: what its kubelet gave."""

    name: str
    cpu_m: int
    priority: int
    quota: str
    gang: str = ""
    covered: bool = False  # by the budget
    preempts: bool = True
    node: str = ""
    given_m: int = 0
    pending: str = ""
    is_ending: bool = False

    @property
    def counts_m(self) -> int:
        """What it takes of its node and its quota."""
        if self.pending == "Infeasible":
            return self.given_m
        return max(self.cpu_m, self.given_m)


@dataclass
class ResizeWorld:
    """`step` lets something happen; `wrong` says what must not be."""

    seed: int
    pods: dict[str, Plain] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    allowed: int = 1  # of the budget
    now_s: float = 0.0
    made: int = 0
    evicted: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.most = dict.fromkeys(QUOTAS, 14000)
        plugins = PluginRegistry(
            quotas=Quotas(QuotaSettings(revoke=False, preempt=False)), deferred_resizes=DeferredResizes(True)
        )
        self.engine = Cluster(profile("least-allocated"), np.random.default_rng(1), EngineSettings(), plugins)
        for row in range(NODES):
            size = Amounts.of({"cpu": NODE_M, "memory": 64 << 30})
            self.engine.node_seen(Node(f"n{row}", size, Labels.of({HOSTNAME: f"n{row}"})))
        for name in QUOTAS:
            self.tell_quota(name)
        self.tell_budget()

    # ---- what is told

    def tell_quota(self, name: str) -> None:
        made = Quota(name, Amounts.of({"cpu": self.most[name]}), Amounts.of({"cpu": 1000}), ROOT_QUOTA)
        self.engine.plugins.quotas.quota_seen(QuotaObject(f"default/{name}", f"uid-{name}", made), self.now_s)

    def tell_budget(self) -> None:
        covered = LabelSelector.of({"app": "covered"})
        self.engine.budget_seen(DisruptionBudget("default", "covered", covered, self.allowed))

    def tell(self, pod: Plain) -> None:
        labels = {NAME: pod.quota} | ({"app": "covered"} if pod.covered else {})
        demands = Demands(gang=GangNotes(pod.gang, LEAST, LEAST, 30.0)) if pod.gang else NO_DEMANDS
        made = Pod(
            pod.name,
            requests=Amounts.of({"cpu": pod.counts_m, "memory": 1 << 20}),
            priority=pod.priority,
            labels=Labels.of(labels),
        )
        seen = ObservedPod(
            made,
            f"uid-{pod.name}",
            "cotenant",
            0.0,
            node=pod.node,
            demands=demands,
            preempts=pod.preempts,
            awaits_resize=pod.pending == "Deferred",
        )
        ends_s = self.now_s + 30.0
        self.engine.pod_seen(replace(seen, ends_s=ends_s, grace_s=30) if pod.is_ending else seen, self.now_s)

    # ---- what happens

    def step(self) -> None:
        """One random event."""
        self.now_s += self.random.choice([0.1, 1.0, 20.0])
        often = (self.create, self.resize, self.decide)
        seldom = (self.kubelets, self.kubelets, self.end, self.delete, self.change_quota, self.change_budget)
        self.random.choice(3 * often + seldom)()
        self.check()

    def create(self) -> None:
        random = self.random
        self.made += 1
        gang = f"g{self.made}" if random.random() < 0.2 else ""
        quota = random.choice(QUOTAS)
        for member in range(LEAST if gang else 1):
            pod = Plain(
                f"p{self.made}-{member}",
                random.choice([500, 1000, 2000]),
                random.choice([0, 100, 1000]),
                quota,
                gang,
                covered=random.random() < 0.15,
                preempts=random.random() < 0.9,
            )
            self.pods[pod.name] = pod
            self.tell(pod)

    def resize(self) -> None:
        bound = [pod for pod in self.pods.values() if pod.node and not pod.is_ending]
        if bound:
            pod = self.random.choice(bound)
            pod.cpu_m, pod.pending = self.random.choice([300, 700, 1500, 3000, 4000, 9000]), ""
            self.tell(pod)

    def kubelets(self) -> None:
        """Each gives what it has room for, the most important first."""
        for pod in sorted(self.pods.values(), key=lambda one: -one.priority):
            if not pod.node or pod.is_ending or pod.cpu_m == pod.given_m:
                continue
            others_m = sum(other.given_m for other in self.on(pod.node) if other is not pod)
            if pod.cpu_m > NODE_M:
                pod.pending = "Infeasible"
            elif others_m + pod.cpu_m <= NODE_M:
                pod.given_m, pod.pending = pod.cpu_m, ""
            else:
                pod.pending = "Deferred"
            self.tell(pod)

    def delete(self) -> None:
        if self.pods:
            self.gone(self.random.choice(sorted(self.pods)))

    def end(self) -> None:
        for name in [name for name, pod in self.pods.items() if pod.is_ending]:
            self.gone(name)

    def gone(self, name: str) -> None:
        del self.pods[name]
        self.engine.pod_gone(f"uid-{name}", self.now_s)

    def change_quota(self) -> None:
        name = self.random.choice(QUOTAS)
        self.most[name] = self.random.choice([4000, 9000, 14_000])
        self.tell_quota(name)

    def change_budget(self) -> None:
        self.allowed = self.random.randrange(3)
        self.tell_budget()

    def decide(self) -> None:
        told = self.engine.decide(self.now_s)
        binds = [instruction for instruction in told if isinstance(instruction, Bind)]
        for bind in binds:
            assert self.engine.sending(bind.uid, self.now_s)
            self.engine.bound(bind.uid, self.now_s)
            pod = self.pods[bind.key.partition("/")[2]]
            pod.node, pod.given_m = bind.node, pod.cpu_m
            self.tell(pod)
        for node in {bind.node for bind in binds}:
            if self.taken_m(node) > NODE_M:
                self.wrong.append(f"{self.taken_m(node)} of {NODE_M} on {node} after a bind")
        for quota in {self.pods[bind.key.partition("/")[2]].quota for bind in binds}:
            if self.used_m(quota) > self.most[quota]:
                self.wrong.append(f"quota {quota}: {self.used_m(quota)} of {self.most[quota]} after a bind")
        self._check_evictions([instruction for instruction in told if isinstance(instruction, Evict)])
        self._carry_out(told)

    def _carry_out(self, told: Iterable[Instruction]) -> None:
        for instruction in told:
            if isinstance(instruction, Evict):
                self._evict(instruction.victim.key.partition("/")[2])
            elif isinstance(instruction, Preempt):
                for victim in instruction.victims:
                    self._evict(victim.key.partition("/")[2])

    def _evict(self, name: str) -> None:
        pod = self.pods[name]
        pod.is_ending = True
        self.allowed = max(0, self.allowed - pod.covered)
        self.tell(pod)
        self.tell_budget()

    # ---- plain sums

    def on(self, node: str) -> list[Plain]:
        return [pod for pod in self.pods.values() if pod.node == node]

    def taken_m(self, node: str) -> int:
        return sum(pod.counts_m for pod in self.on(node))

    def used_m(self, quota: str) -> int:
        return sum(pod.counts_m for pod in self.pods.values() if pod.quota == quota and pod.node)

    def check(self) -> None:
        """The engine's books are the plain sums."""
        self.engine.validate()
        promised = self.engine.assigned() | self.engine.reserved()  # waiting for a gang, or for victims
        of_uid = {f"uid-{pod.name}": pod for pod in self.pods.values()}
        expected_m = {f"n{row}": self.taken_m(f"n{row}") for row in range(NODES)}
        for uid, node in promised.items():
            if not of_uid[uid].node:
                expected_m[node] += of_uid[uid].counts_m
        names, resources, _, requested = self.engine.requested()
        for name, have_m in zip(names, requested[:, resources.index("cpu")].tolist(), strict=True):
            if have_m != expected_m[name]:
                self.wrong.append(f"{name}: {have_m} in the books, {expected_m[name]} of pods")
        for quota in QUOTAS:
            found = self.engine.plugins.quotas.describe(quota)
            have_m = dict(found.used).get("cpu", 0) if found is not None else 0
            waiting_m = sum(
                of_uid[uid].counts_m
                for uid in self.engine.assigned()
                if of_uid[uid].quota == quota and not of_uid[uid].node
            )
            if have_m != self.used_m(quota) + waiting_m:
                self.wrong.append(f"quota {quota}: {have_m} in the books, {self.used_m(quota)} of pods")

    # ---- evictions for resizes

    def _check_evictions(self, told: list[Evict]) -> None:
        by_node: dict[str, set[str]] = {}
        for evict in told:
            by_node.setdefault(evict.victim.node, set()).add(evict.victim.key.partition("/")[2])
        for node, victims in by_node.items():
            self.evicted += len(victims)
            here = [pod for pod in self.on(node) if not pod.is_ending]
            deferred = [pod for pod in here if pod.pending == "Deferred" and pod.preempts]
            if not deferred:
                self.wrong.append(f"{sorted(victims)} go on {node} for nobody")
                continue
            top = max(pod.priority for pod in deferred)
            for name in victims:
                if self.pods[name].priority >= top:
                    self.wrong.append(f"{name} of {self.pods[name].priority} goes for {top}")
                gang = self.pods[name].gang
                members = [pod for pod in self.pods.values() if pod.gang == gang and pod.node and not pod.is_ending]
                if gang and LEAST <= len(members) < LEAST + 1:
                    self.wrong.append(f"{name} goes, and gang {gang} needs it")
            if sum(self.pods[name].covered for name in victims) > self.allowed:
                self.wrong.append(f"{sorted(victims)} go, and the budget allows {self.allowed}")
            left_m = sum(pod.counts_m for pod in here if pod.name not in victims)
            if left_m > NODE_M:
                self.wrong.append(f"{sorted(victims)} go on {node} in vain: {left_m} stay")
            for name in victims:
                if left_m + self.pods[name].counts_m <= NODE_M:
                    self.wrong.append(f"{name} need not go on {node}")

    def could_go(self, node: str) -> bool:
        """Whether any set of pods, tried one by one, would make room for a deferred resize there; at rest."""
        here = [pod for pod in self.on(node) if not pod.is_ending]
        ours = [pod for pod in here if pod.pending == "Deferred" and pod.preempts]
        going_m = sum(pod.counts_m for pod in here) - NODE_M
        if not ours or going_m <= 0:
            return False
        top = max(pod.priority for pod in ours)
        free = [pod for pod in here if pod.priority < top and not pod.covered and not pod.gang]
        return any(
            sum(pod.counts_m for pod in chosen) >= going_m
            for count in range(1, len(free) + 1)
            for chosen in combinations(free, count)
        )
