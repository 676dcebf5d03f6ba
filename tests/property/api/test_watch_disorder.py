"""Watch events that come twice, late, out of order, between bookmarks and around relists: the client's cache, and the
engine behind it, reach the server's state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.servers.disordered_server import DisorderedServer
from tests.property.few import examples, first_cases

from cotenant.drivers.kube.cache.cache import Changed, Notification
from cotenant.drivers.kube.cache.listwatch import ListWatch
from cotenant.drivers.kube.cache.reflector import Deliver, Reflector
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.node import NODES, NodeObject, NodeStatus
from cotenant.drivers.kube.kinds.parts import ObjectMeta, Resources
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS, Container, PodMeta, PodObject, PodSpec, PodStatus
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.state.reports import NodeReports
from cotenant.policy.placement.profiles import profile
from cotenant.services.kube_process.watches import Watches
from cotenant.services.scheduling.claims import ClaimBinder
from cotenant.services.scheduling.watches import EngineWatches

CORES = 4
NAMES = st.integers(0, 4)
ANY = st.integers(0, 30)


def pod_object(name: str, uid: str, version: int, content: tuple[int, str, str]) -> PodObject:
    cores, node, phase = content
    return PodObject(
        PodMeta(name=name, namespace="d", uid=uid, resource_version=str(version), labels={"version": str(version % 3)}),
        PodSpec(
            node_name=node or None,
            scheduler_name="cotenant",
            containers=(Container("c", resources=Resources(requests={"cpu": cores})),),
        ),
        PodStatus(phase=phase),
    )


def node_object(name: str, uid: str, version: int, content: object) -> NodeObject:
    status = NodeStatus(allocatable={"cpu": str(CORES), "memory": "8Gi", "pods": "20"})
    return NodeObject(ObjectMeta(name=name, uid=uid, resource_version=str(version)), status=status)


class Follower:
    """Applies notifications, and checks that each continues the one before."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}

    def take(self, happened: list[Notification[Any]]) -> None:
        for changed in happened:
            if isinstance(changed, Changed):
                assert self.objects.get(changed.key) is changed.old, (
                    f"{changed.key}: a change from what was never reported"
                )
                if changed.old is not None and changed.new is not None:
                    assert changed.old.metadata.uid == changed.new.metadata.uid
                    assert int(changed.old.metadata.resource_version) < int(changed.new.metadata.resource_version)
                if changed.new is None:
                    del self.objects[changed.key]
                else:
                    self.objects[changed.key] = changed.new


events = st.one_of(
    st.tuples(st.just("put"), NAMES, st.integers(1, 3)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("deliver"), ANY),
    st.tuples(st.just("deliver"), ANY),
    st.tuples(st.just("repeat"), ANY),
    st.tuples(st.just("bookmark")),
    st.tuples(st.just("expire"), st.integers(1, 3), st.lists(ANY, max_size=3).map(tuple)),
)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(st.booleans(), st.integers(0, 2), st.lists(events, max_size=60))
def test_the_cache_reaches_the_servers_state(streaming: bool, portion: int, steps: list[tuple[Any, ...]]) -> None:
    """Whether lists are reported whole or in portions."""
    server = DisorderedServer(pod_object)
    client = ListWatch[PodObject](
        "Pod", lambda: 0.5, page=2, streaming=streaming, first_portion=portion, later_portion=portion
    )
    follower = Follower()
    follower.take(server.list(client))
    for step in steps:
        match step:
            case ("put", name, cores):
                server.put(f"p{name}", (cores, "", "Pending"))
            case ("delete", name):
                server.delete(f"p{name}")
            case ("deliver", at):
                follower.take(server.deliver(client, at))
            case ("repeat", at):
                follower.take(server.repeat(client, at))
            case ("bookmark",):
                follower.take(server.bookmark(client))
            case ("expire", pages, extra):
                follower.take(server.expire(client, pages, extra))
                assert {obj.metadata.name: obj for obj in client.cache} == server.objects
        assert {obj.metadata.name: obj for obj in client.cache} == {
            obj.metadata.name: obj for obj in follower.objects.values()
        }
    follower.take(server.drain(client))
    assert {obj.metadata.name: obj for obj in client.cache} == server.objects
    for at in range(60):
        follower.take(server.repeat(client, at))
    assert {obj.metadata.name: obj for obj in client.cache} == server.objects


class _Collected(Watches):
    """Keeps what is done with the deliveries of each kind."""

    def __init__(self) -> None:
        super().__init__(cast(Client, None))
        self.collected: dict[str, Deliver[Any]] = {}

    def deliver(
        self,
        kind: Kind[Any],
        deliver: Deliver[Any],
        *,
        namespace: str = "",
        field_selector: str = "",
        optional: bool = False,
        in_portions: bool = False,
        first_by: Callable[[Any], float] | None = None,
        until_open: bool = False,
        absent_s: float = 0.0,
    ) -> Reflector[Any]:
        self.collected[kind.name] = deliver
        return cast(Reflector[Any], None)


