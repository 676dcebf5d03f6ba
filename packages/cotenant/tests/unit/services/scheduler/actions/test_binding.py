"""What each answer of the API server to a bind leads to: what the engine is told, what is asked again, and after
what wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.fakes.seal_keys import keys
from tests.fakes.servers.scripted_server import CUT, SILENT, Reply, ScriptedServer, refusal
from tests.fakes.waiting import crowding, patience

from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.drivers.seals.seals import Sealer
from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.demands import Holdings
from cotenant.model.cluster.labels import QOS_CLASS
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.seal import SEAL, SETTLED
from cotenant.model.cpus.spec import RESOURCE_STATUS, ResourceStatus
from cotenant.model.decisions.record import DecisionRecord
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.services.scheduler.actions.binding import Binder
from cotenant.services.scheduler.metrics import SchedulerMetrics

POD = "/api/v1/namespaces/shop/pods/web"
BIND, LOOK = ("POST", f"{POD}/binding"), ("GET", POD)
WEB = Bind(
    "uid-web", "shop/web", "a", DecisionRecord(pod="shop/web", at_s=0.0, nodes=2, node="a", policy="p"), number=7
)

BOUND = ("bound", "uid-web")
GONE = ("failed", "uid-web", "pod not found", False)
REPLACED = ("failed", "uid-web", "another pod of that name", False)


def failed(why: str) -> tuple[object, ...]:
    """The engine is told that it may try again."""
    return ("failed", "uid-web", why, True)


def pod(node: str = "", uid: str = "uid-web", version: str = "7") -> Reply:
    """What a look at the pod finds."""
    meta = {"name": "web", "namespace": "shop", "uid": uid, "resourceVersion": version}
    spec = {"schedulerName": "cotenant", "containers": [{"name": "c"}], **({"nodeName": node} if node else {})}
    return Reply(200, {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})


CREATED = Reply(201, {"kind": "Status", "status": "Success"})
CONFLICT = refusal(409, "already assigned", "Conflict")
MISSING = refusal(404, "not found", "NotFound")
FORBIDDEN = refusal(403, "no right", "Forbidden")
ENDING = refusal(422, "wrong", "Invalid")
LATER = refusal(429, "too many", "TooManyRequests", "7")
AWAY = refusal(503, "shutting down", "ServiceUnavailable", "9")


class Engine:
    """Records what it is told, each time of this very bind."""

    def __init__(self, is_withdrawn: bool = False) -> None:
        self.told: list[tuple[object, ...]] = []
        self._is_withdrawn = is_withdrawn

    def sending(self, uid: str, now_s: float, number: int) -> bool:
        assert number == WEB.number
        return not self._is_withdrawn

    def bound(self, uid: str, now_s: float, number: int) -> None:
        assert number == WEB.number
        self.told.append(("bound", uid))

    def bind_failed(self, uid: str, why: str, now_s: float, retry: bool = True, number: int = 0) -> None:
        assert number == WEB.number
        self.told.append(("failed", uid, why, retry))

    def bound_elsewhere(self, seen: ObservedPod, now_s: float, number: int) -> None:
        assert number == WEB.number
        self.told.append(("seen", seen.uid, seen.node))


class Statuses:
    """Records which Events would be written."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.conditions = SimpleNamespace(writing=None)

    def scheduled(self, bind: Bind) -> None:
        self.events.append("Scheduled")

    def failed(self, uid: str, key: str, why: str) -> None:
        self.events.append("FailedScheduling")


@dataclass
class Outcome:
    """What came of a bind."""

    told: list[tuple[object, ...]]
    asked: list[tuple[str, str]]
    bodies: list[Any]
    slept: list[float]
    events: list[str]
    left: int  # replies of the script that were not asked for
    page: str  # of metrics


