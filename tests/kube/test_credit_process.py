"""The credit process against an API server: booking, standings, leadership, its pages, and incidents from a node's
agent, over kill -9.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import eventually, patience, soon
from tests.kube.definitions import collection, installed

pytest.importorskip("sqlalchemy", reason="the extra `credit` is not installed")

from cotenant.drivers.http.address import Address
from cotenant.drivers.journal.journal import Journal
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.policy.credit.bounds import CreditRules
from cotenant.policy.credit.pricing import CauseVerdict
from cotenant.services.agent.reports.incidents import IncidentReporter
from cotenant.services.credit.credit_process import COMPONENT, CreditOptions, CreditProcess
from cotenant.services.kube_process.leadership import Leadership, leadership
from cotenant.services.reporting.incident import IncidentBody
from cotenant.services.reporting.sender import ReportSender

pytestmark = pytest.mark.slow

TOKEN = "token-of-the-test-0123456789"
QUOTA = "quota.scheduling.koordinator.sh/name"
STANDING = "cotenant.io/credit"


@pytest.fixture(scope="module")
def quotas(local: Any) -> Iterator[None]:
    with installed(local):
        yield


@pytest.fixture
def tenants(local: Any, quotas: None, tmp_path: Path) -> Iterator[str]:
    """A namespace with a lender (10 cores, one service that runs) and a borrower (1 core, a job of 8 that runs)."""
    name = f"case-{os.urandom(4).hex()}"
    local.create("/api/v1/namespaces", {"metadata": {"name": name}})
    for quota, least in (("lender", "10"), ("borrower", "1")):
        spec = {"min": {"cpu": least}, "max": {"cpu": "100"}}
        kind = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota"}
        local.create(collection("elasticquotas", name), {**kind, "metadata": {"name": quota}, "spec": spec})
    for pod, quota, cpu in (("web", "lender", "1"), ("job", "borrower", "8")):
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
        local.create(
            f"/api/v1/namespaces/{name}/pods",
            {
                "metadata": {"name": pod, "labels": {QUOTA: quota}},
                "spec": {"nodeName": "n1", "containers": [container]},
            },
        )
    (tmp_path / "token").write_text(TOKEN)
    yield name
    local.request("DELETE", f"/api/v1/namespaces/{name}")


def incident(namespace: str, key: str, verdict: CauseVerdict = CauseVerdict.PROVEN) -> IncidentBody:
    return IncidentBody(
        key=key,
        at_ms=int(time.time() * 1000),
        harm_milli_core_hours=600,
        confidence_permille=700,
        culprit_pod=f"{namespace}/job",
        victim_pod=f"{namespace}/web",
        verdict=verdict,
        objective_missed=True,
        evidence={"signal": "latency"},
    )


def ask(url: str, *, token: str = "", proxied: bool = False, body: bytes | None = None) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if proxied:
        headers["X-Forwarded-For"] = "10.0.0.9"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=patience(20)) as answer:
            code, text = answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        code, text = refused.code, refused.read()
    return code, json.loads(text) if text[:1] in (b"{", b"[") else text.decode()


@asynccontextmanager
async def running(
    local: Any, tmp_path: Path, namespace: str, identity: str
) -> AsyncIterator[tuple[CreditProcess, str, asyncio.Event]]:
    access = load_access(local.kubeconfig, "")

    def elected(_: Client) -> Leadership:
        def connect() -> Client:
            return Client(access, qps=float("inf"), burst=10, in_flight=2, user_agent=COMPONENT)

        return leadership(connect, namespace, COMPONENT, identity, Timing(), elect=True)

    rules = CreditRules(bound_milli=1000)
    options = CreditOptions(Address("127.0.0.1", 0), 1.0, rules, tmp_path / "token", sample_s=0.2)
    journal = Journal(f"sqlite:///{tmp_path / 'credit.db'}")
    process = CreditProcess(access, options, journal, identity, elected)
    stop = asyncio.Event()
    task = asyncio.create_task(process.run(stop))
    try:
        await soon("it listens", lambda: process.server.address.port)
        yield process, f"http://127.0.0.1:{process.server.address.port}", stop
    finally:
        stop.set()
        await task


def standing(local: Any, namespace: str, quota: str) -> int:
    found = local.get(f"{collection('elasticquotas', namespace)}/{quota}")
    return int((found["metadata"].get("annotations") or {}).get(STANDING, "0"))


def test_a_period_is_booked_incidents_act_on_standings_and_a_successor_goes_on(
    local: Any, tenants: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        in_thread = asyncio.to_thread
        async with running(local, tmp_path, tenants, "one") as (one, url, stop):
            await soon("it leads", lambda: one.kube.leads)
            await soon("a period is booked", lambda: "lender" in one.booking.accounts.tenants())
            lender, borrower = (one.booking.accounts.balances[f"tenant/{name}"] for name in ("lender", "borrower"))
            assert lender > 0 > borrower
            # pages: this machine without a token, others with it only
            assert (await in_thread(ask, url + "/credit/v1/tenants"))[0] == 200
            assert (await in_thread(ask, url + "/credit/v1/tenants", proxied=True))[0] == 403
            assert (await in_thread(ask, url + "/credit/v1/entries", proxied=True, token="wrong"))[0] == 403
            code, listed = await in_thread(ask, url + "/credit/v1/tenants", proxied=True, token=TOKEN)
            assert (code, [entry["tenant"] for entry in listed]) == (200, ["borrower", "lender"])
            assert (await in_thread(ask, url + "/credit/v1/tenants/lender"))[1]["entries"][-1]["cause"] == "lent"
            assert (await in_thread(ask, url + "/readyz"))[0] == 200
            # an agent's incident, by pods: once, though sent twice; then cleared
            async with ReportSender(tmp_path / "token") as sender:
                reporter = IncidentReporter(url, "n1", sender.post, lambda: None, time.time, tmp_path / "waiting")
                for _ in range(2):
                    reporter.waiting["k"] = incident(tenants, "k")
                    assert await reporter.deliver()
                await soon("debt", lambda: in_thread(lambda: standing(local, tenants, "borrower") <= -600))
                await soon("credit", lambda: in_thread(lambda: standing(local, tenants, "lender") >= 600))
                reporter.waiting["k"] = incident(tenants, "k", CauseVerdict.CLEARED)
                assert await reporter.deliver()
                await soon("reversed", lambda: in_thread(lambda: standing(local, tenants, "lender") < 500))
                reporter.waiting["k"] = incident(tenants, "k")
                assert await reporter.deliver()  # late and repeated: nothing
                reporter.waiting["x"] = incident("nowhere", "x")
                assert await reporter.deliver()
                assert reporter.counts == {"delivered": 4, "refused": 1, "failed": 0, "dropped": 0}
            page = one.kube.metrics.page().decode()
            for line in (
                'cotenant_credit_incidents_total{outcome="booked"} 1.0',
                'cotenant_credit_incidents_total{outcome="reversed"} 1.0',
                'cotenant_credit_incidents_total{outcome="nothing"} 2.0',
                'cotenant_credit_incidents_total{outcome="refused"} 1.0',
                "cotenant_credit_leading 1.0",
            ):
                assert line in page
            async with running(local, tmp_path, tenants, "two") as (two, other, _):
                await soon("two follows", lambda: "lender" in two.booking.accounts.tenants())
                assert not two.kube.leads
                body = json.dumps({"key": "y"}).encode()
                assert (await in_thread(ask, other + "/credit/v1/incidents", body=body))[0] == 503
                assert (await in_thread(ask, other + "/credit/v1/tenants"))[0] == 200
                stop.set()
                await soon("two leads", lambda: two.kube.leads)
                number = len(one_journal(tmp_path))
                await soon("two books", lambda: len(one_journal(tmp_path)) > number)

    asyncio.run(scenario())
    records = one_journal(tmp_path)
    moved = [
        (record.cause, record.payer, record.payee, record.milli)
        for record in records
        if record.key.startswith("incident/")
    ]
    assert moved == [
        ("compensated", "tenant/borrower", "tenant/lender", 600),
        ("reversed", "tenant/lender", "tenant/borrower", 600),
    ]


def one_journal(tmp_path: Path) -> list[Any]:
    journal = Journal(f"sqlite:///{tmp_path / 'credit.db'}")
    journal.validate()
    found = journal.records(limit=100_000)
    journal.close()
    return found


def test_incidents_of_an_agent_survive_kill_9_of_the_process_that_books_them(
    local: Any, tenants: str, tmp_path: Path
) -> None:
    port = free_port()
    command = [sys.executable, "-m", "cotenant", "credit", "serve", "--no-leader-elect", "--state-dir", ""]
    command += ["--kubeconfig", str(local.kubeconfig), "--store", str(tmp_path / "credit.db")]
    command += ["--listen", f"127.0.0.1:{port}", "--token-file", str(tmp_path / "token"), "--period-s", "3600"]
    children: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        children.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        refused = (urllib.error.URLError, ConnectionError, TimeoutError)
        eventually("it serves", lambda: ask(f"http://127.0.0.1:{port}/readyz")[0] == 200, 60.0, tolerated=refused)

    async def scenario() -> None:
        async with ReportSender(tmp_path / "token") as sender:

            def agent() -> IncidentReporter:
                url = f"http://127.0.0.1:{port}"
                return IncidentReporter(url, "n1", sender.post, lambda: None, time.time, tmp_path / "waiting")

            await asyncio.to_thread(start)
            first = agent()
            first.waiting = {f"k{i}": incident(tenants, f"k{i}") for i in range(40)}
            delivering = asyncio.create_task(first.deliver())
            await soon("some are booked", lambda: first.counts["delivered"] >= 7)
            children[0].send_signal(signal.SIGKILL)
            assert not await delivering
            await asyncio.to_thread(start)
            second = agent()  # the agent was killed too: it goes on with its file
            second.load()
            assert 0 < len(second.waiting) <= 33
            await soon("the rest is delivered", second.deliver)
            for i in (0, 20):
                second.waiting[f"k{i}"] = incident(tenants, f"k{i}", CauseVerdict.CLEARED)
            assert await second.deliver()

    try:
        asyncio.run(scenario())
    finally:
        for child in children:
            child.kill()
            child.wait()
    keys = sorted(entry.key for entry in one_journal(tmp_path))
    assert keys == sorted([f"incident/k{i}" for i in range(40)] + ["incident/k0/cleared", "incident/k20/cleared"])
