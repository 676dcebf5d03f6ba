"""Groups of a LeaderWorkerSet: each on nodes of one NVLink domain or rack, or nowhere."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.fakes.servers.told_watches import ToldWatches, nobody

from cotenant.drivers.kube.kinds.node import NODES
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.kube.kinds.workload.declarations import packaged
from cotenant.drivers.kube.kinds.workload.index import WorkloadIndex
from cotenant.drivers.kube.kinds.workload.objects import kind_of
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.state.reports import NodeReports
from cotenant.policy.placement.profiles import profile
from cotenant.services.scheduling.claims import ClaimBinder
from cotenant.services.scheduling.watches import EngineWatches

CLIQUE = "nvidia.com/gpu.clique"
LABEL = "leaderworkerset.sigs.k8s.io/"
(LWS,) = (one for one in packaged() if one.kind == "LeaderWorkerSet")


class Scheduler:
    """A scheduler; `domains` are the free CPUs of the nodes of each."""

    def __init__(self, domains: list[list[int]]) -> None:
        self.watches = ToldWatches()
        self.engine = Cluster(profile("least-allocated"), np.random.default_rng(1))
        reader = PodReader(workloads=WorkloadIndex(packaged()))
        EngineWatches(
            self.watches, self.engine, reader, ClaimBinder(nobody(), reader.volumes), NodeReports(), lambda: 0.0
        )
        self.domain: dict[str, int] = {}
        for domain, nodes in enumerate(domains):
            for number, cpus in enumerate(nodes):
                name = f"n{domain}-{number}"
                self.domain[name] = domain
                amounts = {"cpu": str(cpus), "memory": "64Gi", "pods": "10"}
                status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
                meta = {"name": name, "labels": {CLIQUE: f"c{domain}"}}
                self.watches.seen(NODES, {"metadata": meta, "status": status})

    def workload(self, size: int, **annotations: str) -> None:
        meta = {"name": "llm", "namespace": "ml", "uid": "uid-llm", "annotations": annotations}
        spec = {"replicas": 2, "leaderWorkerTemplate": {"size": size}}
        self.watches.seen(kind_of(LWS), {"metadata": meta, "spec": spec})

    def pod(self, group: int, index: int, annotations: dict[str, str]) -> None:
        labels = {LABEL + "name": "llm", LABEL + "group-index": str(group), LABEL + "worker-index": str(index)}
        name = f"llm-{group}-{index}"
        meta: dict[str, Any] = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": labels}
        resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
        spec = {"schedulerName": "cotenant", "containers": [{"name": "c", "resources": resources}]}
        self.watches.seen(PODS, {"metadata": meta | {"annotations": annotations}, "spec": spec})

    def bound(self) -> dict[str, str]:
        """Node of each pod that was bound."""
        said = [*self.engine.decide(1.0), *self.engine.decide(6.0)]
        self.engine.validate()
        return {one.key.partition("/")[2]: one.node for one in said if isinstance(one, Bind)}


@pytest.mark.parametrize("seed", range(30))
def test_a_group_is_in_one_domain_exactly_where_one_has_room(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domains = [rng.integers(0, 3, int(rng.integers(1, 4))).tolist() for _ in range(3)]
    size = int(rng.integers(2, 5))
    s = Scheduler(domains)
    s.workload(size)
    together = {"cotenant.io/gang-topology": json.dumps({"keys": [CLIQUE], "required": True})}
    for group in range(2):
        for index in range(size):
            s.pod(group, index, together)
    bound = s.bound()
    left = [sum(nodes) for nodes in domains]
    groups = Counter(name.split("-")[1] for name in bound)
    assert set(groups.values()) <= {size}, "whole groups"
    for group in groups:
        inside = {s.domain[node] for name, node in bound.items() if name.split("-")[1] == group}
        assert len(inside) == 1
        left[inside.pop()] -= size
    assert min(left) >= 0
    assert len(groups) == 2 or max(left) < size, f"{domains} have room for one more of {size}"


def test_a_leader_that_its_workers_wait_for_is_placed_alone() -> None:
    """Its controller creates the workers of an exclusive group once the leader has a node."""
    s = Scheduler([[4], [4]])
    exclusive = {LABEL + "exclusive-topology": CLIQUE}
    s.workload(3, **exclusive)
    s.pod(0, 0, exclusive)
    assert set(s.bound()) == {"llm-0-0"}


def test_a_leader_of_an_ordinary_group_waits_for_its_workers() -> None:
    s = Scheduler([[4], [4]])
    s.workload(3)
    s.pod(0, 0, {})
    assert not s.bound()
    s.pod(0, 1, {})
    s.pod(0, 2, {})
    said = [*s.engine.decide(20.0), *s.engine.decide(40.0)]
    assert {one.key for one in said if isinstance(one, Bind)} == {"ml/llm-0-0", "ml/llm-0-1", "ml/llm-0-2"}
