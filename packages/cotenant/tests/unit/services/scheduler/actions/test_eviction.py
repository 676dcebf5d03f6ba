"""Evictions of the scheduler: by request where the server has them, with an end to every wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from prometheus_client import CollectorRegistry, Counter, Histogram

from cotenant.drivers.kube.client.errors import AlreadyExists, NotFound
from cotenant.drivers.kube.kinds.eviction_requests import EVICTION_REQUESTS, EVICTIONS, EvictionObject
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Evict, Preempt, Victim
from cotenant.model.cluster.eviction_request import SCHEDULER, EvictionProgress, EvictionRequest
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile
from cotenant.services.scheduler.actions.eviction import BEGINS_WITHIN_S, RESPONDERS_HAVE_S, Preemptor
from cotenant.services.scheduler.actions.eviction_marks import EvictionMarks
from cotenant.services.scheduler.actions.eviction_requests import KEPT_S, EvictionRequests


class Server:
    """Answers as an API server, and is the watches too."""

    def __init__(self, serves: bool = True) -> None:
        self.is_served = serves
        self.stored: dict[str, Any] = {}
        self.calls: list[str] = []
        self.handlers: dict[str, Any] = {}

    def handle(self, kind: Any, handler: Any, **_: Any) -> Server:
        self.handlers[kind.plural] = handler
        return self

    async def create(self, kind: Any, namespace: str, obj: Any) -> Any:
        key = f"{namespace}/{obj['metadata']['name']}"
        if key in self.stored:
            raise AlreadyExists("it exists")
        self.calls.append(f"request {obj['spec']['target']['pod']['name']}")
        meta = {**obj["metadata"], "uid": f"q-{len(self.calls)}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.stored[key] = msgspec.convert({**obj, "metadata": meta}, kind.form)
        return self.stored[key]

    async def get(self, kind: Any, namespace: str, name: str) -> Any:
        return self.stored[f"{namespace}/{name}"]

    async def evict(self, namespace: str, name: str, uid: str, *, resource_version: str = "") -> None:
        self.calls.append(f"evict {name} {resource_version}".rstrip())

    async def delete(self, kind: Any, namespace: str, name: str, uid: str = "", resource_version: str = "") -> None:
        self.calls.append(f"delete {kind.plural} {name} {resource_version}".rstrip())
        if kind is EVICTION_REQUESTS and self.stored.pop(f"{namespace}/{name}", None) is None:
            raise NotFound("gone")

    async def patch_status(self, kind: Any, namespace: str, name: str, body: Any) -> Any:
        self.calls.append(f"status {name}")
        return msgspec.convert({"metadata": {"name": name, "resourceVersion": "7"}}, kind.form)


class Said:
    """The events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def eviction_said(self, uid: str, key: str, reason: str, message: str) -> None:
        self.events.append(f"{reason} {key}: {message}")

    def nominated(self, uid: str) -> None:
        pass

    async def answered(self, uid: str) -> None:
        pass

    def failed(self, uid: str, key: str, why: str) -> None:
        self.events.append(f"FailedScheduling {key}: {why}")

    def preempted(self, victim: Victim, by: Preempt) -> None:
        self.events.append(f"Preempted {victim.key}")

    def evicted(self, evict: Evict) -> None:
        self.events.append(f"Evicted {evict.victim.key}")


START_S = 1_767_225_600.0  # the creation of every request


def pod(name: str, priority: int = 0, on: str = "", responders: tuple[str, ...] = ()) -> ObservedPod:
    value = Pod(name, requests=Amounts.of({"cpu": 1000, "memory": 1 << 20}), priority=priority)
    return ObservedPod(value, f"uid-{name}", "cotenant", 0.0, node=on, responders=responders)