def carried_out(
    posts: list[Reply],
    gets: list[Reply],
    *,
    bind: Bind = WEB,
    engine: Engine | None = None,
    leads: Callable[[int], bool] = lambda asked: True,
    url: str = "",
    timeout_s: float = 30.0,
    sealer: Sealer | None = None,
    version_of: Callable[[str, str], str] | None = None,
) -> Outcome:
    """Carry out one bind against a server that answers by the script; `leads` is given how many requests have come."""

    async def scenario() -> Outcome:
        slept: list[float] = []
        answered = asyncio.Event()
        outcomes, statuses, metrics = engine or Engine(), Statuses(), SchedulerMetrics("p")

        async def sleep(seconds: float) -> None:
            slept.append(seconds)

        async with ScriptedServer({"POST": posts, "GET": gets}) as server:
            access = Access(url or server.url, FixedCredential(Credential("")))
            async with Client(access, qps=1e6, burst=100, in_flight=4, timeout_s=timeout_s) as client:
                binder = Binder(
                    client,
                    outcomes,
                    PodReader(),
                    None,  # type: ignore[arg-type]  # the bind has no claims
                    statuses,  # type: ignore[arg-type]
                    metrics,
                    lambda: 0.0,
                    in_flight=1,
                    may_bind=lambda: leads(len(server.asked)),
                    changed=answered.set,
                    sleep=sleep,
                    sealer=sealer,
                    version_of=version_of,
                )
                binder.add(bind)
                running = asyncio.create_task(binder.run())
                try:
                    async with asyncio.timeout(patience(30.0)):
                        while binder.backlog and not answered.is_set():
                            await asyncio.sleep(0)
                        await answered.wait()
                finally:
                    running.cancel()
            return Outcome(
                outcomes.told, server.asked, server.bodies, slept, statuses.events, server.left, metrics.page().decode()
            )

    return asyncio.run(scenario())


@dataclass(frozen=True)
class Case:
    """Answers to binds and to looks at the pod, and what must come of them."""

    name: str
    posts: list[Reply]
    gets: list[Reply]
    told: tuple[object, ...]
    asked: str  # B = bind, L = look
    slept: list[float] = field(default_factory=list)
    event: str = ""
    timeout_s: float = 30.0


