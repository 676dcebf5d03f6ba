"""Pods are read again when a Service, their controller, or Kueue's Workload of them changes."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from tests.fakes.servers.told_watches import ToldWatches, nobody

from cotenant.drivers.kube.cache.cache import Cache
from cotenant.drivers.kube.cache.decoding import ListWatchDecoder, WatchEvent
from cotenant.drivers.kube.kinds.kueue_workload import KUEUE_BETA1, KUEUE_BETA2
from cotenant.drivers.kube.kinds.pod.by_scheduler import PodsOfScheduler
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodObject
from cotenant.drivers.kube.kinds.spread_selectors import (
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
)
from cotenant.engine.cluster import Cluster
from cotenant.engine.state.reports import NodeReports
from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.cluster.observed import ObservedPod
from cotenant.policy.placement.profiles import profile
from cotenant.services.scheduling.claims import ClaimBinder
from cotenant.services.scheduling.watches import EngineWatches


class Seeing(Cluster):
    """Remembers each pod as it was last seen."""

    def pod_seen(self, seen: ObservedPod, now_s: float) -> None:
        self.last = {**getattr(self, "last", {}), seen.uid: seen}
        super().pod_seen(seen, now_s)


class World:
    def __init__(self, spreads: bool = True) -> None:
        self.watches = ToldWatches()
        self.engine = Seeing(profile("first-fit"), np.random.default_rng(0))
        reader = PodReader(by_scheduler={"cotenant": PodsOfScheduler(spread_replicas=spreads)})
        claims = ClaimBinder(nobody(), reader.volumes)
        EngineWatches(self.watches, self.engine, reader, claims, NodeReports(), lambda: 0.0)

    def pod(self, owner: tuple[str, str] | None = None, gates: tuple[str, ...] = (), **labels: str) -> None:
        meta: dict[str, Any] = {"name": "p", "namespace": "d", "uid": "u", "labels": labels}
        if owner is not None:
            api, kind = owner
            reference = {"apiVersion": api, "kind": kind, "name": "web", "uid": "o", "controller": True}
            meta["ownerReferences"] = [reference]
        spec = {"schedulerName": "cotenant", "containers": [], "schedulingGates": [{"name": name} for name in gates]}
        self.watches.seen(PODS, {"metadata": meta, "spec": spec})

    @property
    def selector(self) -> LabelSelector | None:
        return self.engine.last["u"].pod.default_selector


def named(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}"}, "spec": spec}


WEB = LabelSelector.of({"app": "web"})


def test_a_service_that_comes_and_goes() -> None:
    world = World()
    world.pod(app="web")
    assert world.selector is None
    world.watches.seen(SERVICES, named("s", selector={"app": "web"}))
    assert world.selector == WEB
    world.watches.seen(SERVICES, named("s", selector={"app": "other"}))
    assert world.selector is None
    world.watches.seen(SERVICES, named("s", selector={"app": "web"}))
    world.watches.gone(SERVICES, "d/s")
    assert world.selector is None


@pytest.mark.parametrize("kind", [REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS], ids=lambda kind: kind.name)
def test_a_controller_that_comes_and_goes(kind: Any) -> None:
    world = World()
    world.pod((kind.api_version, kind.name), app="web")
    selector: Any = {"app": "web"} if kind is REPLICATION_CONTROLLERS else {"matchLabels": {"app": "web"}}
    world.watches.seen(kind, named("web", selector=selector))
    assert world.selector == WEB
    world.watches.gone(kind, "d/web")
    assert world.selector is None


def test_a_selector_that_cannot_be_read_changes_nothing() -> None:
    world = World()
    world.pod(("apps/v1", "ReplicaSet"), app="web")
    world.watches.seen(REPLICA_SETS, named("web", selector={"matchLabels": {"app": "web"}}))
    wrong = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    world.watches.seen(REPLICA_SETS, named("web", selector=wrong))
    assert world.selector == WEB


def test_nothing_is_watched_where_nobody_spreads() -> None:
    assert "Service" not in World(spreads=False).watches.selectors
    assert "Service" in World().watches.selectors


@pytest.mark.parametrize("kind", [KUEUE_BETA1, KUEUE_BETA2], ids=lambda kind: kind.version)
def test_what_kueue_says_reaches_the_pod(kind: Any) -> None:
    world = World()
    world.pod(gates=("kueue.x-k8s.io/admission",), **{"kueue.x-k8s.io/queue-name": "q"})
    held = world.engine.last["u"].in_queue
    assert held is not None
    assert held.workload is None
    written = named("w", queueName="q")
    written["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]
    world.watches.seen(kind, written)
    held = world.engine.last["u"].in_queue
    assert held is not None
    assert held.workload is not None
    assert held.workload.key == "d/w"
    world.watches.gone(kind, "d/w")
    held = world.engine.last["u"].in_queue
    assert held is not None
    assert held.workload is None


def test_an_update_of_what_is_not_read_is_not_handed_on() -> None:
    class Counting(Cluster):
        heard = 0

        def pod_seen(self, seen: ObservedPod, now_s: float) -> None:
            self.heard += 1
            super().pod_seen(seen, now_s)

    engine, reader = Counting(profile("first-fit"), np.random.default_rng(0)), PodReader()
    claims = ClaimBinder(nobody(), reader.volumes)
    watching = EngineWatches(ToldWatches(), engine, reader, claims, NodeReports(), lambda: 0.0)
    decoder, cache = ListWatchDecoder(PODS), Cache[PodObject]("Pod")

    def event(version: int, annotations: dict[str, str], ready: str, **status: str) -> None:
        meta = {"name": "p", "namespace": "d", "uid": "u", "resourceVersion": str(version), "annotations": annotations}
        spec = {"schedulerName": "cotenant", "nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        told = {"conditions": [{"type": "Ready", "status": ready}], **status}
        pod = {"metadata": meta, "spec": spec, "status": told}
        line = decoder.line(msgspec.json.encode({"type": "MODIFIED" if version > 2 else "ADDED", "object": pod}))
        assert isinstance(line, WatchEvent)
        watching.pods_delivered(cache.put(line.obj))

    event(2, {}, "False", phase="Pending")
    assert engine.heard == 1
    event(3, {}, "True", phase="Pending")
    event(4, {"of.others/note": "x"}, "True", phase="Pending")
    assert engine.heard == 1
    held = cache.get("d/p")
    assert held is not None
    assert held.metadata.resource_version == "4"  # which a bind names
    event(5, {}, "True", phase="Running")
    event(6, {"cotenant.io/tenant": "t"}, "True", phase="Running")
    assert engine.heard == 3
