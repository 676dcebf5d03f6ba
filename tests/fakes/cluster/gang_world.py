"""A small cluster with gangs, for tests: nodes in racks and blocks, members, and what came of a judgement."""

from __future__ import annotations

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction, Preempt, Unschedulable
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups import gang
from cotenant.model.groups.gang import GangNotes, PodGroup, PodGroupStatus
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

RACK, BLOCK = "example.com/rack", "example.com/block"


def node(name: str, cpu: int = 1000, **labels: str) -> Node:
    keys = {"rack": RACK, "block": BLOCK}
    more = {keys[key]: value for key, value in labels.items()}
    return Node(name, Amounts.of({"cpu": cpu, "memory": 64 << 30}), Labels.of({HOSTNAME: name, **more}))


def pod(
    name: str,
    of: str = "",
    least: int | None = None,
    cpu: int = 1000,
    priority: int = 0,
    created_s: float = 0.0,
    on: str = "",
    label: str = "",
    namespace: str = "default",
    **notes: object,
) -> ObservedPod:
    labels = Labels.of({gang.POD_GROUP: label} if label else {})
    value = Pod(
        name,
        namespace=namespace,
        requests=Amounts.of({"cpu": cpu, "memory": 1 << 20}),
        priority=priority,
        labels=labels,
    )
    said = GangNotes(name=of, min_available=least, **notes) if of else None  # type: ignore[arg-type]
    return ObservedPod(value, f"uid-{namespace}-{name}", "cotenant", created_s, node=on, demands=Demands(gang=said))


def members(of: str, count: int, least: int | None = None, **more: object) -> list[ObservedPod]:
    return [pod(f"{of}-{i}", of, least if least is not None else count, **more) for i in range(count)]  # type: ignore[arg-type]


def group(name: str, least: int | None, uid: str = "", **more: object) -> PodGroup:
    notes = GangNotes(**more)  # type: ignore[arg-type]
    key = f"default/{name}"
    return PodGroup(key, uid or f"uid-{name}", 0.0, least, None, notes, PodGroupStatus(key, uid or f"uid-{name}"))


def cluster(
    nodes: int = 4, cpu: int = 1000, settings: EngineSettings | None = None, policy: str = "least-allocated"
) -> Cluster:
    made = Cluster(profile(policy), np.random.default_rng(1), settings)
    for i in range(nodes):
        made.node_seen(node(f"n{i}", cpu))
    return made


def see(c: Cluster, *pods: ObservedPod, now_s: float = 0.0) -> None:
    for pod in pods:
        c.pod_seen(pod, now_s)


def settle(c: Cluster, now_s: float) -> list[Instruction]:
    """Decide until nothing is due."""
    out: list[Instruction] = []
    for _ in range(20):
        out += c.decide(now_s)
        c.validate()
        if c.next_s() > now_s:
            return out
    raise AssertionError("it does not come to rest")


def binds(out: list[Instruction]) -> dict[str, str]:
    return {instruction.key.partition("/")[2]: instruction.node for instruction in out if isinstance(instruction, Bind)}


def told(out: list[Instruction]) -> dict[str, str]:
    return {
        instruction.key.partition("/")[2]: instruction.message
        for instruction in out
        if isinstance(instruction, Unschedulable)
    }


def confirm(c: Cluster, out: list[Instruction], now_s: float) -> None:
    for instruction in out:
        if isinstance(instruction, Bind):
            assert c.sending(instruction.uid, now_s)
            c.bound(instruction.uid, now_s)


def preempted(out: list[Instruction]) -> dict[str, tuple[str, ...]]:
    return {
        instruction.key.partition("/")[2]: tuple(v.key.partition("/")[2] for v in instruction.victims)
        for instruction in out
        if isinstance(instruction, Preempt)
    }
