"""Small clusters for questions about pods."""

from __future__ import annotations

from typing import Any

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.cycle.score_parts import Seen, table
from cotenant.engine.framework.instructions import Bind, Instruction
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.decisions.record import CandidateNode
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

MIB = 1 << 20
OF_OBSERVED = ("gates", "volumes", "unsupported", "preempts", "phase", "ends_s", "demands")


def node(name: str, cpu: int = 4000, *, memory: int = 0, labels: dict[str, str] | None = None, **more: Any) -> Node:
    """Memory in MiB; as many as milli-CPU where none is given."""
    size = Amounts.of({"cpu": cpu, "memory": (memory or cpu) * MIB})
    return Node(name, size, Labels.of({HOSTNAME: name, **(labels or {})}), **more)


def pod(
    name: str, cpu: int = 1000, *, memory: int = 0, on: str = "", created_s: float = 0.0, **more: Any
) -> ObservedPod:
    """Memory in MiB; as many as milli-CPU where none is given."""
    observed = {key: more.pop(key) for key in OF_OBSERVED if key in more}
    size = Amounts.of({"cpu": cpu, "memory": (memory or cpu) * MIB})
    return ObservedPod(Pod(name, requests=size, **more), f"uid-{name}", "cotenant", created_s, node=on, **observed)


def cluster(
    *nodes: Node, profile_name: str = "least-allocated", plugins: PluginRegistry | None = None, **settings: Any
) -> Cluster:
    made = Cluster(profile(profile_name), np.random.default_rng(1), EngineSettings(**settings), plugins)
    for node in nodes:
        made.node_seen(node)
    return made


def carry_out(c: Cluster, instructions: tuple[Instruction, ...], now_s: float) -> None:
    """Every bind is accepted."""
    for instruction in instructions:
        if isinstance(instruction, Bind):
            assert c.sending(instruction.uid, now_s)
            c.bound(instruction.uid, now_s)


class Watching:
    """Keeps the ranking of every pod that is judged."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[CandidateNode, ...]] = {}

    def judging(self, seen: Seen) -> None:
        self.seen[seen.pod] = table(seen).best(1000)
