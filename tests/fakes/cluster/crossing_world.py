"""Small random worlds in which claims, gangs, quotas, budgets and priorities meet around pods that must have others
evicted, and an API server that carries out what the engine says.
"""

from __future__ import annotations

from dataclasses import replace
from math import nan
from random import Random

import numpy as np
from tests.fakes.cluster.claims_world import DRIVER, ByModel, request, spec
from tests.fakes.cluster.crossing_facts import Facts, Member, Wanted

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, ClearNomination, Evict, Instruction, Preempt
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.plugins.reservations.instructions import ReservationStatus
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.claims.instructions import ReleaseClaim
from cotenant.engine.rules.claims.rules import ClaimRules
from cotenant.model.claims.claim import AllocatedDevice, Allocation, ResourceClaim
from cotenant.model.claims.devices import DeviceId, OfferedDevice, Reach, ResourceSlice
from cotenant.model.claims.needs import ClaimNeeds, NamedClaim
from cotenant.model.claims.requests import DeviceClass
from cotenant.model.cluster.affinity import NAME_FIELD, NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.gang import GangMode, GangNotes
from cotenant.model.groups.quota import NAME, PREEMPTIBLE, ROOT_QUOTA, Quota, QuotaObject
from cotenant.model.groups.reservation import Reservation, ReservationOwner, ReservationPhase
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.placement.profiles import profile

COVERED = LabelSelector.of({"app": "x"})