CASES = (
    Case("created", [CREATED], [], BOUND, "B", event="Scheduled"),
    # 409: never concluded without a look at the pod
    Case("conflict, bound to our node", [CONFLICT], [pod("a")], BOUND, "BL", event="Scheduled"),
    Case("conflict, bound elsewhere", [CONFLICT], [pod("b")], ("seen", "uid-web", "b"), "BL"),
    Case("conflict, not bound", [CONFLICT], [pod()], failed("Conflict"), "BL", event="FailedScheduling"),
    Case("conflict, gone", [CONFLICT], [MISSING], GONE, "BL"),
    Case("conflict, another pod, not bound", [CONFLICT], [pod(uid="other")], REPLACED, "BL"),
    Case("conflict, another pod on our node", [CONFLICT], [pod("a", "other")], REPLACED, "BL"),
    Case("conflict, another pod elsewhere", [CONFLICT], [pod("b", "other")], REPLACED, "BL"),
    Case("conflict, look throttled", [CONFLICT], [LATER, pod("a")], BOUND, "BLL", [7.0], "Scheduled"),
    Case("conflict, server away", [CONFLICT], [AWAY, pod("b")], ("seen", "uid-web", "b"), "BLL", [9.0]),
    # The first cut is on the connection of the bind; the client repeats such a GET itself, on a new one.
    Case("conflict, look cut twice", [CONFLICT], [CUT, CUT, pod("a")], BOUND, "BLLL", [0.2], "Scheduled"),
    Case("conflict, look forbidden", [CONFLICT], [FORBIDDEN], failed("Forbidden"), "BL", event="FailedScheduling"),
    # 404: that pod is gone, whatever has its name now
    Case("not found", [MISSING], [], GONE, "B"),
    Case("not found, another pod has the name", [MISSING], [pod("a", "other")], GONE, "B"),
    # 429: nothing happened; sent again when the server says
    Case("throttled", [LATER, CREATED], [], BOUND, "BB", [7.0], "Scheduled"),
    Case("throttled without a time", [refusal(429), CREATED], [], BOUND, "BB", [1.0], "Scheduled"),
    Case("throttled, time 0", [refusal(429, "", "", "0")] * 2 + [CREATED], [], BOUND, "BBB", [0.2, 0.4], "Scheduled"),
    Case("throttled, then conflict", [LATER, CONFLICT], [pod("b")], ("seen", "uid-web", "b"), "BBL", [7.0]),
    Case("throttled, then gone", [LATER, MISSING], [], GONE, "BB", [7.0]),
    # 5xx: it may have happened; looked at when the server says, never sent again unseen
    Case("away, bound", [AWAY], [pod("a")], BOUND, "BL", [9.0], "Scheduled"),
    Case("away, not bound", [AWAY], [pod()], failed("Unavailable"), "BL", [9.0], "FailedScheduling"),
    Case("away, bound elsewhere", [AWAY], [pod("b")], ("seen", "uid-web", "b"), "BL", [9.0]),
    Case("away, another pod on our node", [AWAY], [pod("a", "other")], REPLACED, "BL", [9.0]),
    Case("internal error, bound", [refusal(500)], [pod("a")], BOUND, "BL", [1.0], "Scheduled"),
    Case(
        "gateway time-out, not bound", [refusal(504)], [pod()], failed("Unavailable"), "BL", [1.0], "FailedScheduling"
    ),
    # no answer: it may have happened; looked at at once
    Case("cut, bound", [CUT], [pod("a")], BOUND, "BL", event="Scheduled"),
    Case("cut, not bound", [CUT], [pod()], failed("Unavailable"), "BL", event="FailedScheduling"),
    Case("cut, gone", [CUT], [MISSING], GONE, "BL"),
    Case("cut, another pod on our node", [CUT], [pod("a", "other")], REPLACED, "BL"),
    Case("time-out, bound", [SILENT], [pod("a")], BOUND, "BL", event="Scheduled", timeout_s=0.2),
    Case("time-out, bound elsewhere", [SILENT], [pod("b")], ("seen", "uid-web", "b"), "BL", timeout_s=0.2),
    # refused for good: the engine decides anew
    Case("forbidden", [FORBIDDEN], [], failed("Forbidden"), "B", event="FailedScheduling"),
    Case("invalid", [ENDING], [], failed("Invalid"), "B", event="FailedScheduling"),
)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_an_answer_leads_to(case: Case) -> None:
    # A look within the time-out of a quiet machine may come too late on a busy one, and is then asked for again.
    outcome = carried_out(case.posts, case.gets, timeout_s=case.timeout_s * crowding())
    assert outcome.told == [case.told]
    assert outcome.asked == [{"B": BIND, "L": LOOK}[name] for name in case.asked]
    assert outcome.slept == case.slept
    assert outcome.events == ([case.event] if case.event else [])


def test_a_bind_names_the_pod_by_its_uid_and_carries_the_record() -> None:
    outcome = carried_out([LATER, CREATED], [])
    first, second = outcome.bodies
    assert first == second
    assert first["metadata"]["uid"] == "uid-web"
    assert first["target"] == {"kind": "Node", "name": "a"}
    assert "cotenant.io/decision" in first["metadata"]["annotations"]


def test_a_bind_counts_with_the_attempts_and_the_time_that_it_took() -> None:
    page = carried_out([CREATED], [], bind=replace(WEB, waited_s=2.0, attempts=3)).page
    for sample in (
        "scheduler_pod_scheduling_attempts_count 1.0",
        "scheduler_pod_scheduling_attempts_sum 3.0",
        'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="3"} 2.0',
        "cotenant_scheduler_bind_duration_seconds_count 1.0",
        'scheduler_scheduling_attempt_duration_seconds_count{profile="p",result="scheduled"} 1.0',
    ):
        assert f"{sample}\n" in page
    lost = carried_out([CONFLICT], [pod()]).page
    assert "scheduler_pod_scheduling_attempts_count 0.0\n" in lost


def test_a_server_that_cannot_be_reached_has_bound_nothing() -> None:
    outcome = carried_out([], [], url="http://127.0.0.1:1")
    assert outcome.told == [failed("Unavailable")]
    assert outcome.asked == []
    assert outcome.events == ["FailedScheduling"]


def test_a_bind_that_was_withdrawn_is_not_sent() -> None:
    outcome = carried_out([CREATED], [], engine=Engine(is_withdrawn=True))
    assert (outcome.told, outcome.asked) == ([], [])


