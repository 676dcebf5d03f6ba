"""The scheduler process against a small API server that does as the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import aiohttp
import pytest
from tests.fakes.servers.fake_api import FakeApi, Faults

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.leaderelection.lease import LeaderElector
from cotenant.engine.framework.instructions import Instruction
from cotenant.policy.placement.profiles import profile
from cotenant.services.kube_process.leadership import Alone, Leadership
from cotenant.services.scheduler.scheduler_process import ROUND_S, SchedulerProcess
from cotenant.services.scheduling.options import Options

DECISION = "cotenant.io/decision"


@asynccontextmanager
async def scheduling(
    api: FakeApi, leadership: Callable[[Client], Leadership] | None = None, identity: str = "one"
) -> AsyncIterator[SchedulerProcess]:
    """A scheduler that runs, and ends well."""
    access = Access(api.url, FixedCredential(Credential("")))
    process = SchedulerProcess(
        access,
        profile("least-allocated"),
        Options(listen=Address("127.0.0.1", 0), binds_in_flight=4),
        identity,
        leadership or (lambda client: Alone()),
    )
    stop = asyncio.Event()
    running = asyncio.create_task(process.run(stop))
    try:
        yield process
    finally:
        stop.set()
        await running


def test_pods_are_bound_with_their_record_and_events() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            api.node("b")
            for i in range(6):
                api.pod(f"p{i}")
            async with scheduling(api):
                await api.until(lambda: len(api.bound()) == 6 and len(api.events("Scheduled")) == 6)
                api.pod("late")
                await api.until(lambda: "late" in api.bound())
            assert sorted(map(len, api.binds.values())) == [1] * 7
            assert sorted(api.bound().values()).count("a") in (3, 4)
            record = json.loads(api.objects["pods"]["default/p0"]["metadata"]["annotations"][DECISION])
            assert (record["policy"], record["nodes"]) == ("least-allocated", 2)

    asyncio.run(scenario())


@pytest.mark.slow
def test_why_a_pod_waits_is_said_in_its_condition_and_an_event() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a", "1")
            api.pod("big", "4")
            async with scheduling(api):
                await api.until(
                    lambda: bool(api.condition("big", "PodScheduled")) and bool(api.events("FailedScheduling"))
                )
                told = api.condition("big", "PodScheduled")
                assert (told["status"], told["reason"]) == ("False", "Unschedulable")
                assert told["message"] == "0/1 nodes are available: 1 Insufficient cpu. 1 node fits but for 3 cpu."
                api.node("b", "8")
                await api.until(lambda: api.bound() == {"big": "b"})

    asyncio.run(scenario())


def test_pods_that_arrive_one_after_the_other_share_rounds() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            async with scheduling(api) as process:
                begun_s: list[float] = []
                decide = process.cluster.decide

                def noting(now_s: float) -> tuple[Instruction, ...]:
                    begun_s.append(now_s)
                    return decide(now_s)

                process.cluster.decide = noting  # type: ignore[method-assign]
                for i in range(5):
                    api.pod(f"p{i}", "1m")
                    await api.until(lambda last=f"p{i}": last in api.bound())  # type: ignore[misc]
            assert all(later - one >= 0.999 * ROUND_S for one, later in pairwise(begun_s))

    asyncio.run(scenario())


def test_a_lost_answer_is_asked_after_and_nothing_is_bound_twice() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            lost: list[str] = []

            def lose(method: str, path: str) -> bool:
                if path.endswith("/binding") and path not in lost:
                    lost.append(path)
                    return True
                return False

            api.faults = Faults(lose_answers=lose)
            api.node("a")
            for i in range(3):
                api.pod(f"p{i}")
            async with scheduling(api) as process:
                await api.until(lambda: len(api.bound()) == 3)
                await api.until(lambda: all(api.events("Scheduled") for _ in range(1)))
                process.cluster.validate()
            assert len(lost) == 3
            assert all(len(nodes) == 1 for nodes in api.binds.values())

    asyncio.run(scenario())


def test_a_conflict_is_no_second_bind() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            api.node("b")

            def race(method: str, path: str) -> int:
                if path.endswith("/pods/x/binding") and not api.bound():
                    api.pod("x", on="b")  # somebody else was faster
                return 0

            api.faults = Faults(refuse=race)
            api.pod("x")
            async with scheduling(api) as process:
                await api.until(
                    lambda: ("GET", "/api/v1/namespaces/default/pods/x") in api.requests or api.bound() == {"x": "b"}
                )
                api.pod("y", "4")
                await api.until(lambda: "y" in api.bound())
                assert api.bound() == {"x": "b", "y": "a"}
                process.cluster.validate()
            assert "uid-x" not in api.binds

    asyncio.run(scenario())


@pytest.mark.slow
def test_the_server_goes_away_and_comes_back() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            api.pod("x")
            async with scheduling(api) as process:
                await api.until(lambda: "x" in api.bound())
                await api.go()
                api.pod("y")
                api.drop("pods", "default/x")
                await api.come()
                await api.until(lambda: "y" in api.bound(), 20.0)
                process.cluster.validate()
                assert process.cluster.assigned().keys() == {"uid-y"}

    asyncio.run(scenario())


@pytest.mark.slow
def test_watches_that_are_cut_lose_nothing() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            async with scheduling(api):
                for i in range(4):
                    api.pod(f"p{i}")
                    api.cut()
                    await api.until(lambda i=i: f"p{i}" in api.bound())  # type: ignore[misc]
            assert all(len(nodes) == 1 for nodes in api.binds.values())

    asyncio.run(scenario())


def test_a_restart_finds_everything_again() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a", "2")
            api.pod("x")
            async with scheduling(api):
                await api.until(lambda: "x" in api.bound())
            api.pod("y")
            api.pod("z")
            async with scheduling(api, identity="two"):
                await api.until(
                    lambda: (
                        len(api.bound()) == 2
                        and any(api.condition(n, "PodScheduled").get("status") == "False" for n in "yz")
                    )
                )
            assert len(api.binds) == 2

    asyncio.run(scenario())


def test_two_replicas_share_a_lease_and_hand_it_over() -> None:
    def elect(identity: str) -> Callable[[Client], Leadership]:
        return lambda client: LeaderElector(client, "default", "cotenant-scheduler", identity)

    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            async with scheduling(api, elect("one"), "one") as one:
                api.pod("x")
                await api.until(lambda: "x" in api.bound())
                async with scheduling(api, elect("two"), "two") as two:
                    api.pod("y")
                    await api.until(lambda: "y" in api.bound())
                    assert (one._state().leading, two._state().leading) == (True, False)
            assert all(len(nodes) == 1 for nodes in api.binds.values())
            lease = api.objects["leases"]["default/cotenant-scheduler"]
            assert not lease["spec"].get("holderIdentity")  # given up: the next may begin at once
            async with scheduling(api, elect("three"), "three"):
                api.pod("z")
                await api.until(lambda: "z" in api.bound())

    asyncio.run(scenario())


def test_metrics_health_reports_and_stories() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            api.pod("x")
            async with scheduling(api) as process, aiohttp.ClientSession() as http:
                await api.until(lambda: "x" in api.bound())
                base = f"http://127.0.0.1:{process.server.address.port}"

                async def get(path: str) -> tuple[int, str]:
                    async with http.get(base + path) as answer:
                        return answer.status, await answer.text()

                assert (await get("/healthz"))[0] == 200
                assert (await get("/readyz"))[0] == 200
                assert (await get("/nothing"))[0] == 404
                _, page = await get("/metrics")
                assert 'scheduler_schedule_attempts_total{profile="least-allocated",result="scheduled"} 1.0' in page
                assert 'scheduler_pending_pods{queue="active"} 0.0' in page
                assert 'scheduler_queue_incoming_pods_total{event="PodAdd",queue="active"} 1.0' in page
                status, story = await get("/debug/pods/default/x")
                assert status == 200
                assert json.loads(story)["node"] == "a"
                assert json.loads((await get("/debug/state"))[1])["seated"] == 1
                report = {
                    "node_name": "a",
                    "cpu_allocatable": 4,
                    "cpu_used": 1,
                    "memory_allocatable": 8,
                    "memory_used": 2,
                }
                async with http.post(base + "/metrics/report", json={**report, "timestamp": 1.0}) as answer:
                    assert answer.status == 422
                import time

                async with http.post(base + "/metrics/report", json={**report, "timestamp": time.time()}) as answer:
                    assert answer.status == 204
                assert process.cluster.reported("a")[0] == 0.25

    asyncio.run(scenario())


def test_a_node_that_cannot_be_read_is_not_used() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("good")
            api.put("nodes", {"metadata": {"name": "bad"}, "status": {"allocatable": {"cpu": "many"}}})
            api.put("nodes", {"metadata": {"name": "worse"}, "status": "what"})
            for i in range(3):
                api.pod(f"p{i}")
            async with scheduling(api) as process:
                await api.until(lambda: len(api.bound()) == 3)
                assert set(api.bound().values()) == {"good"}
                assert process.kube.watches.malformed == {"Node": 2}

    asyncio.run(scenario())


def test_claims_are_settled_before_the_bind() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            api.put(
                "storageclasses",
                {
                    "metadata": {"name": "local"},
                    "provisioner": "example.com/x",
                    "volumeBindingMode": "WaitForFirstConsumer",
                },
            )
            claim = {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "local",
            }
            meta = {"name": "data", "namespace": "default"}
            api.put(
                "persistentvolumeclaims", {"metadata": dict(meta), "spec": dict(claim), "status": {"phase": "Pending"}}
            )
            api.pod("x", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
            key = "default/data"
            async with scheduling(api):
                selected = "volume.kubernetes.io/selected-node"
                claims = api.objects["persistentvolumeclaims"]
                await api.until(lambda: claims[key]["metadata"].get("annotations", {}).get(selected) == "a")
                assert api.bound() == {}
                api.put("persistentvolumes", {"metadata": {"name": "pv"}, "spec": {"accessModes": ["ReadWriteOnce"]}})
                done = {selected: "a", "pv.kubernetes.io/bind-completed": "yes"}
                spec = {**claim, "volumeName": "pv"}
                api.put(
                    "persistentvolumeclaims",
                    {"metadata": {**meta, "annotations": done}, "spec": spec, "status": {"phase": "Bound"}},
                )
                await api.until(lambda: api.bound() == {"x": "a"})

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["given up", "node deleted"])
def test_a_claim_that_gets_no_volume_on_its_node_is_tried_on_another(how: str) -> None:
    selected, key = "volume.kubernetes.io/selected-node", "default/data"

    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            lazy = {"provisioner": "example.com/x", "volumeBindingMode": "WaitForFirstConsumer"}
            api.put("storageclasses", {"metadata": {"name": "local"}, **lazy})
            spec = {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "local",
            }
            meta = {"name": "data", "namespace": "default"}
            claims = api.objects["persistentvolumeclaims"]
            api.put("persistentvolumeclaims", {"metadata": dict(meta), "spec": spec, "status": {"phase": "Pending"}})
            api.pod("x", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])

            def on() -> object:
                return (claims[key]["metadata"].get("annotations") or {}).get(selected)

            async with scheduling(api):
                await api.until(lambda: on() == "a")
                api.node("b")
                if how == "given up":
                    api.node("a", unschedulable=True)
                    api.put(
                        "persistentvolumeclaims", {"metadata": dict(meta), "spec": spec, "status": {"phase": "Pending"}}
                    )
                else:
                    api.drop("nodes", "a")
                await api.until(lambda: on() == "b")

    asyncio.run(scenario())


def test_preemption_nominates_marks_and_deletes_with_grace() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a", "1")
            api.pod("batch", on="a")
            api.pod("vip", priority=10)
            async with scheduling(api):
                await api.until(lambda: api.bound() == {"vip": "a"} and bool(api.events("Preempted")))
            path = "/api/v1/namespaces/default/pods"
            writes = [(m, p) for m, p in api.requests if m in ("PATCH", "DELETE") or p.endswith("/binding")]
            order = [("PATCH", f"{path}/vip/status"), ("PATCH", f"{path}/batch/status"), ("DELETE", f"{path}/batch")]
            assert [writes.index(entry) for entry in order] == sorted(writes.index(entry) for entry in order)
            history = [obj for _, plural, _, obj in api.history if plural == "pods"]
            assert any(p["status"].get("nominatedNodeName") == "a" for p in history if p["metadata"]["name"] == "vip")
            marks = [c for p in history if p["metadata"]["name"] == "batch" for c in p["status"].get("conditions", ())]
            assert any((c["type"], c["reason"]) == ("DisruptionTarget", "PreemptionByScheduler") for c in marks)

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_preemption_that_is_forbidden_is_given_up_and_tried_again() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            forbidden = [True]
            api.faults = Faults(refuse=lambda method, path: 403 if method == "DELETE" and forbidden[0] else 0)
            api.node("a", "1")
            api.pod("batch", on="a")
            api.pod("vip", priority=10)
            async with scheduling(api) as process:
                await api.until(lambda: any(m == "DELETE" for m, _ in api.requests))
                await api.until(lambda: "preemption failed" in process.cluster.counts)
                assert process.cluster.reserved() == {}
                told = "preemption on a: "
                await api.until(
                    lambda: any(event["message"].startswith(told) for event in api.events("FailedScheduling"))
                )
                forbidden[0] = False
                await api.until(lambda: api.bound() == {"vip": "a"})

    asyncio.run(scenario())


def test_two_schedulers_that_both_believe_to_lead_never_bind_twice() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            for name in "abcd":
                api.node(name, "8")
            async with scheduling(api, identity="one") as one, scheduling(api, identity="two") as two:
                for i in range(24):
                    api.pod(f"p{i}")
                await api.until(lambda: len(api.bound()) == 24, 20.0)
                one.cluster.validate()
                two.cluster.validate()
            assert all(len(nodes) == 1 for nodes in api.binds.values())

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_throttling_server_is_obeyed() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            refusals = [3]

            def throttle(method: str, path: str) -> int:
                if path.endswith("/binding") and refusals[0]:
                    refusals[0] -= 1
                    return 429
                return 0

            api.faults = Faults(refuse=throttle)
            api.node("a")
            api.pod("x")
            async with scheduling(api):
                await api.until(lambda: api.bound() == {"x": "a"}, 20.0)
            assert api.binds == {"uid-x": ["a"]}

    asyncio.run(scenario())