class World:
    """One node, a victim on it and a preemptor; time passes only in sleeps."""

    def __init__(
        self, serves: bool = True, responders: tuple[str, ...] = ("example.com/copy",), is_shard: bool = False
    ) -> None:
        self.now_s = START_S
        self.server, self.said = Server(serves), Said()
        self.cluster = Cluster(profile("least-allocated"), np.random.default_rng(1))
        size = Amounts.of({"cpu": 1000, "memory": 8 << 30})
        self.cluster.node_seen(Node("a", size, Labels.of({HOSTNAME: "a"})))
        self.victim = pod("victim", on="a", responders=responders)
        self.cluster.pod_seen(self.victim, self.now_s)
        self.at: dict[float, Callable[[], None]] = {}
        client: Any = self.server
        watches: Any = self.server
        statuses: Any = self.said
        metrics: Any = Metrics()
        self.requests = EvictionRequests(client, watches, lambda: self.now_s)
        self.evictor = Preemptor(
            client,
            self.cluster,
            statuses,
            metrics,
            "cotenant",
            lambda: self.now_s,
            lambda: None,
            self.requests,
            may_act=lambda: True,
            marks=EvictionMarks(client, lambda: "t1", lambda: True) if is_shard else None,
            sleep=self.sleep,
        )

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for at_s in [at_s for at_s in self.at if START_S + at_s <= self.now_s]:
            self.at.pop(at_s)()
        await asyncio.sleep(0)

    def preempt(self) -> Preempt:
        self.cluster.pod_seen(pod("vip", 10), self.now_s)
        return next(given for given in self.cluster.decide(self.now_s) if isinstance(given, Preempt))

    async def until_done(self) -> None:
        while self.evictor._tasks:
            await asyncio.gather(*self.evictor._tasks)

    def progress(self, responder: str, message: str) -> None:
        obj = {
            "metadata": {"name": "e", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"target": {"pod": {"name": "victim", "uid": "uid-victim"}}},
            "status": {
                "targetResponders": [{"name": responder, "priority": 10_000, "state": "Active"}],
                "responders": [{"name": responder, "startTime": "2026-01-01T00:00:00Z", "message": message}],
            },
        }
        handler = self.server.handlers[EVICTIONS.plural]
        handler.seen(handler.read(msgspec.convert(obj, EvictionObject)))


