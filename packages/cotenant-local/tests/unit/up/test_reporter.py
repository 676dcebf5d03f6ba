"""The simulated nodes' reports arrive where real agents' would."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tokens import BearerToken
from cotenant.engine.state.reports import NodeReports
from cotenant.model.cluster.report import NodeReport
from cotenant.services.reporting.endpoint import ReportEndpoint
from cotenant_local.up.reporter import HttpReporter

NOW_S = 1_000_000.0
LOOPBACK = Address("127.0.0.1", 0)


def a_report(node: str) -> NodeReport:
    return NodeReport(
        node=node,
        cpu_allocatable=32.0,
        cpu_used=8.0,
        memory_allocatable=2.0**37,
        memory_used=2.0**35,
        latency_p99_ms=12.5,
        violation=0.25,
        dominant_share=0.4,
        fairness=0.9,
        at_s=NOW_S,
    )


def test_reports_are_taken_by_the_endpoint_of_scheduler_and_extender() -> None:
    async def scenario() -> tuple[NodeReports, int]:
        store = NodeReports()
        server = HttpServer(ReportEndpoint(store, lambda: NOW_S), LOOPBACK)
        await server.start()
        reporter = HttpReporter([server.address.port])
        await reporter.report([a_report("n1"), a_report("n2")])
        await reporter.close()
        await server.stop()
        return store, reporter.lost

    store, lost = asyncio.run(scenario())
    assert lost == 0
    assert store.fresh("n1", NOW_S) == a_report("n1")
    assert store.fresh("n2", NOW_S) is not None


def test_what_cannot_be_delivered_is_counted() -> None:
    async def scenario() -> int:
        server = HttpServer(ReportEndpoint(NodeReports(), lambda: NOW_S), LOOPBACK)
        await server.start()
        port = server.address.port
        await server.stop()
        reporter = HttpReporter([port])
        await reporter.report([a_report("n1")])
        await reporter.close()
        return reporter.lost

    assert asyncio.run(scenario()) == 1


def test_reports_carry_the_token(tmp_path: Path) -> None:
    token = tmp_path / "report-token"
    token.write_text("a-token-of-the-test")

    async def scenario(token_file: Path | None) -> int:
        store = NodeReports()
        server = HttpServer(ReportEndpoint(store, lambda: NOW_S, BearerToken(token)), LOOPBACK)
        await server.start()
        reporter = HttpReporter([server.address.port], token_file)
        await reporter.report([a_report("n1")])
        await reporter.close()
        await server.stop()
        return len(store)

    assert asyncio.run(scenario(token)) == 1
    assert asyncio.run(scenario(None)) == 0
