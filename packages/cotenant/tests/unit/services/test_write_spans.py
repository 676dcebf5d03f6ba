"""Spans of the manager's writes: decided, waited, answered; and that those of running processes reach a trace
process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.fakes.processes.manager_process import configure, lent, managing, measure
from tests.fakes.servers.fake_api import FakeApi
from tests.fakes.waiting import eventually, soon

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.client.errors import Conflict, Unavailable
from cotenant.drivers.otlp.encoding import OwnSpan
from cotenant.engine.manager.instructions import DeleteObject, NodeObjectKind, WriteRatios
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.kube_process.span_target import span_target
from cotenant.services.manager.write_spans import WriteSpans
from cotenant.services.rebalancer.main import options_of
from cotenant.services.rebalancer.rebalancer_arguments import RunArguments
from cotenant.services.rebalancer.rebalancer_process import RebalancerProcess
from cotenant.services.traces import traces_process as traces
from cotenant.services.traces.client import TraceClient

WRITE = WriteRatios("a", "uid-a", {})


class Sink:
    def __init__(self) -> None:
        self.spans: list[OwnSpan] = []

    def add(self, spans: Sequence[OwnSpan]) -> None:
        self.spans += spans


class Setting:
    """One write of each kind, answered as `answers` says, one second a request."""

    def __init__(self, *answers: Exception | None) -> None:
        self.sink, self.now_s = Sink(), 10.0
        self.spans = WriteSpans(self.sink, lambda: self.now_s)
        left = list(answers)

        async def write(client: Client, what: object) -> None:
            self.now_s += 1.0
            error = left.pop(0)
            if error is not None:
                raise error

        self.writers = self.spans.traced({WriteRatios: write, DeleteObject: write})

    def write(self, what: WriteRatios | DeleteObject) -> None:
        asyncio.run(self.writers[type(what)](None, what))  # type: ignore[arg-type]

    def times(self) -> list[tuple[str, float, float]]:
        return [(span.name, span.start_s, span.end_s) for span in self.sink.spans]


def test_a_write_has_a_trace_of_its_phases() -> None:
    setting = Setting(None, None)
    gone = DeleteObject(NodeObjectKind.NODE_SLO, "b")
    setting.spans.decided((WRITE, gone), 9.0)
    setting.now_s = 12.0
    setting.write(WRITE)
    assert setting.times() == [
        ("write Node ratios", 9.0, 13.0),
        ("decide", 9.0, 10.0),
        ("wait", 10.0, 12.0),
        ("request", 12.0, 13.0),
    ]
    root = setting.sink.spans[0]
    assert root.attributes == {"cotenant.object": "a", "cotenant.result": "written"}
    assert setting.sink.spans[1].attributes == {"cotenant.round.writes": 2}
    setting.sink.spans.clear()
    setting.write(gone)
    assert setting.sink.spans[0].name == "delete NodeSLO"


def test_a_refused_write_says_why_and_one_that_is_tried_again_is_one_trace() -> None:
    setting = Setting(Unavailable("away"), Conflict("another node has its name"))
    setting.spans.decided((WRITE,), 10.0)
    with pytest.raises(Unavailable):
        setting.write(WRITE)
    assert setting.times() == []
    with pytest.raises(Conflict):
        setting.write(WRITE)
    root, _, wait, request = setting.sink.spans
    assert (root.attributes["cotenant.result"], root.error) == ("refused", "another node has its name")
    assert (wait.end_s, request.end_s) == (11.0, 12.0)
    assert request.error == root.error


def test_a_write_that_a_newer_one_replaced_has_none() -> None:
    setting = Setting(None, None)
    newer = WriteRatios("a", "uid-a", {"ratio": "2"})
    setting.spans.decided((WRITE,), 10.0)
    setting.spans.decided((newer,), 10.0)
    setting.write(WRITE)  # it was on its way already
    assert setting.times() == []
    setting.write(newer)
    assert len(setting.times()) == 4


@pytest.mark.slow
def test_a_trace_process_shows_writes_and_rounds(tmp_path: Path) -> None:
    async def scenario() -> None:
        stop = asyncio.Event()
        heard: asyncio.Future[traces.ListeningAddresses] = asyncio.get_running_loop().create_future()
        receiving = asyncio.create_task(
            traces.serve(traces.TraceSettings(http="127.0.0.1:0", grpc=""), stop, heard.set_result)
        )
        url = (await heard).url
        client = TraceClient(url)
        async with FakeApi() as api:
            api.node("a")
            configure(api)
            measure(api, "a", 1000)
            async with managing(api, span_target=span_target(url, None, None)) as manager:
                await soon("amounts", lambda: lent(api, "a") is not None)
                await soon("spans", lambda: b'manager_spans_total{outcome="exported"}' in manager.kube.metrics.page())
                arguments = RunArguments(otlp_traces=url)
                options = options_of(arguments, Address("127.0.0.1", 0))
                access = Access(api.url, FixedCredential(Credential("")))
                rebalancer = RebalancerProcess(access, options, "one", lambda client: Alone())
                ended = asyncio.Event()
                running = asyncio.create_task(rebalancer.run(ended))

                def shown() -> bool:
                    found = {(operation.service, operation.operation) for operation in client.services().operations}
                    return {
                        ("cotenant-manager", "write Node"),
                        ("cotenant-manager", "write NodeSLO"),
                        ("cotenant-rebalancer", "plan round"),
                    } <= found

                await asyncio.to_thread(eventually, "traces of both", shown, 120.0)  # kernels may have to be compiled
                ended.set()
                await running
        stop.set()
        await receiving

    asyncio.run(scenario())
