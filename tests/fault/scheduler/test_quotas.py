"""Quotas resized, moved, deleted and broken under load, pods relabelled, nodes lost, binds that fail, engines built
anew: nothing leaks.

After every step the books are held against the pods. Every bind is held against a plain forest made from nothing but
the facts: nobody is let through who would not have fitted.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.property.few import examples

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict
from cotenant.engine.plugins.quotas.objects import Sorted
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.quota import DEFAULT_QUOTA, NAME, PREEMPTIBLE, ROOT_QUOTA, SYSTEM_QUOTA, Quota, QuotaObject
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.policy.quota.forest import OUTSIDE, Forest
from cotenant.policy.quota.headroom import HeadroomRules, shortages

NAMES = ("a", "b", "c", "d", "e")
NODES = ("n", "m", "o")
GPU = "nvidia.com/gpu"


def amounts(cores: int, gpus: int) -> Amounts:
    return Amounts.of({"cpu": cores * 1000, GPU: gpus})


def node(name: str, cores: int, **more: bool) -> Node:
    room = Amounts.of({"cpu": cores * 1000, "memory": 1 << 40, "pods": 100, GPU: 4})
    return Node(name, room, Labels.of({HOSTNAME: name}), **more)


class QuotaMachine(RuleBasedStateMachine):
    @initialize(check_parents=st.booleans(), scale=st.booleans(), guarantee=st.booleans(), by_runtime=st.booleans())
    def start(self, check_parents: bool, scale: bool, guarantee: bool, by_runtime: bool) -> None:
        self.settings = QuotaSettings(
            by_runtime, check_parents, scale, guarantee, revoke_after_s=5.0, status_every_s=1.0
        )
        self.objects: dict[str, QuotaObject] = {}
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, ObservedPod] = {}
        self.now_s = 0.0
        self.born = 0
        self.anew()
        self.put_node("n", 12, False)
        for name in ("a", "b"):
            self.write(name, ROOT_QUOTA, 40, 0, 1, True, "", set(), None, ())

    def anew(self) -> None:
        """A scheduler that has just started, and is told of everything."""
        self.quotas = Quotas(self.settings)
        self.cluster = Cluster(
            profile("least-allocated"), np.random.default_rng(1), plugins=PluginRegistry(quotas=self.quotas)
        )
        for pod in self.pods.values():
            self.cluster.pod_seen(pod, self.now_s)
        for node in self.nodes.values():
            self.cluster.node_seen(node)
        for written in self.objects.values():
            self.quotas.quota_seen(written, self.now_s)

    def seen(self, pod: ObservedPod) -> None:
        self.pods[pod.uid] = pod
        self.cluster.pod_seen(pod, self.now_s)

    def gone(self, uid: str) -> None:
        del self.pods[uid]
        self.cluster.pod_gone(uid, self.now_s)

    def some(self, which: int) -> str:
        return sorted(self.pods)[which % len(self.pods)] if self.pods else ""

    @rule(
        name=st.sampled_from((*NAMES, DEFAULT_QUOTA, SYSTEM_QUOTA)),
        parent=st.sampled_from((*[ROOT_QUOTA] * 8, *NAMES)),
        most=st.sampled_from((0, 3, 12, 40)),
        least=st.sampled_from((0, 0, 0, 2, 6)),
        weight=st.integers(0, 3),
        lends=st.booleans(),
        tree=st.sampled_from(("", "", "", "t")),
        spaces=st.sets(st.sampled_from(("x", "y")), max_size=2),
        total=st.sampled_from((None, None, 5)),
        wrong=st.sampled_from(((), (), (), ("spec.max.cpu: lots",))),
    )
    def write(
        self, name: str, parent: str, most: int, least: int, weight: int, lends: bool, tree: str, spaces: set[str],
        total: int | None, wrong: tuple[str, ...],
    ) -> None:  # fmt: skip
        made = Quota(
            name,
            amounts(most, most % 3),
            Amounts.of({"cpu": least * 1000}) if least else NOTHING,
            parent,
            shared_weight=amounts(weight, weight),
            lends=lends,
            tree_id=tree,
            namespaces=tuple(sorted(spaces)),
        )
        self.objects[name] = QuotaObject(
            f"q/{name}", f"u-{name}", made, amounts(total, 1) if total is not None else None, wrong=wrong
        )
        self.quotas.quota_seen(self.objects[name], self.now_s)

    @rule(name=st.sampled_from(NAMES))
    def delete_quota(self, name: str) -> None:
        if self.objects.pop(name, None):
            self.quotas.quota_gone(f"q/{name}", self.now_s)

    @rule(
        count=st.integers(1, 10),
        cores=st.integers(0, 4),
        gpus=st.integers(0, 1),
        label=st.sampled_from(("", *NAMES)),
        space=st.sampled_from(("x", "y", "a", "kube-system")),
        priority=st.integers(0, 2),
        kept=st.booleans(),
        on=st.sampled_from(("", "", "", *NODES)),
    )
    def create(
        self, count: int, cores: int, gpus: int, label: str, space: str, priority: int, kept: bool, on: str
    ) -> None:
        for _ in range(count):
            self.born += 1
            labels = {**({NAME: label} if label else {}), **({PREEMPTIBLE: "false"} if kept else {})}
            name = f"p{self.born}"
            value = Pod(name, space, amounts(cores, gpus), priority=priority, labels=Labels.of(labels))
            self.seen(ObservedPod(value, f"uid-{name}", "cotenant", float(self.born), node=on))

    @rule(which=st.integers(0, 99))
    def delete(self, which: int) -> None:
        if self.pods:
            self.gone(self.some(which))

    @rule(which=st.integers(0, 99))
    def end(self, which: int) -> None:
        uid = self.some(which)
        if uid and self.pods[uid].node:
            self.cluster.pod_seen(replace(self.pods.pop(uid), phase=PodPhase.SUCCEEDED), self.now_s)

    @rule(which=st.integers(0, 99), label=st.sampled_from(NAMES), cores=st.integers(0, 4))
    def change(self, which: int, label: str, cores: int) -> None:
        uid = self.some(which)
        if uid:
            pod = self.pods[uid]
            value = replace(pod.pod, labels=Labels.of({NAME: label}), requests=amounts(cores, 0))
            self.seen(replace(pod, pod=value))

    @rule(name=st.sampled_from(NODES), cores=st.integers(1, 12), cordoned=st.booleans())
    def put_node(self, name: str, cores: int, cordoned: bool) -> None:
        self.nodes[name] = node(name, cores, unschedulable=cordoned)
        self.cluster.node_seen(self.nodes[name])

    @rule(name=st.sampled_from(NODES))
    def lose_node(self, name: str) -> None:
        if self.nodes.pop(name, None):
            self.cluster.node_gone(name, self.now_s)

    @rule(seconds=st.sampled_from((0.0, 1.0, 7.0, 90.0)), fails=st.booleans(), evicts=st.booleans())
    def decide(self, seconds: float, fails: bool, evicts: bool) -> None:
        self.now_s += seconds
        plain = self.plain()
        for instruction in self.cluster.decide(self.now_s):
            if isinstance(instruction, Bind):
                self.judge(plain, self.pods[instruction.uid])
                if not self.cluster.sending(instruction.uid, self.now_s):
                    continue
                if fails:
                    self.cluster.bind_failed(instruction.uid, "the server said no", self.now_s)
                else:
                    self.cluster.bound(instruction.uid, self.now_s)
                    self.seen(replace(self.pods[instruction.uid], node=instruction.node))
            elif isinstance(instruction, Evict):
                victim = self.pods[instruction.victim.uid]
                assert victim.node
                assert victim.pod.labels.get(PREEMPTIBLE) != "false"
                if evicts:
                    self.gone(instruction.victim.uid)
                else:
                    self.seen(replace(victim, ends_s=self.now_s + 30.0))

    @rule()
    def restart(self) -> None:
        self.anew()

    @rule()
    def rebuild(self) -> None:
        self.cluster.rebuild(self.now_s)

    def plain(self) -> tuple[Sorted, Forest] | None:
        """What the facts say before a round: use as it stands, runtimes by all that is asked."""
        if not self.objects:
            return None
        found = Sorted(self.objects.values())
        forest = Forest(found.quotas, self.settings.scale_minima, self.settings.guarantee_use)
        seats = self.cluster.assigned()
        for pod in self.pods.values():
            name, asks = self.place(found, forest, pod)
            forest.ask(name, asks)
            if pod.uid in seats:
                forest.use(name, asks, pod.pod.labels.get(PREEMPTIBLE) != "false")
        self.quotas.validate({uid: self.cluster.find(pod.pod.key) for uid, pod in self.pods.items()})  # type: ignore[misc]
        for tree_id in forest.tree_ids():
            books = self.quotas._world.trees[tree_id]  # type: ignore[union-attr]
            forest.tree(tree_id).set_total(books.tree.total())
        return found, forest

    @staticmethod
    def place(found: Sorted, forest: Forest, pod: ObservedPod) -> tuple[str, Amounts]:
        name = found.place(forest, pod.pod.namespace, pod.pod.labels.get(NAME) or "").quota
        if name in OUTSIDE:
            return name, pod.pod.requests
        limited = forest.tree(forest.quota(name).tree_id).resources()
        return name, Amounts(tuple(pair for pair in pod.pod.requests if pair[0] in limited))

    def judge(self, plain: tuple[Sorted, Forest] | None, pod: ObservedPod) -> None:
        """A bind is one that the plain forest would have let through, after those before it."""
        if plain is None:
            return
        found, forest = plain
        assert not found.place(forest, pod.pod.namespace, pod.pod.labels.get(NAME) or "").held
        name, asks = self.place(found, forest, pod)
        preemptible = pod.pod.labels.get(PREEMPTIBLE) != "false"
        rules = HeadroomRules(self.settings.by_runtime, self.settings.check_parents)
        if name in OUTSIDE:
            assert forest.shortages(name, asks, preemptible, rules) == ()
            return  # what it takes from the trees counts from the next round on
        tree = forest.tree(forest.quota(name).tree_id)
        short = shortages(tree, name, asks, preemptible, rules)
        assert self.settings.guarantee_use or short == ()
        tree.use(name, asks, preemptible)

    @invariant()
    def adds_up(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.validate()
            for name in NAMES:
                self.quotas.describe(name)


QuotaMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)
TestQuotasUnderLoad = pytest.mark.slow(QuotaMachine.TestCase)
