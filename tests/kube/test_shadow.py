"""A shadow beside the scheduler that binds: it reads only, follows the real binds, and compares.

On the local API server always, beside a scheduler of ours under another name; beside kube-scheduler on a real API
server where there is one.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.fakes.processes.real_control_plane import MISSING, control_plane
from tests.fakes.waiting import soon
from tests.kube.conftest import Kube
from tests.kube.test_scheduler import Cluster

from cotenant.cli.main import main
from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import Access, load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.kinds.event import EVENTS
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.kube.kinds.priority_class import PRIORITY_CLASSES
from cotenant.engine.rehearsal import rehearse
from cotenant.model.decisions.shadow import ShadowChoice, ShadowOutcome, ShadowReport
from cotenant.model.errors import Permanent
from cotenant.policy.placement.profiles import profile
from cotenant.services.clients.scheduler import Scheduler
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.scheduler.configured_options import options_of, own_profile, profiles_of
from cotenant.services.scheduler.scheduler_process import SchedulerProcess
from cotenant.services.scheduler.shadow.shadow_process import COMPONENT, ShadowProcess
from cotenant.services.scheduler_config.configuration_file import parse_config
from cotenant.services.scheduling.options import Options
from cotenant_local.apiserver import patching
from cotenant_local.apiserver.http.app import ApiServerApp
from cotenant_local.apiserver.http.audit import AuditLog
from cotenant_local.apiserver.http.auth import Credentials
from cotenant_local.apiserver.http.server import ApiServer
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api

pytestmark = pytest.mark.slow  # a server and schedulers

REAL = "default-scheduler"
ANY = Address("127.0.0.1", 0)


def shadow_of(access: Access, placement: str = "kube-default") -> ShadowProcess:
    return ShadowProcess(access, profile(placement), Options(schedulers=(REAL,), listen=ANY), "shadow", 0.5)


@asynccontextmanager
async def beside(process: ShadowProcess) -> AsyncIterator[ShadowProcess]:
    stop = asyncio.Event()
    task = asyncio.create_task(process.run(stop))
    try:
        await soon("the shadow has listed everything", lambda: process.kube.watches.synced or task.done())
        yield process
        process.cluster.validate()
        assert not process.cluster.reserved()
    finally:
        stop.set()
        await task


class Local(Cluster):
    """A cluster on the local API server, with its audit log."""

    def __init__(self, client: Client, access: Access, log: Path) -> None:
        super().__init__(client)
        self.access, self._log = access, log

    async def make(self, *names: str, **more: str) -> None:
        for name in names:
            await self.pod(name, schedulerName=REAL, **more)

    async def bind(self, name: str, node: str) -> None:
        pod = await self.get(name)
        await self.client.bind("default", name, pod["metadata"]["uid"], node)

    def requests(self, agent: str) -> list[tuple[str, str]]:
        """Method of RBAC and path of each request of these processes."""
        events = [msgspec.json.decode(line) for line in self._log.read_bytes().splitlines()]
        return [(event["verb"], event["requestURI"]) for event in events if event["userAgent"].startswith(agent)]


def run(folder: Path, scenario: Callable[[Local], Awaitable[None]], *, scheduler: bool = False) -> None:
    for name in ("kube-default", "least-allocated"):
        rehearse(profile(name))  # what compiles in the event loop of the server would leave requests unanswered

    async def serve() -> None:
        api = Api(Store(), patching=patching, taints_new_nodes=False)
        await api.bootstrap()
        log = AuditLog(folder / "audit.log")
        server = ApiServer(ApiServerApp(api, Credentials("secret-of-the-test"), audit=log))
        await server.start()
        access = Access(server.url, FixedCredential(Credential("Bearer secret-of-the-test")))
        stop = asyncio.Event()
        real = SchedulerProcess(
            access, profile("kube-default"), Options(schedulers=(REAL,), listen=ANY), "real", lambda client: Alone()
        )
        scheduling = asyncio.create_task(real.run(stop) if scheduler else asyncio.sleep(0))
        try:
            async with Client(access, qps=float("inf"), burst=100, in_flight=16) as client:
                await scenario(Local(client, access, folder / "audit.log"))
        finally:
            stop.set()
            await scheduling
            await real.client.close()
            await server.stop()
            await api.close()
            log.close()

    asyncio.run(serve())


def outcomes(shadow: ShadowProcess) -> dict[str, int]:
    return {counted.what: counted.pods for counted in shadow.shadow.report(0.0).outcomes if counted.pods}


def test_it_only_reads_and_compares_every_bind_of_a_scheduler(tmp_path: Path) -> None:
    async def scenario(cluster: Local) -> None:
        for i in range(5):
            await cluster.node(f"n{i}", cpu="16")
        async with beside(shadow_of(cluster.access)) as shadow:
            await cluster.make(*(f"p{i}" for i in range(40)))
            for i in range(40):
                await cluster.placed(f"p{i}")
            await cluster.make("large", cpu="64")
            await cluster.refused("large")
            await soon("every bind was compared", lambda: sum(outcomes(shadow).values()) == 40)
            await soon("the large pod was judged", lambda: shadow.shadow.pending()[ShadowChoice.WAITS] == 1)
            report = await asyncio.to_thread(Scheduler(shadow.server.url).shadow, 10)
            assert isinstance(report, ShadowReport)
            assert report.compared + outcomes(shadow).get(ShadowOutcome.BEFORE_JUDGED, 0) == 40
            assert report.agreed >= 0.9 * report.compared  # the same profile: what differs is what it saw late
            answer = await asyncio.to_thread(Scheduler(shadow.server.url).pod, "default", "large", ())
            assert "Insufficient cpu" in answer.headline
            assert not answer.leads
            page = shadow.kube.metrics.page().decode()
            assert 'cotenant_shadow_pods_total{outcome="' in page
            assert 'cotenant_shadow_pending_pods{choice="waits"} 1.0' in page
        made = cluster.requests(COMPONENT)
        assert len(made) > 10
        assert {verb for verb, _ in made} <= {"get", "list", "watch"}
        assert not [event for event in await events(cluster.client) if event["reportingComponent"] == COMPONENT]

    run(tmp_path, scenario, scheduler=True)


async def events(client: Client) -> list[dict[str, str]]:
    listed = msgspec.json.decode(await client.request("GET", EVENTS.path()))
    return [{"reportingComponent": "", **event} for event in listed["items"]]


def test_its_picture_follows_the_real_binds(tmp_path: Path) -> None:
    """Pods are bound where the shadow would not have put them; what it would have preempted stays."""

    async def scenario(cluster: Local) -> None:
        await cluster.node("a", cpu="4")
        await cluster.node("b", cpu="8")
        async with beside(shadow_of(cluster.access, "least-allocated")) as shadow:
            await cluster.make("first", "second", "third")
            await soon("all were judged", lambda: shadow.shadow.pending()[ShadowChoice.PLACES] == 3)
            assert not shadow.cluster.assigned()
            for name in ("first", "second", "third"):
                await cluster.bind(name, "a")
            await soon("they were compared", lambda: outcomes(shadow).get(ShadowOutcome.OTHER_NODE) == 3)
            assert set(shadow.cluster.assigned().values()) == {"a"}
            await cluster.make("fills", cpu="8")
            await cluster.bind("fills", "b")
            await soon("it counts", lambda: len(shadow.cluster.assigned()) == 4)
            await cluster.client.create(PRIORITY_CLASSES, "", {"metadata": {"name": "high"}, "value": 1000})
            await cluster.pod("urgent", cpu="4", schedulerName=REAL, priorityClassName="high")
            await soon("it would preempt", lambda: shadow.shadow.pending()[ShadowChoice.PREEMPTS] == 1)
            assert len(shadow.cluster.assigned()) == 4
            await cluster.client.delete(PODS, "default", "urgent")
            await soon("it is counted as deleted", lambda: outcomes(shadow).get(ShadowOutcome.DELETED) == 1)
            (newest, *_) = shadow.shadow.report(0.0, 1).differences
            assert newest.words.startswith("b is ahead of a by ")
        assert {verb for verb, _ in cluster.requests(COMPONENT)} <= {"get", "list", "watch"}

    run(tmp_path, scenario)


def test_after_a_restart_what_is_bound_is_not_judged_and_what_waits_is(tmp_path: Path) -> None:
    async def scenario(cluster: Local) -> None:
        await cluster.node("a")
        await cluster.make("before", "waiting")
        await cluster.bind("before", "a")
        async with beside(shadow_of(cluster.access)) as shadow:
            await soon("what waits was judged", lambda: shadow.shadow.pending()[ShadowChoice.PLACES] == 1)
            assert outcomes(shadow) == {}
            await cluster.bind("waiting", "a")
            await soon("it was compared", lambda: outcomes(shadow) == {ShadowOutcome.AGREED: 1})

    run(tmp_path, scenario)


def test_the_command_starts_says_where_it_listens_and_ends(local: Kube, capsys: pytest.CaptureFixture[str]) -> None:
    words = [sys.executable, "-m", "cotenant", "scheduler", "--shadow", f"--kubeconfig={local.kubeconfig}"]
    options = ["--listen=127.0.0.1:0", "--profile=kube-default", "--state-dir="]
    with subprocess.Popen([*words, *options], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            url = next(found[0] for line in lines if (found := re.findall(r"explain shadow` on (http://\S+)", line)))
            assert main(["explain", "shadow", f"--scheduler={url}"]) == 0
            assert "Nothing was written." in capsys.readouterr().out
        finally:
            process.terminate()
            process.stderr.read()
    assert process.returncode == 0


def test_its_client_refuses_to_write(tmp_path: Path) -> None:
    async def scenario(cluster: Local) -> None:
        await cluster.node("a")
        await cluster.make("x")
        async with beside(shadow_of(cluster.access)) as shadow:
            uid = (await cluster.get("x"))["metadata"]["uid"]
            with pytest.raises(Permanent, match="only reads"):
                await shadow.client.bind("default", "x", uid, "a")
            with pytest.raises(Permanent, match="only reads"):
                await shadow.client.evict("default", "x", uid)

    run(tmp_path, scenario)


def configured(access: Access) -> ShadowProcess:
    """By the scores of kube-scheduler itself."""
    text = b"{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}"
    config = parse_config(text, "defaults")
    options = Options(schedulers=(REAL,), profiles=profiles_of(config), listen=ANY, **options_of(config))
    rehearse(own_profile(config))
    return ShadowProcess(access, own_profile(config), options, "shadow", 0.5)


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_beside_kube_scheduler_on_a_real_api_server(tmp_path: Path) -> None:
    async def case() -> None:
        async with control_plane(tmp_path) as kubeconfig:
            access = load_access(kubeconfig)
            async with Client(access, qps=float("inf"), burst=100, in_flight=16) as client:
                cluster = Cluster(client)
                for i in range(10):
                    taints = [{"key": "team", "value": "a", "effect": "NoSchedule"}] if i == 9 else None
                    await cluster.node(f"n{i}", cpu="16", taints=taints)
                async with beside(configured(access)) as shadow:
                    for i in range(40):
                        await cluster.pod(f"one{i}", cpu=f"{200 + 100 * (i % 5)}m", schedulerName=REAL)
                        await cluster.placed(f"one{i}")
                    await soon("these were compared", lambda: sum(outcomes(shadow).values()) == 40)
                    alone = shadow.shadow.report(0.0)
                    assert alone.compared >= 35  # a judgement that loads a kernel may take the CPU time of the next
                    assert alone.agreed == alone.compared, alone.differences
                    for i in range(60):  # binds of a burst come in another order than the decisions
                        await cluster.pod(f"p{i}", cpu=f"{200 + 100 * (i % 5)}m", schedulerName=REAL)
                    for i in range(60):
                        await cluster.placed(f"p{i}")
                    await cluster.pod("large", cpu="64", schedulerName=REAL)
                    await cluster.refused("large")
                    await soon("every bind was seen", lambda: sum(outcomes(shadow).values()) == 100)
                    report = shadow.shadow.report(0.0)
                    assert report.compared >= 90
                    assert all(difference.behind <= 10.0 for difference in report.differences)
                    assert shadow.shadow.pending()[ShadowChoice.WAITS] == 1
                    assert set(shadow.cluster.assigned().values()) == {f"n{i}" for i in range(9)}

    asyncio.run(case())