class CrossingWorld:
    """One random world. Running pods have their nodes and devices; what waits arrives with `arrive`."""

    def __init__(self, seed: int, tight: bool = False) -> None:
        """`tight`: every pod has a quota, and each of the two may use half of the cluster, whatever the other does."""
        self._tight = tight
        self.rng = Random(seed)
        self.facts = Facts()
        self.rules = ClaimRules(ByModel())
        self.quotas = Quotas(QuotaSettings(revoke_after_s=20.0))
        plugins = PluginRegistry(claims=self.rules, quotas=self.quotas)
        self.engine = Cluster(profile("least-allocated"), np.random.default_rng(seed), EngineSettings(), plugins)
        self.now_s = 1000.0
        self.stored: dict[str, ObservedPod] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self.ending: list[str] = []  # victims that take their time, by name
        self.to_free: list[str] = []  # claims that their controller has not looked at yet
        self.slow_ends = self.rng.random() < 0.4
        self.slow_claims = self.rng.random() < 0.3
        self._version = 0
        self._nodes()
        self._rules()
        self._running()

    # ---- the world

    def _nodes(self) -> None:
        rng, facts = self.rng, self.facts
        self.rules.facts.class_seen(DeviceClass("gpu"))
        for at in range(rng.randint(2, 4)):
            name = f"n{at}"
            facts.cpu[name] = rng.choice((2000, 3000, 4000))
            self.set_node(name)
            for part in range(rng.choice((1, 1, 2))):
                self._pool(f"{name}-{part}", Reach(name), name, rng.randint(0 if part else 1, 3))
        if rng.random() < 0.1:
            self._pool("far", Reach(all=True), "", rng.randint(1, 2))

    def set_node(self, name: str) -> None:
        room = {"cpu": self.facts.cpu[name], "memory": 2**36, "pods": 100}
        self.engine.node_seen(Node(name, Amounts.of(room), Labels.of({HOSTNAME: name})))

    def _pool(self, name: str, reach: Reach, node: str, count: int) -> None:
        models = [self.rng.choice("aab") for _ in range(count)]
        offered = tuple(OfferedDevice(f"d{at}", (("model", model),)) for at, model in enumerate(models))
        if offered:
            self.rules.facts.slice_seen(ResourceSlice(name, DRIVER, name, 1, 1, reach, offered))
        here = self.facts.devices.setdefault(node, {})
        here.update({DeviceId(DRIVER, name, f"d{at}"): model for at, model in enumerate(models)})

    def _rules(self) -> None:
        rng, facts = self.rng, self.facts
        total = sum(facts.cpu.values())
        if self._tight:
            for name in ("q0", "q1"):
                facts.quotas[name] = 0, total // 1000 * 500
                self.set_quota(name)
        elif rng.random() < 0.6:
            for name in ("q0", "q1"):
                least = rng.choice((0, 1000, total // 2000 * 1000))
                facts.quotas[name] = (least, max(least, rng.choice((3000, total, total))))
                self.set_quota(name)
        if rng.random() < 0.5:
            self.set_allowed(rng.randint(0, 2))
        for gang in ("g0", "g1"):
            facts.least[gang] = rng.randint(1, 3)

    def set_quota(self, name: str) -> None:
        least, most = self.facts.quotas[name]
        minimum = Amounts.of({"cpu": least}) if least else NOTHING
        made = Quota(name, Amounts.of({"cpu": most}), minimum, ROOT_QUOTA)
        self.quotas.quota_seen(QuotaObject(f"quotas/{name}", f"uid-{name}", made), self.now_s)

    def set_allowed(self, allowed: int) -> None:
        self.facts.allowed = allowed
        self.engine.budget_seen(DisruptionBudget("default", "x", COVERED, allowed))

    def _running(self) -> None:
        rng, facts = self.rng, self.facts
        if rng.random() < 0.2:
            self._reservation()
        gang_priority = {gang: rng.choice((0, 1, 2, 6)) for gang in ("g0", "g1")}
        for at in range(rng.randint(4, 14)):
            gang = rng.choice(("", "", "g0", "g1"))
            pod = Member(
                f"r{at}",
                rng.choice((500, 1000, 1000, 2000)),
                gang_priority[gang] if gang and rng.random() < 0.9 else rng.choice((0, 1, 2, 2, 6)),
                gang=gang,
                quota=rng.choice(("q0", "q1")) if facts.quotas else "",
                covered=rng.random() < 0.4,
                preemptible=rng.random() < 0.85,
                started_s=float(rng.randint(0, 9)),
            )
            node = rng.choice(sorted(facts.cpu))
            if self._runs(pod, node):
                pod.node = node
                facts.pods[pod.name] = pod
        for gang, least in facts.least.items():  # none of them is below its minimum to begin with
            here = len(facts.members(gang))
            facts.least[gang] = min(least, here) if here else least
        for pod in list(facts.pods.values()):
            self._store(pod)

    def _reservation(self) -> None:
        node = self.rng.choice(sorted(self.facts.cpu))
        template = Pod("kept", requests=Amounts.of({"cpu": 1000}), labels=Labels.of({"app": "owner"}))
        owners = (ReservationOwner(selector=LabelSelector.of({"app": "owner"})),)
        made = Reservation(
            "kept",
            "uid-kept",
            template,
            owners,
            ttl_s=0,
            node=node,
            phase=ReservationPhase.AVAILABLE,
            allocatable=template.requests,
        )
        self.reservation = made
        self.engine.plugins.reservations.seen(made, self.now_s)
        self.facts.reserved[node] = 1000

    def _runs(self, pod: Member, node: str) -> bool:
        """Whether a running pod has room there; its claim is made and allocated."""
        rng, facts = self.rng, self.facts
        here = [other for other in facts.pods.values() if other.node == node]
        if sum(other.cpu for other in here) + pod.cpu + facts.reserved.get(node, 0) > facts.cpu[node]:
            return False
        if pod.quota and facts.used(pod.quota) + pod.cpu > facts.quotas[pod.quota][1]:
            return False
        dice = rng.random()
        shared = [key for other in here for key in other.claims if not facts.claims[key].owner]
        if dice < 0.15 and shared:
            pod.claims = (rng.choice(shared),)
            facts.claims[pod.claims[0]].users.add(pod.name)
        elif dice < 0.75:
            taken = {device for claim in facts.claims.values() for device in claim.devices}
            free = [device for at in (node, "") for device in facts.devices.get(at, {}) if device not in taken]
            count = rng.choice((1, 1, 2))
            if len(free) < count:
                return False
            wanted = Wanted(count, "", pod.name if rng.random() < 0.7 else "", tuple(rng.sample(free, count)))
            wanted.users.add(pod.name)
            facts.claims[f"c-{pod.name}"] = wanted
            pod.claims = (f"c-{pod.name}",)
        return True

    # ---- objects

    def _store(self, pod: Member) -> None:
        for key in pod.claims:
            self.put(key)
        self.store(pod)

    def store(self, pod: Member) -> None:
        """The pod as it is in the facts."""
        facts = self.facts
        named = tuple(NamedClaim(f"default/{key}", bool(facts.claims[key].owner)) for key in pod.claims)
        made_s = self.stored[pod.uid].created_s if pod.uid in self.stored else float(len(self.stored))
        notes = GangNotes(pod.gang, facts.least[pod.gang], mode=GangMode.STRICT) if pod.gang else None
        labels = {NAME: pod.quota} if pod.quota else {}
        labels |= {"app": "x"} if pod.covered else {}
        labels |= {} if pod.preemptible else {PREEMPTIBLE: "false"}
        value = Pod(
            pod.name,
            "default",
            Amounts.of({"cpu": pod.cpu, "memory": 2**20}),
            priority=pod.priority,
            labels=Labels.of(labels),
        )
        self.see(
            ObservedPod(
                value,
                pod.uid,
                "cotenant",
                made_s,
                node=pod.node,
                started_s=pod.started_s if pod.node else nan,
                preempts=pod.preempts,
                demands=Demands(gang=notes, claims=ClaimNeeds((), (), None, pod.uid, named) if named else None),
            )
        )

    def see(self, seen: ObservedPod) -> None:
        self.stored[seen.uid] = seen
        self.engine.pod_seen(seen, self.now_s)

    def put(self, key: str) -> None:
        """The claim as it is in the facts."""
        self._version += 1
        wanted = self.facts.claims[key]
        selectors = (wanted.model,) if wanted.model else ()
        allocation = None
        if wanted.devices:
            nodes = {node for node, devices in self.facts.devices.items() for d in wanted.devices if d in devices}
            only = tuple(
                NodeSelectorTerm(fields=(Requirement(NAME_FIELD, SelectorOperator.IN, (node,)),))
                for node in nodes - {""}
            )
            given = tuple(AllocatedDevice("gpu", device) for device in wanted.devices)
            allocation = Allocation(given, NodeSelector(only) if only else None)
        self.claims[key] = ResourceClaim(
            "default",
            key,
            f"uid-{key}",
            spec(request("gpu", wanted.count, *selectors)),
            allocation,
            (*(f"uid-{name}" for name in sorted(wanted.users)), *(["uid of a group"] if wanted.is_kept else ())),
            owner_uid=f"uid-{wanted.owner}" if wanted.owner else "",
            version=self._version,
        )
        self.rules.facts.claim_seen(self.claims[key])

    def arrive(self, *pods: Member) -> None:
        """Pods that wait; their claims are in the facts."""
        for pod in pods:
            self.facts.pods[pod.name] = pod
            self._store(pod)

    # ---- the API server

    def carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, Bind):
            self._bind(instruction)
        elif isinstance(instruction, ClearNomination):
            self._nominate(instruction.key, "")
        elif isinstance(instruction, Preempt):
            self._nominate(instruction.key, instruction.node)
            for victim in instruction.victims:
                self._evict(victim.key.partition("/")[2])
        elif isinstance(instruction, Evict):
            name = instruction.victim.key.partition("/")[2]
            pod = self.facts.pods.get(name)
            if pod is not None and not (pod.covered and self.facts.allowed == 0):
                self._evict(name)
        elif isinstance(instruction, ReleaseClaim):
            self._release(instruction)
        elif isinstance(instruction, ReservationStatus):
            self.reservation = replace(
                self.reservation,
                phase=instruction.phase,
                node=instruction.node,
                allocatable=instruction.allocatable,
                allocated=instruction.allocated,
                current=instruction.owners,
                conditions=instruction.conditions,
            )
            self.engine.plugins.reservations.seen(self.reservation, self.now_s)

    def _nominate(self, key: str, node: str) -> None:
        pod = self.facts.pods.get(key.partition("/")[2])
        if pod is not None:
            pod.nominated = node

    def _bind(self, bind: Bind) -> None:
        if not self.engine.sending(bind.uid, self.now_s):
            return
        pod = self.facts.pods[bind.key.partition("/")[2]]
        for holding in bind.holds.claims:
            key = holding.key.partition("/")[2]
            wanted = self.facts.claims[key]
            if holding.allocation is not None:
                given = tuple(device.id for device in holding.allocation.devices)
                assert wanted.devices in ((), given), f"{key} is given twice"
                wanted.devices = given
            wanted.users.add(pod.name)
            self.put(key)
        pod.node, pod.nominated = bind.node, ""
        self.engine.bound(bind.uid, self.now_s)
        self.see(replace(self.stored[bind.uid], node=bind.node))

    def _evict(self, name: str) -> None:
        pod = self.facts.pods.get(name)
        if pod is None or name in self.ending:
            return
        if pod.covered and self.facts.allowed:
            self.set_allowed(self.facts.allowed - 1)
        if self.slow_ends:
            self.ending.append(name)
            self.see(replace(self.stored[pod.uid], ends_s=self.now_s + 30.0, grace_s=30))
        else:
            self.end(name)

    def end(self, name: str) -> None:
        pod = self.facts.pods.pop(name)
        if name in self.ending:
            self.ending.remove(name)
        del self.stored[pod.uid]
        self.engine.pod_gone(pod.uid, self.now_s)
        self.to_free += pod.claims
        if not self.slow_claims:
            self.free_claims()

    def free_claims(self) -> None:
        """What controllers of claims do."""
        for key in dict.fromkeys(self.to_free):
            wanted = self.facts.claims.get(key)
            if wanted is None:
                continue
            wanted.users &= self.facts.pods.keys()
            if wanted.owner and wanted.owner not in self.facts.pods:
                del self.facts.claims[key], self.claims[key]
                self.rules.facts.claim_gone(f"default/{key}")
                continue
            if not wanted.users and not wanted.is_kept:
                wanted.devices = ()
            self.put(key)
        self.to_free.clear()

    def _release(self, given: ReleaseClaim) -> None:
        key = given.key.partition("/")[2]
        wanted = self.facts.claims.get(key)
        if wanted is not None and {f"uid-{name}" for name in wanted.users} <= {given.consumer_uid}:
            wanted.users.clear()
            wanted.devices = ()
            self.put(key)

    # ---- what waits

    def preemptors(self) -> list[list[Member]]:
        """One or two pods or gangs that find no room by themselves, perhaps."""
        rng, facts = self.rng, self.facts
        found: list[list[Member]] = []
        for at in range(rng.choice((1, 1, 2))):
            is_gang = rng.random() < 0.6
            size = rng.randint(1, 4) if is_gang else 1
            gang = f"p{at}" if is_gang else ""
            if gang:
                facts.least[gang] = rng.randint(max(1, size - 1), size)
            pods = self._alike(at, size, gang)
            dice = rng.random()
            if dice < 0.2 and size > 1:
                self._share(pods)
            elif dice < 0.8:
                self._own(pods)
            if rng.random() < 0.25:
                for pod in pods:
                    pod.cpu = rng.choice((500, 1000, 2000))
            found.append(pods)
        return found

    def _alike(self, at: int, size: int, gang: str) -> list[Member]:
        rng, facts = self.rng, self.facts
        cpu, priority = rng.choice((500, 1000, 1000, 2000)), rng.choice((1, 3, 3, 4, 5))
        quota = rng.choice(("q0", "q1")) if facts.quotas else ""
        preempts, preemptible = rng.random() < 0.9, rng.random() < 0.9
        return [
            Member(f"p{at}-{i}", cpu, priority, (), gang, quota, preemptible=preemptible, preempts=preempts)
            for i in range(size)
        ]

    def _own(self, pods: list[Member]) -> None:
        rng = self.rng
        count, model = rng.choice((1, 1, 2)), rng.choice(("", "", "a", "b"))
        for pod in pods:
            self.facts.claims[f"c-{pod.name}"] = Wanted(count, model, pod.name)
            pod.claims = (f"c-{pod.name}",)

    def _share(self, pods: list[Member]) -> None:
        key = f"c-{pods[0].gang}"
        self.facts.claims[key] = Wanted(self.rng.choice((1, 2)), self.rng.choice(("", "a")))
        for pod in pods:
            pod.claims = (key,)