class Scheduling:
    """A scheduler's watches and engine over servers of pods and nodes."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.engine = Cluster(profile("first-fit"), np.random.default_rng(0), EngineSettings(max_pods=8))
        watches, reader = _Collected(), PodReader()
        claims = ClaimBinder(cast(Client, None), reader.volumes)
        EngineWatches(watches, self.engine, reader, claims, NodeReports(), lambda: self.now_s)
        self._deliver = watches.collected
        self.pods, self.nodes = DisorderedServer(pod_object), DisorderedServer(node_object)
        self.pod_client = ListWatch[PodObject]("Pod", lambda: 0.5, page=2)
        self.node_client = ListWatch[NodeObject]("Node", lambda: 0.5, page=2, streaming=True)
        self.bound: set[str] = set()  # uids whose bind was accepted and acknowledged
        for name in ("a", "b"):
            self.nodes.put(name, None)
        self.take(NODES.name, self.nodes.list(self.node_client))
        self.take(PODS.name, self.pods.list(self.pod_client))

    def take(self, kind: str, happened: list[Notification[Any]]) -> None:
        self._deliver[kind](happened)

    def decide(self) -> None:
        for instruction in self.engine.decide(self.now_s):
            if not isinstance(instruction, Bind) or not self.engine.sending(instruction.uid, self.now_s):
                continue
            assert instruction.uid not in self.bound, f"{instruction.uid} is bound a second time"
            name = instruction.uid.rsplit("-", 1)[0]
            present = self.pods.objects.get(name)
            content = self.pods.contents.get(name)
            if present is None or content is None or present.metadata.uid != instruction.uid or content[1]:
                self.engine.bind_failed(instruction.uid, "conflict", self.now_s, retry=False)
            else:
                self.pods.put(name, (content[0], instruction.node, content[2]))
                self.engine.bound(instruction.uid, self.now_s)
                self.bound.add(instruction.uid)

    def of(self, kind: str) -> tuple[DisorderedServer[Any], ListWatch[Any]]:
        return (self.nodes, self.node_client) if kind == NODES.name else (self.pods, self.pod_client)


KINDS = st.sampled_from((PODS.name, PODS.name, NODES.name))
cluster_events = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(1, 3)),
    st.tuples(st.just("touch"), NAMES),
    st.tuples(st.just("finish"), NAMES),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("decide")),
    st.tuples(st.just("decide")),
    st.tuples(st.just("node"), st.sampled_from("abc")),
    st.tuples(st.just("node gone"), st.sampled_from("abc")),
    st.tuples(st.just("deliver"), KINDS, ANY),
    st.tuples(st.just("deliver"), KINDS, ANY),
    st.tuples(st.just("deliver"), KINDS, ANY),
    st.tuples(st.just("repeat"), KINDS, ANY),
    st.tuples(st.just("bookmark"), KINDS),
    st.tuples(st.just("expire"), KINDS, st.integers(1, 3), st.lists(ANY, max_size=3).map(tuple)),
)


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(cluster_events, max_size=70))
def test_the_engine_reaches_the_servers_state_and_binds_each_pod_once(steps: list[tuple[Any, ...]]) -> None:
    world = Scheduling()
    for step in steps:
        world.now_s += 0.7
        match step:
            case ("create", name, cores) if f"p{name}" not in world.pods.objects:
                world.pods.put(f"p{name}", (cores, "", "Pending"))
            case ("touch", name) if f"p{name}" in world.pods.objects:
                world.pods.put(f"p{name}", world.pods.contents[f"p{name}"])
            case ("finish", name) if world.pods.contents.get(f"p{name}", (0, "", ""))[1]:
                world.pods.put(f"p{name}", (*world.pods.contents[f"p{name}"][:2], "Succeeded"))
            case ("delete", name):
                world.pods.delete(f"p{name}")
            case ("decide",):
                world.decide()
            case ("node", name):
                world.nodes.put(name, None)
            case ("node gone", name):
                world.nodes.delete(name)
            case ("deliver", kind, at):
                server, client = world.of(kind)
                world.take(kind, server.deliver(client, at))
            case ("repeat", kind, at):
                server, client = world.of(kind)
                world.take(kind, server.repeat(client, at))
            case ("bookmark", kind):
                server, client = world.of(kind)
                world.take(kind, server.bookmark(client))
            case ("expire", kind, pages, extra):
                server, client = world.of(kind)
                world.take(kind, server.expire(client, pages, extra))
        world.engine.validate()
        assert world.engine.over_capacity() == ()
    for kind in (PODS.name, NODES.name):
        server, client = world.of(kind)
        world.take(kind, server.drain(client))
    world.engine.validate()
    occupying = {
        world.pods.objects[name].metadata.uid: node
        for name, (_, node, phase) in world.pods.contents.items()
        if node and phase != "Succeeded"
    }
    held = set(world.engine.reserved())
    assert {uid: node for uid, node in world.engine.assigned().items() if uid not in held} == occupying
    world.now_s += 1_000.0
    world.decide()  # what is left fits nowhere, or is bound now


test_first_cases = first_cases(
    test_the_cache_reaches_the_servers_state,
    test_the_engine_reaches_the_servers_state_and_binds_each_pod_once,
    most=3,
)
