"""A cluster whose pods are resized in place by anybody: kubelets that take it, defer it, refuse it or fail halfway, an
engine that is told late and in any order, and the same cluster in plain numbers.

Pods of several containers, sidecars, init containers and amounts of the pod as a whole; with CPUs of their own, on one
NUMA node, of batch and mid resources; in quotas that lend and borrow, in gangs, some of which ask for more to be free
than their pods request (minResources of a PodGroup), and owners of reservations.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from tests.fakes.cluster.cpu_cluster import GIB, tells, zones
from tests.fakes.cluster.gang_world import group
from tests.fakes.cluster.reservation_world import OWNERS, World
from tests.fakes.cluster.resized_pods import MIB, Part, ResizedPod, native
from tests.fakes.seal_keys import keys

from cotenant.drivers.kube.cache.sharing import PodSharing
from cotenant.drivers.kube.kinds.pod.demands import written_holdings
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Instruction, Preempt
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.labels import HOSTNAME, PRIORITY_CLASS, QOS_CLASS, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.seal import SEAL
from cotenant.model.cpus.spec import NUMA_TOPOLOGY_SPEC
from cotenant.model.groups import gang
from cotenant.model.groups.gang import PodGroup
from cotenant.model.groups.quota import NAME, ROOT_QUOTA, Quota, QuotaObject
from cotenant.model.groups.reservation import Reservation
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, CPU_NAME, MEMORY_NAME, MID_CPU, MID_MEMORY, Amounts
from cotenant.policy.placement.profiles import profile

NAMES = ("n0", "n1")
SEALER, SEALS = keys()
QUOTAS = {  # CPU: minimum, maximum, whether it lends
    "red": (3000, 12_000, True),
    "blue": (4000, 9000, True),
    "grey": (2000, 6000, False),
}
SIZES = (200, 500, 700, 1000, 1500, 2000, 3000)
FAR_TOO_MUCH = 20_000


class ResizedWorld(World):
    """`step` lets something happen."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.things: dict[str, ResizedPod] = {}
        self.groups: dict[str, PodGroup] = {}  # with minResources
        self.room = {name: {CPU_NAME: 8000, BATCH_CPU: 6000, MID_CPU: 2000} for name in NAMES}
        self.late: list[tuple[str, str]] = []  # what the engine was not told yet
        self.made = self.resizes = 0
        self.answers: dict[str, int] = {}
        self.reader, self.share = PodReader(seals=SEALS), PodSharing()
        super().__init__()
        self.restart()

    # ---- the scheduler

    def restart(self) -> None:
        """It begins anew from what the server has."""
        self.late.clear()
        self.reader, self.share = PodReader(seals=SEALS), PodSharing()
        self.pods = {thing.uid: self.reader.pod(thing.stored()) for thing in self.things.values()}
        self.cluster = self.fresh()
        self.reservations = self.cluster.plugins.reservations

    def fresh(self) -> Cluster:
        """A scheduler that reads the same objects, in any order."""
        plugins = PluginRegistry(quotas=Quotas(QuotaSettings(preempt=False, revoke_after_s=30.0)))
        made = Cluster(profile("least-allocated"), np.random.default_rng(1), EngineSettings(), plugins)
        facts: list[Any] = [lambda name=name: made.node_seen(self.node(name)) for name in NAMES]
        facts += [
            lambda name=name: made.plugins.cpus.topology_seen(tells(name, zones=zones(8, 8)), self.now_s)
            for name in NAMES
        ]
        facts += [
            lambda name=name: made.plugins.quotas.quota_seen(quota(name), self.now_s) for name in ("team", *QUOTAS)
        ]
        reader = PodReader(seals=SEALS)
        facts += [
            lambda thing=thing: made.pod_seen(reader.pod(thing.stored()), self.now_s) for thing in self.things.values()
        ]
        facts += [lambda one=one: made.plugins.gangs.pod_group_seen(one, self.now_s) for one in self.groups.values()]
        facts += [lambda held=held: made.plugins.reservations.seen(held, self.now_s) for held in self.held.values()]
        self.random.shuffle(facts)
        for fact in facts:
            fact()
        return made

    def node(self, name: str) -> Node:
        more = {MEMORY_NAME: 16 * GIB, BATCH_MEMORY: 8 * GIB, MID_MEMORY: 4 * GIB, "pods": 100}
        return Node(name, Amounts.of(self.room[name] | more), Labels.of({HOSTNAME: name}))

    def tell(self) -> None:
        """All that happened, in any order."""
        self.random.shuffle(self.late)
        for kind, name in self.late:
            if kind == "node":
                self.cluster.node_seen(self.node(name))
            elif kind == "group":
                self.cluster.plugins.gangs.pod_group_seen(self.groups[name], self.now_s)
            elif kind == "gone":
                self.cluster.pod_gone(f"uid-{name}", self.now_s)
            elif name in self.things:
                thing = self.things[name]
                self.pods[thing.uid] = self.reader.pod(self.share(thing.stored()))
                self.cluster.pod_seen(self.pods[thing.uid], self.now_s)
        self.late.clear()

    def changed(self, thing: ResizedPod) -> None:
        self.late.append(("pod", thing.name))

    def decide(self) -> list[Bind]:
        """Carry out what it says. What was bound."""
        binds: list[Bind] = []
        for _ in range(20):
            if self.cluster.next_s() > self.now_s:
                break
            for told in self.cluster.decide(self.now_s):
                self.carry_out(told)
                binds += [told] if isinstance(told, Bind) else []
        return binds

    def carry_out(self, instruction: Instruction, answer: bool = True) -> None:
        if isinstance(instruction, Bind):
            thing = self.things[instruction.key.partition("/")[2]]
            assert self.cluster.sending(instruction.uid, self.now_s)
            notes = written_holdings(instruction.holds, instruction.written)
            thing.notes |= notes | ({SEAL: SEALER.seal(thing.uid, instruction.node, notes)} if notes else {})
            thing.node = instruction.node
            if self.random.random() < 0.9:  # else its kubelet has not said anything yet
                thing.run()
            self.pods[thing.uid] = self.reader.pod(self.share(thing.stored()))
            self.cluster.pod_seen(self.pods[thing.uid], self.now_s)
            self.cluster.bound(instruction.uid, self.now_s)
        elif isinstance(instruction, Evict):
            self.go_away(instruction.victim.key.partition("/")[2])
        elif isinstance(instruction, Preempt):
            for victim in instruction.victims:
                self.go_away(victim.key.partition("/")[2])
        else:
            super().carry_out(instruction, answer)

    # ---- what happens

    def step(self) -> None:
        """One or two random events, of which the engine has not heard."""
        self.now_s += self.random.choice((0.5, 5.0, 40.0))
        often = (self.create, self.resize, self.resize, self.resize, self.kubelets, self.kubelets)
        seldom = (self.reserve, self.delete, self.end, self.resize_node, self.revert)
        for _ in range(self.random.choice((1, 1, 2))):
            self.random.choice(3 * often + seldom)()

    def create(self) -> None:
        if len(self.things) > 30:
            self.delete()
        self.made += 1
        kind = self.random.choice(
            ("plain", "plain", "own", "own", "numa", "numa", "batch", "mid", "web", "gang", "asking")
        )
        if kind == "asking":
            least = Amounts.of({CPU_NAME: self.random.choice((2000, 6000, 9000)), MEMORY_NAME: 1 << 30})
            self.groups[f"g{self.made}"] = replace(group(f"g{self.made}", 2), min_resources=least)
            self.late.append(("group", f"g{self.made}"))
        for member in range(2 if kind in ("gang", "asking") else 1):
            thing = self._made(f"p{self.made}-{member}", kind)
            self.things[thing.name] = thing
            self.changed(thing)

    def _made(self, name: str, kind: str) -> ResizedPod:
        random = self.random
        cpu_m = random.choice((500, 1000, 2000))
        labels = {NAME: random.choice(tuple(QUOTAS)), QOS_CLASS: "LS", PRIORITY_CLASS: "koord-prod"}
        notes: dict[str, str] = {}
        parts = [Part("a", native(cpu_m, random.choice((256, 1024))))]
        whole: Part | None = None
        if kind == "own":
            labels[QOS_CLASS] = "LSR"
            parts = [Part("a", native(random.choice((1000, 2000)), 512), limited=True)]
        elif kind == "numa":
            notes[NUMA_TOPOLOGY_SPEC] = '{"numaTopologyPolicy":"SingleNUMANode"}'
        elif kind in ("batch", "mid"):
            cpu, memory = (BATCH_CPU, BATCH_MEMORY) if kind == "batch" else (MID_CPU, MID_MEMORY)
            labels |= {QOS_CLASS: "BE", PRIORITY_CLASS: f"koord-{kind}"}
            parts = [Part("a", {cpu: cpu_m, memory: 256 * MIB}, limited=True)]
            if random.random() < 0.5:  # and a native container that may be resized
                parts.append(Part("b", native(200, 64)))
        elif kind == "web":
            labels["app"] = "web"
        elif kind == "gang":
            notes |= {gang.NAME: f"g{self.made}", gang.MIN_AVAILABLE: "2"}
        elif kind == "asking":
            labels[gang.POD_GROUP] = f"g{self.made}"
        if kind in ("plain", "web", "gang", "asking", "numa"):
            if random.random() < 0.4:
                parts.append(Part("b", native(300, 128)))
            if random.random() < 0.3:
                parts.append(Part("side", native(200, 64), "sidecar"))
            if random.random() < 0.3:
                parts.append(Part("first", native(random.choice((500, 2500)), 128), "init"))
            if random.random() < 0.3:
                sum_m = sum(part.asked[CPU_NAME] for part in parts if part.kind != "init")
                whole = Part("pod", {CPU_NAME: sum_m + random.choice((0, 500))})
        return ResizedPod(name, parts, whole, labels, notes, random.choice((0, 100)), self.made)

    def resize(self) -> None:
        """Anybody: kubectl, an autoscaler, another controller."""
        random = self.random
        found = [thing for thing in self.things.values() if thing.node and not thing.ended and not thing.ending]
        if not found:
            return
        on_one = [thing for thing in found if NUMA_TOPOLOGY_SPEC in thing.notes]
        thing = random.choice(on_one if on_one and random.random() < 0.4 else found)
        parts = [part for part in thing.resizable if CPU_NAME in part.asked]
        if not parts:
            return
        self.resizes += 1
        for part in random.sample(parts, random.randint(1, len(parts))):
            cpu_m = random.choice(SIZES) if random.random() < 0.9 else FAR_TOO_MUCH
            part.asked = (
                {CPU_NAME: cpu_m} if part.name == "pod" else native(cpu_m, random.choice((64, 256, 1024, 3000)))
            )
        thing.pending = ""
        self.changed(thing)

    def revert(self) -> None:
        """Whoever asked for it takes it back."""
        for thing in self.things.values():
            if thing.is_awaited and self.random.random() < 0.5:
                for part in thing.resizable:
                    part.asked = dict(part.allocated or part.asked)
                thing.pending = ""
                self.changed(thing)

    def kubelets(self) -> None:
        for thing in list(self.things.values()):
            if thing.node and not thing.ended and self.random.random() < 0.5:
                said = self._kubelet(thing)
                self.answers[said] = self.answers.get(said, 0) + 1
                if said:
                    self.changed(thing)

    def _kubelet(self, thing: ResizedPod) -> str:
        if any(part.there is None for part in thing.resizable):
            thing.run()
            return "running"
        if not thing.is_awaited:
            return ""
        wanted, room = thing.wants(), self.node(thing.node).allocatable
        if any(part.asked != part.allocated for part in thing.resizable):
            others = [other.has() for other in self.things.values() if other.node == thing.node and other is not thing]
            if any(wanted[name] > room.get(name) for name in (CPU_NAME, MEMORY_NAME) if name in wanted):
                thing.pending = "Infeasible"
            elif any(
                sum(other.get(name, 0) for other in others) + wanted.get(name, 0) > room.get(name)
                for name in (CPU_NAME, MEMORY_NAME)
            ):
                thing.pending = "Deferred"
            else:
                thing.allocate()
                return "allocated"
            return thing.pending
        parts = [part for part in thing.resizable if part.there != part.allocated]
        some = parts if self.random.random() < 0.6 else parts[: self.random.randrange(len(parts))]
        thing.put_in_place(some)
        return "in place" if some == parts else "halfway"

    def reserve(self) -> None:
        if len(self.held) < 2:
            self.made += 1
            size = Amounts.of({CPU_NAME: 2000, MEMORY_NAME: 1 << 30})
            template = Pod(f"r{self.made}", requests=size, labels=Labels.of({"app": "web"}))
            self.see(
                Reservation(
                    f"r{self.made}", f"uid-r{self.made}", template, OWNERS, created_s=self.now_s, allocate_once=False
                )
            )

    def resize_node(self) -> None:
        """What its manager lends, or what it has."""
        name = self.random.choice(NAMES)
        self.room[name] |= {
            CPU_NAME: self.random.choice((7000, 8000, 8000)),
            BATCH_CPU: self.random.choice((0, 3000, 6000)),
        }
        self.late.append(("node", name))

    def end(self) -> None:
        found = [thing for thing in self.things.values() if thing.node and not thing.ended]
        if found:
            thing = self.random.choice(found)
            thing.ended, thing.ending = (True, False) if self.random.random() < 0.5 else (False, True)
            self.changed(thing)

    def delete(self) -> None:
        if self.things:
            self.go_away(self.random.choice(sorted(self.things)))

    def go_away(self, name: str) -> None:
        thing = self.things.pop(name, None)
        if thing is not None:
            self.pods.pop(thing.uid, None)
            self.late.append(("gone", name))

    # ---- plain sums

    def on(self, node: str) -> list[ResizedPod]:
        return [thing for thing in self.things.values() if thing.node == node and not thing.ended]

    def taken(self, node: str, resource: str) -> int:
        """By pods, without what reservations keep."""
        return sum(thing.takes().get(resource, 0) for thing in self.on(node))

    def drew_from(self, held: Reservation) -> list[ObservedPod]:
        """See `World`; who has ended gave it back."""
        return [pod for pod in super().drew_from(held) if not self.things[pod.pod.name].ended]

    def free(self, resource: str, but: Collection[str]) -> int:
        """Of all nodes together, but for what these pods have and what reservations keep."""
        found = 0
        for node in NAMES:
            taken = sum(one.takes().get(resource, 0) for one in self.on(node) if one.name not in but)
            kept = sum(self.left(one).get(resource) for one in self.living(node))
            found += max(0, self.node(node).allocatable.get(resource) - taken - kept)
        return found

    def used(self, name: str, resource: str) -> int:
        of = [thing for thing in self.things.values() if thing.labels[NAME] == name and thing.node and not thing.ended]
        return sum(thing.takes().get(resource, 0) for thing in of)


def quota(name: str) -> QuotaObject:
    if name == "team":
        size = Amounts.of({CPU_NAME: 14_000})
        return QuotaObject("quotas/team", "uid-team", Quota("team", size, size, ROOT_QUOTA, is_parent=True))
    least, most, lends = QUOTAS[name]
    made = Quota(name, Amounts.of({CPU_NAME: most}), Amounts.of({CPU_NAME: least}), "team", lends=lends)
    return QuotaObject(f"quotas/{name}", f"uid-{name}", made)
