"""A small world around the manager's engine: a clock, objects, and an API server that carries out instructions at
once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from math import nan
from typing import Any

from cotenant.engine.manager.instructions import (
    DeleteObject,
    Instruction,
    NodeObjectKind,
    WriteAmounts,
    WritePool,
    WriteSpec,
)
from cotenant.engine.manager.manager import Manager
from cotenant.engine.manager.settings import ManagerSettings
from cotenant.model.autonomy.pool_lending import PoolLending
from cotenant.model.cluster.managed import ManagedNode
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Use
from cotenant.model.resources import Amounts

CORES, GI = 100_000, 1 << 30
SIZE = Use(CORES, 100 * GI)


def node(name: str = "n", uid: str = "u", **fields: Any) -> ManagedNode:
    """A node of 100 cores."""
    return ManagedNode(name, SIZE, SIZE, uid, **fields)


def pod(name: str, node: str = "n", cores: int = 10, **fields: Any) -> ObservedPod:
    """A running prod pod."""
    what = Pod(
        name,
        requests=Amounts.of({"cpu": cores * 1000, "memory": cores * GI}),
        qos=fields.pop("qos", QoSClass.LS),
        priority_class=fields.pop("priority_class", PriorityClass.PROD),
    )
    return ObservedPod(what, f"uid-{name}", "cotenant", 0.0, node, fields.pop("phase", PodPhase.RUNNING), **fields)


def metric(at_s: float, use_m: int = 0, age_s: float = 0.0, name: str = "n", **pods: int) -> NodeMetric:
    """A measurement with an update time; pods by name in milli-CPU."""
    return NodeMetric(
        name,
        age_s,
        use=Use(use_m or sum(pods.values()), 10 * GI),
        pods={f"default/{key}": MeasuredPod(Use(amount, GI), PriorityClass.PROD) for key, amount in pods.items()},
        updated_s=at_s,
    )


def config(**strategy: object) -> dict[str, str]:
    """A ConfigMap's data."""
    return {"colocation-config": json.dumps({"enable": True, **strategy})}


class World:
    """One manager and the objects that it writes. `restart` starts another that knows only the objects."""

    def __init__(self, **strategy: object) -> None:
        self.now_s = 10_000.0
        self.data: Mapping[str, str] | None = config(**strategy)
        self.nodes: dict[str, ManagedNode] = {}
        self.pods: dict[str, ObservedPod] = {}
        self.metrics: dict[str, NodeMetric] = {}
        self.specs: dict[tuple[NodeObjectKind, str], Mapping[str, Any]] = {}
        self.pools: dict[str, PoolLending] = {}
        self.done: list[Instruction] = []
        self.loses = 0  # so many next writes are lost
        self.settings = ManagerSettings()
        self.restart()

    def restart(self) -> None:
        """A new process: lists everything, and begins to lead."""
        self.manager = manager = Manager(self.settings)
        for node in self.nodes.values():
            manager.node_seen(node)
        for seen in self.pods.values():
            manager.pod_seen(seen, self.now_s)
        for found in self.metrics.values():
            manager.metric_seen(replace(found, age_s=max(0.0, self.now_s - found.updated_s)), self.now_s)
        for (kind, name), spec in self.specs.items():
            manager.spec_seen(kind, name, spec)
        for pool in self.pools.values():
            manager.pools.pool_seen(pool, self.now_s)
        manager.config_seen(self.data)
        manager.leads_now(self.now_s)

    def node(self, name: str = "n", **fields: Any) -> None:
        self.nodes[name] = node(name, **fields)
        self.manager.node_seen(self.nodes[name])

    def gone(self, name: str = "n") -> None:
        self.nodes.pop(name)
        self.manager.node_gone(name)

    def pod(self, name: str, **fields: Any) -> None:
        self.pods[name] = pod(name, **fields)
        self.manager.pod_seen(self.pods[name], self.now_s)

    def measure(self, use_m: int = 0, name: str = "n", skew_s: float = 0.0, **pods: int) -> None:
        """A new measurement, by an agent whose clock is off by `skew_s`."""
        found = metric(self.now_s + skew_s, use_m, max(0.0, -skew_s), name, **pods)
        self.metrics[name] = found
        self.manager.metric_seen(found, self.now_s)

    def configure(self, data: Mapping[str, str] | None) -> None:
        self.data = data
        self.manager.config_seen(data)

    def step(self, seconds: float = 2.0) -> list[Instruction]:
        """Let time pass, and carry out what is decided."""
        self.now_s += seconds
        found = list(self.manager.decide(self.now_s))
        for write_amounts in found:
            if self.loses > 0:
                self.loses -= 1
            else:
                self._carry_out(write_amounts)
        self.done += found
        self.manager.validate()
        return found

    def lent(self, name: str = "n") -> dict[str, int]:
        return dict(self.nodes[name].lent)

    @property
    def writes(self) -> int:
        """Writes of amounts so far."""
        return sum(isinstance(write_amounts, WriteAmounts) for write_amounts in self.done)

    def _carry_out(self, write_amounts: Instruction) -> None:
        if isinstance(write_amounts, WriteAmounts):
            stored = self.nodes.get(write_amounts.node)
            if stored is None or stored.uid != write_amounts.uid:
                return
            lent = {**stored.lent, **write_amounts.amounts}
            self.nodes[write_amounts.node] = replace(
                stored,
                lent={key: amount for key, amount in lent.items() if amount is not None},
                written=write_amounts.annotation or "",
            )
            self.manager.node_seen(self.nodes[write_amounts.node])
        elif isinstance(write_amounts, WriteSpec):
            stored_spec = {} if write_amounts.creates else self.specs.get((write_amounts.kind, write_amounts.node), {})
            self.specs[write_amounts.kind, write_amounts.node] = merged(stored_spec, write_amounts.patch)
            self.manager.spec_seen(
                write_amounts.kind, write_amounts.node, self.specs[write_amounts.kind, write_amounts.node]
            )
        elif isinstance(write_amounts, WritePool):
            name, found = write_amounts.pool, self.pools.get(write_amounts.pool)
            if found is None:  # an object is made first, and gets its status when the watch has shown it
                self.pools[name] = PoolLending(name, f"uid-{name}")
            elif found.uid == write_amounts.uid:
                self.pools[name] = replace(found, status=write_amounts.status)
            self.manager.pools.pool_seen(self.pools[name], self.now_s)
        elif isinstance(write_amounts, DeleteObject):
            self.specs.pop((write_amounts.kind, write_amounts.node), None)
            if write_amounts.kind is NodeObjectKind.NODE_METRIC:
                self.metrics.pop(write_amounts.node, None)
                self.manager.metric_gone(write_amounts.node, self.now_s)
            self.manager.spec_gone(write_amounts.kind, write_amounts.node)


def merged(stored: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7386."""
    found = dict(stored)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, Mapping):
            before = found.get(name)
            found[name] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            found[name] = value
    return found


NEVER = nan
