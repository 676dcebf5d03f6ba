"""A cluster with quotas whose API server does at once what it is told, and the pods, nodes and quotas to put into
it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Instruction, Unschedulable
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.plugins.quotas.status import QuotaStatus
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.quota import NAME, ROOT_QUOTA, Quota, QuotaObject
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.placement.profiles import profile


def cpu(cores: int) -> Amounts:
    return Amounts.of({"cpu": cores * 1000})


def node(name: str, cores: int, **more: object) -> Node:
    room = Amounts.of({"cpu": cores * 1000, "memory": 1 << 40, "pods": 500, "nvidia.com/gpu": 8})
    return Node(name, room, Labels.of({HOSTNAME: name}), **more)  # type: ignore[arg-type]


def quota(name: str, least: int, most: int, parent: str = ROOT_QUOTA, **more: object) -> QuotaObject:
    about = {key: more.pop(key) for key in ("total", "keeps_out", "wrong", "key") if key in more}
    made = Quota(name, cpu(most), cpu(least) if least else NOTHING, parent, **more)  # type: ignore[arg-type]
    return QuotaObject(**{"key": f"quotas/{name}", "uid": f"uid-{name}", "quota": made, **about})  # type: ignore[arg-type]


def pod(name: str, cores: int, of: str = "", *, on: str = "", namespace: str = "work", **more: object) -> ObservedPod:
    about = {key: more.pop(key) for key in ("ends_s", "preempts", "started_s", "created_s") if key in more}
    labels = {**({NAME: of} if of else {}), **dict(more.pop("labels", {}))}  # type: ignore[call-overload]
    requests = more.pop("requests", cpu(cores))
    value = Pod(name, namespace, requests, labels=Labels.of(labels), **more)  # type: ignore[arg-type]
    return ObservedPod(value, f"uid-{name}", "cotenant", **{"created_s": 0.0, "node": on, **about})  # type: ignore[arg-type]


class World:
    """A cluster whose API server does at once what it is told."""

    def __init__(self, *nodes: Node, **settings: object) -> None:
        self.quotas = Quotas(QuotaSettings(**settings))  # type: ignore[arg-type]
        self.cluster = Cluster(
            profile("least-allocated"), np.random.default_rng(1), plugins=PluginRegistry(quotas=self.quotas)
        )
        self.pods: dict[str, ObservedPod] = {}
        self.now_s = 0.0
        for node in nodes:
            self.cluster.node_seen(node)

    def write(self, *objects: QuotaObject) -> None:
        for quota_object in objects:
            self.quotas.quota_seen(quota_object, self.now_s)

    def create(self, *pods: ObservedPod) -> None:
        for pod in pods:
            self.pods[pod.uid] = pod
            self.cluster.pod_seen(pod, self.now_s)

    def delete(self, *names: str) -> None:
        for name in names:
            del self.pods[f"uid-{name}"]
            self.cluster.pod_gone(f"uid-{name}", self.now_s)

    def go(self, seconds: float = 0.0) -> list[Instruction]:
        """Judge until nothing is due, and validate."""
        self.now_s += seconds
        given: list[Instruction] = []
        for _ in range(50):
            told = self.cluster.decide(self.now_s)
            given += told
            for instruction in told:
                if isinstance(instruction, Bind):
                    assert self.cluster.sending(instruction.uid, self.now_s)
                    self.cluster.bound(instruction.uid, self.now_s)
                    self.pods[instruction.uid] = replace(self.pods[instruction.uid], node=instruction.node)
                    self.cluster.pod_seen(self.pods[instruction.uid], self.now_s)
            if self.cluster.next_s() > self.now_s:
                break
        else:
            raise AssertionError("it never rests")
        self.cluster.validate()
        return given

    def evict(self, given: list[Instruction]) -> None:
        self.delete(
            *(instruction.victim.key.partition("/")[2] for instruction in given if isinstance(instruction, Evict))
        )

    def terminate(self, name: str) -> None:
        """A pod is being deleted, and holds its node until it has ended."""
        self.pods[f"uid-{name}"] = replace(self.pods[f"uid-{name}"], ends_s=self.now_s + 30.0)
        self.cluster.pod_seen(self.pods[f"uid-{name}"], self.now_s)

    def seated(self, of: str) -> int:
        return sum(1 for pod in self.pods.values() if pod.node and pod.pod.labels.get(NAME) == of)

    def runtime(self, name: str) -> int:
        about = self.quotas.describe(name)
        assert about is not None
        return about.shares[0].terms.runtime // 1000


def bound(given: list[Instruction]) -> list[str]:
    return sorted(instruction.key.partition("/")[2] for instruction in given if isinstance(instruction, Bind))


def told(given: list[Instruction]) -> dict[str, str]:
    return {
        instruction.key.partition("/")[2]: instruction.message
        for instruction in given
        if isinstance(instruction, Unschedulable)
    }


def evicted(given: list[Instruction]) -> list[str]:
    return sorted(instruction.victim.key.partition("/")[2] for instruction in given if isinstance(instruction, Evict))


def statuses(given: list[Instruction]) -> dict[str, QuotaStatus]:
    return {instruction.key: instruction for instruction in given if isinstance(instruction, QuotaStatus)}
