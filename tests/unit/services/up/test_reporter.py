"""The simulated nodes' reports arrive where real agents' would."""

from __future__ import annotations

import asyncio

from cotenant.engine.state.reports import Reports
from cotenant.model.cluster.report import NodeReport
from cotenant.services.reporting.endpoint import ReportEndpoint
from cotenant.services.scheduler.http import Server, serve
from cotenant.services.up.reporter import HttpReporter

NOW_S = 1_000_000.0


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


async def _started(server: Server) -> asyncio.Task[None]:
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    return serving


def test_reports_are_taken_by_the_endpoint_of_scheduler_and_extender() -> None:
    async def scenario() -> tuple[Reports, int]:
        store = Reports()
        server = serve(ReportEndpoint(store, lambda: NOW_S), "127.0.0.1", 0)
        serving = await _started(server)
        reporter = HttpReporter([server.port])
        await reporter.report([a_report("n1"), a_report("n2")])
        await reporter.close()
        server.should_exit = True
        await serving
        return store, reporter.lost

    store, lost = asyncio.run(scenario())
    assert lost == 0
    assert store.fresh("n1", NOW_S) == a_report("n1")
    assert store.fresh("n2", NOW_S) is not None


def test_what_cannot_be_delivered_is_counted() -> None:
    async def scenario() -> int:
        server = serve(ReportEndpoint(Reports(), lambda: NOW_S), "127.0.0.1", 0)
        serving = await _started(server)
        port = server.port
        server.should_exit = True
        await serving
        reporter = HttpReporter([port])
        await reporter.report([a_report("n1")])
        await reporter.close()
        return reporter.lost

    assert asyncio.run(scenario()) == 1