def test_a_replica_that_lost_leadership_while_it_waited_does_not_send_again() -> None:
    outcome = carried_out([LATER, CREATED], [], leads=lambda asked: asked == 0)
    assert outcome.told == [failed("Throttled")]
    assert outcome.asked == [BIND]
    assert outcome.left == 1


def test_a_pause_never_grows_beyond_five_seconds() -> None:
    outcome = carried_out([CONFLICT], [*[CUT] * 8, pod("a")])
    assert outcome.slept == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_what_a_pod_was_given_is_sealed_with_the_bind_and_what_it_brought_is_emptied() -> None:
    sealer, seals = keys()
    given = replace(WEB, holds=Holdings(cpus=ResourceStatus((0, 1))), written=(DEVICE_ALLOCATED, SEAL))
    (body,) = carried_out([CREATED], [], bind=given, sealer=sealer).bodies
    notes = body["metadata"]["annotations"]
    assert (notes[RESOURCE_STATUS], notes[DEVICE_ALLOCATED]) == ('{"cpuset":"0-1"}', "")
    # A pod without requests could have been given nothing: what is read is read by the seal.
    meta = {"name": "web", "namespace": "shop", "uid": "uid-web", "annotations": notes}
    made = {"metadata": meta, "spec": {"nodeName": "a", "containers": [{"name": "c"}]}, "status": {"phase": "Running"}}
    for reader, holds in ((PodReader(seals=seals), given.holds), (PodReader(seals=keys(2)[1]), Holdings())):
        assert reader.pod(msgspec.convert(made, PodObject)).holds == holds


def test_class_and_quota_by_which_a_pod_was_judged_are_stated_with_the_bind() -> None:
    sealer, _ = keys()
    judged = replace(WEB, settled=((QOS_CLASS, "LS"),), written=(SETTLED,))
    for asked, signer, said in (
        (judged, sealer, sealer.statement("uid-web", "a", {QOS_CLASS: "LS"})),
        (replace(judged, settled=()), sealer, ""),
        (judged, None, ""),
    ):
        (body,) = carried_out([CREATED], [], bind=asked, sealer=signer).bodies
        assert body["metadata"]["annotations"][SETTLED] == said
    (body,) = carried_out([CREATED], [], bind=WEB, sealer=sealer).bodies
    assert SETTLED not in body["metadata"]["annotations"]


def test_a_pod_that_was_given_nothing_keeps_nothing_that_it_brought() -> None:
    brought = replace(WEB, written=(RESOURCE_STATUS, SEAL))
    (body,) = carried_out([CREATED], [], bind=brought, sealer=keys()[0]).bodies
    notes = body["metadata"]["annotations"]
    assert (notes[RESOURCE_STATUS], notes[SEAL]) == ("", "")


def versions(bodies: list[Any]) -> list[str]:
    """Those that binds named."""
    return [body["metadata"].get("resourceVersion", "") for body in bodies if body and body.get("kind") == "Binding"]


def test_a_bind_names_no_version_where_one_scheduler_acts() -> None:
    assert versions(carried_out([CREATED], []).bodies) == [""]


def test_a_bind_of_a_shard_names_the_version_that_was_seen_and_after_a_conflict_the_one_that_was_read() -> None:
    found = carried_out([CONFLICT, CREATED], [pod(version="9")], version_of=lambda key, uid: "5")
    assert found.told == [BOUND]
    assert versions(found.bodies) == ["5", "9"]


def test_a_shard_that_no_longer_leads_does_not_send_the_bind_again() -> None:
    found = carried_out(
        [CONFLICT, CREATED], [pod(version="9")], version_of=lambda key, uid: "5", leads=lambda asked: asked < 2
    )
    assert found.told == [failed("not leading")]
    assert found.left == 1


def test_a_pod_that_changes_all_the_time_is_left_to_a_later_try() -> None:
    looks = [pod(version=str(version)) for version in range(3)]
    found = carried_out([CONFLICT] * 3, looks, version_of=lambda key, uid: "5")
    assert len(found.told) == 1
    assert found.told[0][0] == "failed"
    assert found.left == 0