class Metrics:
    """Counters that nobody reads."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.preemptions = Counter("preemptions", "-", registry=registry)
        self.victims = Histogram("victims", "-", registry=registry)
        self.loop_errors = Counter("loop_errors", "-", registry=registry)


def run(case: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(case())  # type: ignore[arg-type]


def test_without_requests_or_responders_a_victim_is_deleted_at_once() -> None:
    for serves, responders in ((False, ("example.com/copy",)), (True, ())):
        world = World(serves, responders)

        async def case(world: World = world) -> None:
            world.evictor.add(world.preempt())
            await world.until_done()

        run(case)
        assert world.server.calls == ["status vip", "status victim", "delete pods victim"]
        assert world.now_s == START_S


def test_a_responder_has_its_time_and_then_the_victim_is_deleted() -> None:
    world = World()
    world.at[10.0] = lambda: world.progress("example.com/copy", "copied 10 of 20 GB")
    explained: list[str] = []
    entry = world.cluster.find
    world.at[21.0] = lambda: explained.append(world.cluster.why.eviction_progress["uid-victim"])

    async def case() -> None:
        world.evictor.add(world.preempt())
        await world.until_done()

    run(case)
    assert entry("default/victim") is not None
    assert world.server.calls == ["status vip", "request victim", "status victim", "delete pods victim"]
    assert world.now_s == START_S + RESPONDERS_HAVE_S
    assert explained == [
        "responder example.com/copy has it for 20 s: copied 10 of 20 GB; loses its turn unless it reports within "
        "1180 s; it is preempted in 40 s"
    ]
    assert [event.split(" ")[0] for event in world.said.events] == [
        "EvictionRequested",
        "EvictionProgress",
        "EvictionForced",
        "Preempted",
    ]
    assert not world.cluster.why.eviction_progress


def test_a_victim_that_its_responder_ends_is_not_deleted() -> None:
    world = World()
    world.at[7.0] = lambda: world.cluster.pod_seen(replace(world.victim, ends_s=START_S + 37.0), world.now_s)

    async def case() -> None:
        world.evictor.add(world.preempt())
        await world.until_done()

    run(case)
    assert world.server.calls == ["status vip", "request victim"]


def test_a_preemptor_that_is_gone_withdraws_the_request() -> None:
    world = World()
    world.at[7.0] = lambda: world.cluster.pod_gone("uid-vip", world.now_s)

    async def case() -> None:
        world.evictor.add(world.preempt())
        await world.until_done()

    run(case)
    assert world.server.calls[-1] == "delete evictionrequests cotenant-scheduler-uid-victim"
    assert not any("pods" in call for call in world.server.calls)
    assert world.said.events[-1].startswith("EvictionWithdrawn")


def test_after_a_withdrawal_the_engine_counts_on_the_victim_as_staying() -> None:
    world = World()
    world.at[7.0] = lambda: world.cluster.pod_gone("uid-vip", world.now_s)

    async def case() -> None:
        world.evictor.add(world.preempt())
        await world.until_done()

    run(case)
    assert [victim.uid for victim in world.preempt().victims] == ["uid-victim"]


def test_a_victim_that_another_preemptor_waits_for_is_not_called_back() -> None:
    world = World()

    def takes_over() -> None:
        world.cluster.pod_gone("uid-vip", world.now_s)
        assert world.preempt().victims == ()

    world.at[7.0] = takes_over

    async def case() -> None:
        world.evictor.add(world.preempt())
        await world.until_done()

    run(case)
    assert world.server.calls[-1] == "delete pods victim"
    assert world.now_s == START_S + RESPONDERS_HAVE_S


def test_a_scheduler_that_restarts_does_not_begin_the_time_anew() -> None:
    world = World()

    async def case() -> None:
        await world.requests.ask("default/victim", "uid-victim")
        again = EvictionRequests(world.server, world.server, lambda: world.now_s)  # type: ignore[arg-type]
        world.requests = world.evictor._requests = again
        world.now_s += 50.0
        world.evictor.add(world.preempt())
        await world.until_done()

    run(case)
    assert world.now_s == START_S + RESPONDERS_HAVE_S


def test_where_no_eviction_begins_the_evictions_api_is_asked() -> None:
    """The kind is served, and no controller acts on it."""
    world = World()

    async def case() -> None:
        world.evictor.evict(Evict(Victim("uid-victim", "default/victim", "a"), "QuotaOverused", "too much"))
        await world.until_done()

    run(case)
    assert world.now_s == START_S + BEGINS_WITHIN_S
    assert world.requests.of("uid-victim") is None
    assert world.server.calls[-1] == "evict victim"


def test_a_request_that_nobody_repeats_is_withdrawn_and_one_that_is_repeated_stays() -> None:
    world = World()
    evict = Evict(Victim("uid-victim", "default/victim", "a"), "QuotaOverused", "too much")
    withdrawn: list[EvictionRequest] = []

    async def sweep() -> None:
        withdrawn.extend(await world.requests.sweep(world.evictor._is_there))

    async def case() -> None:
        world.progress("example.com/copy", "it has begun")
        for _ in range(3):
            world.evictor.evict(evict)
            await world.until_done()
            world.now_s += KEPT_S - 1
            await sweep()
        assert not withdrawn
        world.now_s += 1
        await sweep()

    run(case)
    assert [request.pod_uid for request in withdrawn] == ["uid-victim"]
    assert world.server.calls == ["request victim", "delete evictionrequests cotenant-scheduler-uid-victim"]
    assert world.said.events == ["Evicted default/victim", "EvictionRequested default/victim: too much"]


def test_a_request_whose_pod_is_gone_is_removed_in_silence() -> None:
    world = World()

    async def case() -> None:
        await world.requests.ask("default/victim", "uid-victim")
        world.cluster.pod_gone("uid-victim", world.now_s)
        assert await world.requests.sweep(world.evictor._is_there) == []

    run(case)
    assert not world.server.stored


def test_without_requests_an_eviction_goes_to_the_eviction_api() -> None:
    world = World(serves=False)

    async def case() -> None:
        world.evictor.evict(Evict(Victim("uid-victim", "default/victim", "a"), "QuotaOverused", "too much"))
        await world.until_done()

    run(case)
    assert world.server.calls == ["evict victim"]


class _Counted(str):
    """A UID that counts how often one like it is compared or looked up."""

    asked = 0

    def __hash__(self) -> int:
        _Counted.asked += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        _Counted.asked += 1
        return super().__eq__(other)


def test_a_shard_evicts_the_version_that_its_mark_made() -> None:
    world = World(serves=False, responders=(), is_shard=True)

    async def case() -> None:
        world.evictor.evict(Evict(Victim("uid-victim", "default/victim", "a"), "QuotaOverused", "too much"))
        await world.until_done()
        world.evictor.add(world.preempt())
        await world.until_done()

    run(case)
    assert world.server.calls == [
        *("status victim", "evict victim 7"),
        *("status vip", "status victim", "delete pods victim 7"),
    ]


def test_looking_for_a_pods_eviction_costs_the_same_with_many() -> None:
    world = World()
    requests, evictions = world.server.handlers[EVICTION_REQUESTS.plural], world.server.handlers[EVICTIONS.plural]
    costs = []
    for size in (10, 1_000):
        for i in range(size):
            uid = _Counted(f"uid-{i}")
            requests.seen(EvictionRequest("default", f"r-{i}", f"u-{i}", SCHEDULER, uid))
            evictions.seen(EvictionProgress(f"default/e-{i}", uid))
        _Counted.asked = 0
        last = f"uid-{size - 1}"
        assert world.requests.of(last) is not None
        assert world.requests.has_begun(last)
        assert world.requests.responder(last) == ("", "")
        assert world.requests.in_words(last)
        costs.append(_Counted.asked)
    assert costs[1] == costs[0]


def test_what_is_stored_is_forgotten_by_pod_too() -> None:
    world = World()
    requests, evictions = world.server.handlers[EVICTION_REQUESTS.plural], world.server.handlers[EVICTIONS.plural]
    requests.seen(EvictionRequest("default", "r", "u", SCHEDULER, "uid-1"))
    requests.seen(EvictionRequest("default", "r", "u-2", SCHEDULER, "uid-2"))  # the name, for another pod
    assert world.requests.of("uid-1") is None
    assert world.requests.of("uid-2") is not None
    evictions.seen(EvictionProgress("default/e", "uid-2"))
    evictions.seen(EvictionProgress("default/f", "uid-2"))
    evictions.gone("default/e")
    assert world.requests.has_begun("uid-2")
    evictions.gone("default/f")
    requests.gone("default/r")
    assert not world.requests.has_begun("uid-2")
    assert world.requests.of("uid-2") is None


def test_victims_that_an_extender_adds_are_waited_for_too() -> None:
    world = World(responders=())
    small = pod("beside", 5, on="a")
    requests = Amounts.of({"cpu": 0, "memory": 1 << 20})
    world.cluster.pod_seen(replace(small, pod=replace(small.pod, requests=requests)), world.now_s)

    async def agreed(preempt: Preempt) -> Preempt:
        beside = Victim("uid-beside", "default/beside", "a")
        return replace(preempt, victims=(*preempt.victims, beside))

    world.evictor._agreed = agreed

    async def case() -> None:
        preempt = world.preempt()
        assert [victim.uid for victim in preempt.victims] == ["uid-victim"]
        world.evictor.add(preempt)
        await world.until_done()

    run(case)
    assert sorted(call for call in world.server.calls if call.startswith("delete")) == [
        "delete pods beside",
        "delete pods victim",
    ]
    assert world.cluster.is_awaited("uid-beside")


def test_nothing_is_evicted_for_a_nomination_that_ended_while_extenders_were_asked() -> None:
    world = World(responders=())

    async def agreed(preempt: Preempt) -> Preempt:
        world.cluster.pod_gone(preempt.uid, world.now_s)
        return preempt

    world.evictor._agreed = agreed

    async def case() -> None:
        world.evictor.add(world.preempt())
        await world.until_done()

    run(case)
    assert world.server.calls == []
    world.cluster.pod_seen(pod("next", 10), world.now_s)
    (again,) = [given for given in world.cluster.decide(world.now_s) if isinstance(given, Preempt)]
    assert [victim.uid for victim in again.victims] == ["uid-victim"]  # it does not count as going
