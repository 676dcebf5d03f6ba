"""A second kind of process built from the home: a small controller that writes how many pods each node has.

It elects a leader, watches pods, writes a status, records an Event, serves health and metrics, and stops in order.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from prometheus_client import Counter
from tests.fakes.servers.fake_api import FakeApi, Faults
from tests.fakes.waiting import soon

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.messages import HttpAnswer, Receive, Scope, Send, send_answer
from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodObject
from cotenant.services.kube_process.clock import SteadyClock
from cotenant.services.kube_process.events import NORMAL
from cotenant.services.kube_process.kube_process import KubeProcess
from cotenant.services.kube_process.leadership import Alone, Leadership, leadership
from cotenant.services.kube_process.watches import ObjectHandler


@dataclass(frozen=True)
class PodCount:
    """The status: how many pods a node has."""

    node: str
    pods: int


async def write_count(client: Client, status: PodCount) -> None:
    await client.patch_status(NODES, "", status.node, {"status": {"podCount": status.pods}})


class PodCounter:
    """The example controller."""

    def __init__(self, access: Access, identity: str, leads: Leadership | None = None) -> None:
        client = Client(access, qps=1000.0, burst=100, in_flight=8, user_agent="pod-counter")
        lease = leadership(
            lambda: Client(access, qps=1000.0, burst=100, in_flight=2, user_agent="pod-counter"),
            *("default", "pod-counter", identity),
            elect=True,
        )
        self.process = process = KubeProcess("pod-counter", identity, client, leadership=leads or lease)
        self.written = Counter("pod_counter_counts", "Counts written", registry=process.metrics)
        self.statuses = process.status_writer("statuses", {PodCount: write_count}, per_s=1000.0)
        process.watches.handle(PODS, ObjectHandler(lambda pod: pod, self.seen, self.gone))
        self.listener = HttpServer(Pages(process), Address("127.0.0.1", 0))
        process.serve("http", self.listener)
        self.nodes: dict[str, str] = {}  # by pod
        self.log: list[str] = []
        process.on_listed(lambda: self.log.append(f"{len(self.nodes)} listed"))
        process.on_stop(lambda: self.log.append("stopped"))

    def seen(self, pod: PodObject) -> None:
        self.nodes[pod.metadata.name or ""] = (pod.spec.node_name if pod.spec else "") or ""

    def gone(self, key: str) -> None:
        self.nodes.pop(key.partition("/")[2], None)

    async def work(self) -> None:
        """While leading."""
        self.log.append("leads")
        counted: Tally[str] = Tally()
        try:
            while True:
                self.process.turn()
                counts = Tally(node for node in self.nodes.values() if node)
                for node in sorted((counts.keys() | counted.keys()) if counts != counted else ()):
                    self.statuses.put(node, PodCount(node, counts[node]))
                    self.process.events.record(NODES, node, f"uid-{node}", NORMAL, "Counted", f"{counts[node]} pods")
                    self.written.inc()
                counted = counts
                await self.process.sleep(60.0)
        finally:
            self.statuses.put("last", PodCount("last", len(self.nodes)))
            self.log.append(f"settled, leads {self.process.leads}")


class Pages:
    """Health and metrics of a process."""

    def __init__(self, process: KubeProcess) -> None:
        health = process.health
        self._pages = HealthPages(process.metrics.page, health.unhealthy, health.unready, process.standing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_answer(send, self._pages.answer(scope["method"], scope["path"]) or HttpAnswer(404))


@asynccontextmanager
async def running(api: FakeApi, identity: str = "one", leads: Leadership | None = None) -> AsyncIterator[PodCounter]:
    counter = PodCounter(Access(api.url, FixedCredential(Credential(""))), identity, leads)
    stop = asyncio.Event()
    task = asyncio.create_task(counter.process.run(stop, counter.work))
    try:
        yield counter
    finally:
        stop.set()
        await task


async def get(counter: PodCounter, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as http, http.get(f"http://{counter.listener.address}{path}") as answer:
        return answer.status, await answer.text()


def count(api: FakeApi, node: str) -> Any:
    return api.objects["nodes"][node]["status"].get("podCount")


def test_work_whose_loop_does_not_turn_is_not_healthy() -> None:
    now_s, stop = [0.0], asyncio.Event()
    said: list[str] = []

    async def work() -> None:
        now_s[0] += 60.0
        said.append(process.health.unhealthy())
        now_s[0] += 1.0
        said.append(process.health.unhealthy())
        process.turn()
        said.append(process.health.unhealthy())
        stop.set()
        await asyncio.Event().wait()

    async def scenario() -> None:
        nonlocal process
        async with FakeApi() as api:
            client = Client(
                Access(api.url, FixedCredential(Credential(""))), qps=10.0, burst=1, in_flight=1, user_agent="t"
            )
            process = KubeProcess("t", "one", client, clock=SteadyClock(lambda: 0.0, lambda: now_s[0]))
            now_s[0] += 1000.0
            said.append(process.health.unhealthy())  # not leading: there is no loop
            await process.run(stop, work)
            now_s[0] += 100.0
            said.append(process.health.unhealthy())

    process: KubeProcess
    asyncio.run(scenario())
    assert said == ["", "", "the loop has not turned for 61 s", "", ""]


def test_a_controller_of_a_few_lines_leads_watches_writes_and_serves() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            api.node("last")
            api.pod("x", on="a")
            async with running(api) as counter:
                await api.until(lambda: count(api, "a") == 1 and len(api.events("Counted")) == 1)
                api.pod("y", on="a")
                await api.until(lambda: count(api, "a") == 2)
                api.drop("pods", "default/x")
                await api.until(
                    lambda: count(api, "a") == 1 and sum(e.get("count", 1) for e in api.events("Counted")) == 3
                )
                assert await get(counter, "/healthz") == (200, "ok\n")
                assert await get(counter, "/readyz") == (200, "ok\n")
                _, page = await get(counter, "/metrics")
                assert "pod_counter_counts_total 3.0" in page
                assert "process_cpu_seconds_total" in page
                assert "_created" not in page
                assert api.objects["leases"]["default/pod-counter"]["spec"]["holderIdentity"] == "one"
            event = api.events("Counted")[0]
            assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Node", "a")

    asyncio.run(scenario())


def test_the_stop_settles_work_then_releases_the_lease_and_closes_the_client_last() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            api.node("last")
            api.pod("x", on="a")
            async with running(api) as counter:
                await api.until(lambda: count(api, "a") == 1)
            assert counter.log[1:] == ["leads", "settled, leads True", "stopped"]
            assert count(api, "last") == 1  # put while the work was settled, written before the lease was released
            writes = [path for method, path in api.requests if method in ("PATCH", "PUT")]
            assert writes[-2:] == ["/api/v1/nodes/last/status", LEASE_PATH]
            assert not api.objects["leases"]["default/pod-counter"]["spec"].get("holderIdentity")
            assert counter.process.client._session is None
            async with running(api, "two"):  # takes over at once
                await api.until(lambda: api.objects["leases"]["default/pod-counter"]["spec"]["holderIdentity"] == "two")

    asyncio.run(scenario())


LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/default/leases/pod-counter"


def test_a_replica_that_does_not_lead_is_ready_and_writes_nothing() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            api.node("last")
            async with running(api):
                await api.until(
                    lambda: "default/pod-counter" in api.objects["leases"]
                )  # the first leads, not the second
                async with running(api, "two") as follower:
                    await follower.process.watches.wait_synced()
                    api.pod("x", on="a")
                    await api.until(lambda: count(api, "a") == 1)
                    held = "ok; not leading: waits for the lease default/pod-counter, held by one\n"

                    async def waits() -> bool:
                        return await get(follower, "/readyz") == (200, held)

                    await soon("it has heard who holds the lease", waits)
                    assert (
                        'leader_election_master_status{name="pod-counter"} 0.0' in (await get(follower, "/metrics"))[1]
                    )
                    assert follower.log == ["0 listed"]
                    assert follower.nodes == {"x": "a"}
                    follower.statuses.put("a", PodCount("a", 99))
                    assert await follower.statuses.flush(5.0)
                    assert count(api, "a") == 1

    asyncio.run(scenario())


class Pausing(Alone):
    """Leads, and pauses when it is told to."""

    leading = True
    lapses = 0

    def standing(self) -> str:
        return "" if self.leading else "the lease was not renewed"

    async def run(self, work: Callable[[], Awaitable[None]], changed: Callable[[], None] = lambda: None) -> bool:
        self.changed = changed
        return await super().run(work)


def test_a_pause_of_the_leader_is_said_and_what_it_had_to_write_is_written_after_it() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            api.node("last")
            async with running(api, leads=(leads := Pausing())) as counter:
                while not counter.process.leads:
                    await asyncio.sleep(0)
                leads.leading = False
                counter.statuses.put("a", PodCount("a", 7))
                assert await get(counter, "/readyz") == (200, "ok; not leading: the lease was not renewed\n")
                assert 'leader_election_master_status{name="pod-counter"} 0.0' in (await get(counter, "/metrics"))[1]
                assert counter.statuses.waiting() == 1
                leads.leading = True
                leads.changed()
                await api.until(lambda: count(api, "a") == 7)
            assert counter.log[1:] == ["leads", "settled, leads True", "stopped"]  # one term

    asyncio.run(scenario())


def test_it_is_not_ready_before_everything_is_listed() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.faults = Faults(refuse=lambda method, path: 403 if path.endswith("/pods") else 0)
            async with running(api) as counter:
                await api.until_asked("GET", "/api/v1/pods")
                assert await get(counter, "/readyz") == (503, "not everything has been listed yet\n")
                assert await get(counter, "/healthz") == (200, "ok\n")
            assert counter.log == ["stopped"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("part", "error"), [("work", ValueError), ("background", ValueError), ("background that ends", RuntimeError)]
)
def test_a_part_that_fails_ends_the_process_in_order(part: str, error: type[Exception]) -> None:
    async def scenario() -> list[str]:
        async with FakeApi() as api:
            process = KubeProcess(
                "x", "one", Client(Access(api.url, FixedCredential(Credential(""))), qps=1e3, burst=9, in_flight=4)
            )
            log: list[str] = []
            process.on_stop(lambda: log.append("first"))
            process.on_stop(lambda: log.append("second"))
            failing = asyncio.Event()

            async def fails() -> None:
                await failing.wait()
                if part != "background that ends":
                    raise ValueError(part)

            async def work() -> None:
                log.append("leads")
                failing.set()
                try:
                    await (fails() if part == "work" else asyncio.Event().wait())
                finally:
                    log.append("settled")

            if part != "work":
                process.background(part, fails)
            with pytest.raises(error, match=part):
                await process.run(asyncio.Event(), work)
            return log

    assert asyncio.run(scenario()) == ["leads", "settled", "second", "first"]
