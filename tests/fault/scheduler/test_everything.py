"""Everything at once against the cluster's engine: nodes, pods, gangs, quotas and devices come, change and go; answers
are late, lost or refusals; the scheduler is killed at any step and built anew from the API. After each step all books
must agree.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.fakes.servers.api_of_all import NODE, POD, Api, Kind
from tests.property.few import examples

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, ClearNomination, Evict, Preempt
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.demands import NO_DEMANDS, Demands
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.groups.gang import GangMode, GangNotes
from cotenant.model.groups.quota import NAME as QUOTA_NAME
from cotenant.model.groups.quota import ROOT_QUOTA, Quota, QuotaObject
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, Amounts
from cotenant.policy.placement.profiles import profile

NAMES = ("a", "b", "c", "d")
CORES = 4
GRACE_S = 30.0
QUOTAS = ("qa", "qb", "qc")
GPUS = 2
NO_QUOTA = ""
QUOTA, DEVICE = "ElasticQuota", "Device"
KINDS = (
    Kind(
        QUOTA,
        lambda c, v, now: c.plugins.quotas.quota_seen(v, now),  # type: ignore[arg-type]
        lambda c, k, now: c.plugins.quotas.quota_gone(k, now),  # type: ignore[arg-type]
    ),
    Kind(
        DEVICE,
        lambda c, v, now: c.plugins.devices.seen(v, now),  # type: ignore[arg-type]
        lambda c, k, now: c.plugins.devices.gone(k, now),  # type: ignore[arg-type]
    ),
    Kind(NODE, lambda c, v, now: c.node_seen(v), lambda c, k, now: c.node_gone(k, now)),  # type: ignore[arg-type]
    Kind(POD, lambda c, v, now: c.pod_seen(v, now), lambda c, k, now: c.pod_gone(k, now)),  # type: ignore[arg-type]
)
ORDERS = st.permutations([kind.name for kind in KINDS])


def a_node(name: str, **more: object) -> Node:
    there = Amounts.of({"cpu": CORES * 1000, "memory": 64 << 30, GPU_CORE: GPUS * 100, GPU_MEMORY_RATIO: GPUS * 100})
    return Node(name, there, Labels.of({HOSTNAME: name, "rack": "xy"[NAMES.index(name) // 2]}), **more)  # type: ignore[arg-type]


def devices_of(name: str, healthy: tuple[bool, ...]) -> NodeDevices:
    total = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 80 << 30})
    return NodeDevices(name, tuple(Device(DeviceType.GPU, i, total, healthy=well) for i, well in enumerate(healthy)))


def a_quota(name: str, parent: str, is_parent: bool, least: int, most: int) -> QuotaObject:
    cores = [Amounts.of({"cpu": 1000 * number}) for number in (most, least)]
    return QuotaObject(f"default/{name}", f"uid-{name}", Quota(name, *cores, parent, is_parent))


class Everything(RuleBasedStateMachine):
    """Random events in random order; everything is checked after each."""

    def __init__(self) -> None:
        super().__init__()
        self.api = Api(KINDS)
        self.now_s = 1000.0
        self.born = 0
        self.flying: list[Bind] = []  # sent, not answered
        self.sent_s: dict[str, float] = {}  # uid -> when
        self.lost: dict[str, float] = {}  # uid -> since when its accepted bind has gone unanswered
        self.satisfied: set[str] = set()  # gangs of which enough had a node once

    def start(self) -> Cluster:
        return Cluster(profile("best-fit"), np.random.default_rng(self.born), EngineSettings(max_pods=8))

    @initialize(nodes=st.integers(1, 3))
    def begin(self, nodes: int) -> None:
        self.cluster = self.start()
        for name in NAMES[:nodes]:
            self.api.put(NODE, name, a_node(name))
            self.api.put(DEVICE, name, devices_of(name, (True,) * GPUS))
        self.api.deliver_all(self.cluster, self.now_s)

    # ---- nodes

    @rule(name=st.sampled_from(NAMES), ready=st.booleans(), cordoned=st.booleans())
    def node_there(self, name: str, ready: bool, cordoned: bool) -> None:
        self.api.put(NODE, name, a_node(name, ready=ready, unschedulable=cordoned))

    @rule(name=st.sampled_from(NAMES))
    def node_well(self, name: str) -> None:
        self.api.put(NODE, name, a_node(name))

    @rule(name=st.sampled_from(NAMES))
    def node_gone(self, name: str) -> None:
        """Its pods are collected with it."""
        if name in self.api.nodes:
            self.api.delete(NODE, name)
            self.api.delete(DEVICE, name)
            for uid in [uid for uid, pod in self.api.pods.items() if pod.node == name]:
                self.api.delete(POD, uid)

    @rule(name=st.sampled_from(NAMES), healthy=st.tuples(*[st.booleans()] * GPUS))
    def devices_change(self, name: str, healthy: tuple[bool, ...]) -> None:
        if name in self.api.nodes:
            self.api.put(DEVICE, name, devices_of(name, healthy))

    @rule(name=st.sampled_from(NAMES))
    def devices_well(self, name: str) -> None:
        if name in self.api.nodes:
            self.api.put(DEVICE, name, devices_of(name, (True,) * GPUS))

    @rule(name=st.sampled_from(NAMES))
    def devices_gone(self, name: str) -> None:
        self.api.delete(DEVICE, name)

    # ---- quotas, also such as make no sense

    @rule(
        name=st.sampled_from(QUOTAS),
        parent=st.sampled_from([ROOT_QUOTA, ROOT_QUOTA, *QUOTAS, "nowhere"]),
        is_parent=st.booleans(),
        least=st.integers(0, 6),
        most=st.integers(0, 12),
    )
    def quota(self, name: str, parent: str, is_parent: bool, least: int, most: int) -> None:
        made = a_quota(name, parent, is_parent, least, most)
        self.api.put(QUOTA, made.key, made)

    @rule(name=st.sampled_from(QUOTAS), most=st.integers(1, 12))
    def quota_of_leaf(self, name: str, most: int) -> None:
        made = a_quota(name, ROOT_QUOTA, False, most // 2, most)
        self.api.put(QUOTA, made.key, made)

    @rule(name=st.sampled_from(QUOTAS))
    def quota_gone(self, name: str) -> None:
        self.api.delete(QUOTA, f"default/{name}")

    # ---- pods and gangs

    def create(self, name: str, cores: int, gpu: int, priority: int, quota: str, demands: Demands) -> None:
        self.born += 1
        asked = {"cpu": cores * 1000, "memory": 1 << 20}
        if gpu:
            asked |= {GPU_CORE: gpu, GPU_MEMORY_RATIO: gpu}
        pod = Pod(
            f"{name}-{self.born}",
            requests=Amounts.of(asked),
            priority=priority,
            labels=Labels.of({QUOTA_NAME: quota} if quota else {}),
        )
        seen = ObservedPod(pod, f"uid-{self.born}", "cotenant", self.now_s, demands=demands)
        self.api.put(POD, seen.uid, seen)

    @rule(
        cores=st.integers(1, CORES),
        gpu=st.sampled_from([0, 0, 50, 100, 200]),
        priority=st.integers(0, 2),
        quota=st.sampled_from([NO_QUOTA, *QUOTAS]),
    )
    def pod(self, cores: int, gpu: int, priority: int, quota: str) -> None:
        self.create("single", cores, gpu, priority, quota, NO_DEMANDS)

    @rule(
        members=st.integers(1, 5),
        minimum=st.integers(1, 5),
        cores=st.integers(1, 3),
        gpu=st.sampled_from([0, 0, 50, 100]),
        priority=st.integers(0, 2),
        quota=st.sampled_from([NO_QUOTA, *QUOTAS]),
        mode=st.sampled_from(GangMode),
        wait_s=st.sampled_from([5.0, 60.0]),
        known=st.integers(0, 2),
    )
    def gang(
        self,
        members: int,
        minimum: int,
        cores: int,
        gpu: int,
        priority: int,
        quota: str,
        mode: GangMode,
        wait_s: float,
        known: int,
    ) -> None:
        """A new gang, or more members of one of the first few; its first pods say what it asks."""
        name = f"g{known}" if known else f"g-{self.born}"
        notes = GangNotes(name, min_available=minimum, total=max(members, minimum), wait_s=wait_s, mode=mode)
        for _ in range(members):
            self.create(name, cores, gpu, priority, quota, Demands(gang=notes))

    @rule(i=st.integers(0, 40))
    def delete(self, i: int) -> None:
        if self.api.pods:
            uid = sorted(self.api.pods)[i % len(self.api.pods)]
            self.leave(uid)

    @rule(i=st.integers(0, 40))
    def end(self, i: int) -> None:
        bound = sorted(uid for uid, pod in self.api.pods.items() if pod.occupies)
        if bound:
            self.api.end(bound[i % len(bound)])

    @rule()
    def graces_over(self) -> None:
        self.now_s += GRACE_S
        for uid in [uid for uid, pod in self.api.pods.items() if pod.terminating]:
            self.api.delete(POD, uid)

    def leave(self, uid: str) -> None:
        pod = self.api.pods.get(uid)
        if pod is None or pod.terminating:
            return
        if pod.node:
            self.api.put(POD, uid, replace(pod, ends_s=self.now_s + GRACE_S))
        else:
            self.api.delete(POD, uid)

    # ---- the watcher

    @rule(kind=st.sampled_from([kind.name for kind in KINDS]), most=st.integers(1, 6))
    def deliver(self, kind: str, most: int) -> None:
        self.api.deliver(kind, most, self.cluster, self.now_s)

    @rule()
    def deliver_all(self) -> None:
        self.api.deliver_all(self.cluster, self.now_s)

    @rule(seconds=st.sampled_from([0.0, 0.3, 1.5, 20.0, 130.0]))
    def decide(self, seconds: float) -> None:
        self.now_s += seconds
        if any(since_s + 100.0 < self.now_s for since_s in self.lost.values()):
            self.api.deliver(POD, 10**6, self.cluster, self.now_s)  # a watch is never so late
            self.lost.clear()
        for bind in [instruction for instruction in self.flying if self.sent_s[instruction.uid] + 100.0 < self.now_s]:
            self.flying.remove(bind)  # the process's own time-out, long before the engine's
            self.cluster.bind_failed(bind.uid, "timed out", self.now_s)
        instructions = self.cluster.decide(self.now_s)
        self.check_binds([instruction for instruction in instructions if isinstance(instruction, Bind)])
        for instruction in instructions:
            if isinstance(instruction, Bind):
                if self.cluster.sending(instruction.uid, self.now_s):
                    self.flying.append(instruction)
                    self.sent_s[instruction.uid] = self.now_s
            elif isinstance(instruction, Preempt):
                pod = self.api.pods.get(instruction.uid)
                if pod is None or pod.node:
                    self.cluster.preempt_failed(instruction.uid, self.now_s)
                    continue
                self.api.put(POD, instruction.uid, replace(pod, nominated_node=instruction.node))
                for victim in instruction.victims:
                    self.leave(victim.uid)
            elif isinstance(instruction, Evict):
                self.leave(instruction.victim.uid)
            elif isinstance(instruction, ClearNomination):
                pod = self.api.pods.get(instruction.uid)
                if pod is not None and not pod.node:
                    self.api.put(POD, instruction.uid, replace(pod, nominated_node=""))

    @rule(i=st.integers(0, 20), how=st.sampled_from(["accepted", "accepted", "accepted", "answer lost", "refused"]))
    def answer(self, i: int, how: str) -> None:
        if not self.flying:
            return
        bind = self.flying.pop(i % len(self.flying))
        if how == "refused":
            self.cluster.bind_failed(bind.uid, "refused", self.now_s)
        elif not self.api.bind(bind):
            self.cluster.bind_failed(bind.uid, "conflict", self.now_s, retry=bind.uid in self.api.pods)
        elif how == "accepted":
            self.cluster.bound(bind.uid, self.now_s)
        else:
            self.lost[bind.uid] = self.now_s

    @rule()
    def answer_all(self) -> None:
        while self.flying:
            self.answer(0, "accepted")

    @rule(order=ORDERS, arrived=st.booleans())
    def killed(self, order: list[str], arrived: bool) -> None:
        """The process dies: what it had sent has arrived or not; another begins with what the API has."""
        for bind in self.flying:
            if arrived:
                self.api.bind(bind)
        self.flying.clear()
        self.lost.clear()
        self.cluster = self.start()
        self.api.list_all(self.cluster, self.now_s, tuple(order))
        assert self.cluster.assigned() == {uid: pod.node for uid, pod in self.api.pods.items() if pod.occupies}

    @rule()
    def rebuilt(self) -> None:
        self.cluster.rebuild(self.now_s)

    # ---- what must hold

    def check_binds(self, binds: list[Bind]) -> None:
        """What was decided now keeps every rule by what the engine has been told."""
        self.check_gangs(binds)
        quotas = self.cluster.plugins.quotas
        for bind in binds:
            entry = self.cluster.find(bind.key)
            assert entry is not None
            asked = entry.seen.pod.requests
            name, _ = quotas.quota_of(bind.uid)
            told = quotas.describe(name) if name else None
            if told is not None:
                used, most = dict(told.used), dict(told.maximum)
                for resource in set(asked.names()) & set(most):
                    assert used.get(resource, 0) <= most[resource], (name, resource, used, most)
            parts = sum(device.amounts.get(GPU_CORE) for device in bind.holds.devices)
            if bind.node in self.cluster.plugins.devices.nodes.by_name:
                assert parts == asked.get(GPU_CORE)

    def check_gangs(self, binds: list[Bind]) -> None:
        """Members of a Strict gang whose pods all say the same go to the API server only when enough of them have a
        node.
        """
        for bind in binds:
            entry = self.cluster.find(bind.key)
            notes = entry.seen.demands.gang if entry is not None else None
            if notes is None or notes.mode is not GangMode.STRICT or not notes.name.startswith("g-"):
                continue
            seated = sum(
                self.api.pods[uid].demands.gang == notes for uid in self.cluster.assigned() if uid in self.api.pods
            )
            if notes.name not in self.satisfied and all(uid in self.api.pods for uid in self.cluster.assigned()):
                assert seated >= (notes.min_available or 0), (notes, seated)
            self.satisfied.add(notes.name)

    @invariant()
    def whole(self) -> None:
        if not hasattr(self, "cluster"):
            return
        self.cluster.validate()
        assert self.cluster.over_capacity() == ()
        self.api.check()
        self.check_quotas()
        due_s = self.cluster.next_s()
        assert due_s == inf or due_s == -inf or isfinite(due_s)

    def check_quotas(self) -> None:
        """What each quota is said to use is what its pods on nodes ask for."""
        quotas = self.cluster.plugins.quotas
        sums: dict[str, int] = {}
        for uid in self.cluster.assigned():
            name, _ = quotas.quota_of(uid)
            entry = next(pod_info for pod_info in self.cluster._pods.by_uid.values() if pod_info.seen.uid == uid)
            sums[name] = sums.get(name, 0) + entry.seen.pod.requests.get("cpu")
        for name in QUOTAS:
            told = quotas.describe(name)
            if told is not None and told.is_used and not told.children and "cpu" in dict(told.maximum):
                assert dict(told.used).get("cpu", 0) == sums.get(name, 0), (name, told.used, sums)

    def teardown(self) -> None:
        """Left in peace, it comes to rest, and knows what a new one would."""
        if not hasattr(self, "cluster"):
            return
        for _ in range(12):
            self.answer_all()
            self.api.deliver_all(self.cluster, self.now_s)
            self.now_s += 400.0
            self.decide(0.0)
            self.answer_all()
            self.graces_over()
            self.whole()
        self.api.deliver_all(self.cluster, self.now_s)
        seats = {uid: pod.node for uid, pod in self.api.pods.items() if pod.occupies}
        assert {uid: node for uid, node in self.cluster.assigned().items() if uid in seats} == seats


Everything.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestEverything = pytest.mark.slow(Everything.TestCase)
