"""Model servers read by the trace process: what counts, what a failing one says, and the file that names them."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from tests.fakes.servers.model_servers import page
from tests.fakes.servers.trace_process import Running
from tests.fakes.waiting import becomes

from cotenant.cli.main import main
from cotenant.drivers.modelserver.access import ScrapeAccess
from cotenant.drivers.modelserver.exposition import read_exposition
from cotenant.engine.traces.objectives import TrackedObjectives
from cotenant.engine.traces.operations import Operations
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.traces.model_server import ModelGoal, ModelMeasure, ModelServerReading
from cotenant.model.traces.objective import Indicator, ServiceObjective
from cotenant.services.objectives.files import read_file
from cotenant.services.traces.model_servers import reading_servers
from cotenant.services.traces.model_servers.reading_servers import PERIOD_S, ModelServers
from cotenant.services.traces.model_servers.server_file import ModelServer, read_model_servers
from cotenant.services.traces.objective_board import ConditionRow, ObjectiveBoard
from cotenant.services.traces.traces_arguments import TraceSettings

EXAMPLES = Path(__file__).parents[7] / "examples"
GOAL = ModelGoal({ModelMeasure.TIME_TO_FIRST_TOKEN: 500_000})
FIRST_TOKEN = ServiceObjective("shop/llm", "shop", "llm", "", Indicator.MODEL_SERVER, 500_000, GOAL, budget_ppm=50_000)
SERVER = ModelServer("shop/llm", "http://10.0.0.1:8000/metrics", "llm-0", "n1")


class Ended(Exception):
    """The test has seen enough."""


@dataclass
class World:
    """Servers whose answers a test sets, and a clock that only waiting moves."""

    answers: dict[str, str | Exception] = field(default_factory=dict)
    now_s: float = 1_800_000_000.0
    waited: list[float] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.objectives = TrackedObjectives(Operations())
        self.objectives.set(FIRST_TOKEN, self.now_s)
        self.board = ObjectiveBoard(self.objectives, lambda: self.now_s)
        self.servers = ModelServers((SERVER,), self.read, self.objectives, lambda: self.now_s, self.sleep)

    async def read(self, url: str, access: ScrapeAccess) -> ModelServerReading:
        self.asked.append(url)
        answer = self.answers[url]
        if isinstance(answer, Exception):
            raise answer
        return read_exposition(answer)

    async def sleep(self, wait_s: float) -> None:
        self.waited.append(wait_s)
        self.now_s += wait_s
        if len(self.waited) >= 8:
            raise Ended

    def look(self, answer: str | Exception) -> None:
        self.answers[SERVER.url] = answer
        asyncio.run(self.servers.read_once(SERVER))
        self.now_s += PERIOD_S

    @property
    def counted(self) -> tuple[int, int]:
        tracked = self.objectives.get("shop/llm")
        assert tracked is not None
        return tracked.requests, tracked.bad

    @property
    def receiving(self) -> ConditionRow:
        (view,) = self.board.views()
        return next(row for row in view.conditions if row.type == "Receiving")

    def metric(self, name: str) -> list[tuple[dict[str, str], float]]:
        return [
            (sample.labels, sample.value)
            for family in self.servers.collect()
            for sample in family.samples
            if sample.name == name
        ]


@pytest.fixture
def world() -> World:
    return World()


def vllm(*seconds: float, tokens: float = 0.0) -> str:
    return page("vllm-0.11", {"timeToFirstToken": seconds}, tokens=tokens)


def test_readings_are_counted_and_shown(world: World) -> None:
    assert world.receiving.reason == "NoReadings"
    world.look(vllm(tokens=100))
    world.look(vllm(0.1, 0.5, 0.6, tokens=300))
    assert world.counted == (3, 1)
    (view,) = world.board.views()
    assert (view.state, view.limits_ms, view.counted_from) == ("ok", {"timeToFirstToken": 500.0}, "metrics")
    labels = {"service": "shop/llm", "pod": "llm-0", "server": "vllm"}
    assert world.metric("cotenant_model_server_tokens_per_second") == [(labels, 100.0)]
    assert world.metric("cotenant_model_server_waiting") == [(labels, 7.0)]


def test_the_servers_of_one_namespace_that_do_not_answer_delay_no_other(world: World) -> None:
    async def scenario() -> None:
        silent, asked = asyncio.Event(), []

        async def read(url: str, access: ScrapeAccess) -> ModelServerReading:
            asked.append(url)
            if "10.0." in url:
                await silent.wait()
            return read_exposition(vllm())

        bank = replace(FIRST_TOKEN, key="bank/llm", service_namespace="bank")
        world.objectives.set(bank, world.now_s)
        servers = ModelServers((), read, world.objectives, lambda: world.now_s)
        many = [ModelServer("shop/llm", f"http://10.0.0.{i}:8000/metrics", f"llm-{i}") for i in range(20)]
        looks = [asyncio.create_task(servers.read_once(server)) for server in many]
        await asyncio.sleep(0)
        assert await servers.read_once(ModelServer("bank/llm", "http://10.2.0.1:8000/metrics", "llm-0"))
        assert asked == [server.url for server in many[:4]] + ["http://10.2.0.1:8000/metrics"]
        silent.set()
        assert all(await asyncio.gather(*looks))

    asyncio.run(scenario())


def test_a_server_that_fails_is_named_and_counts_on_when_it_is_back(world: World) -> None:
    world.look(vllm(0.1))
    world.look(Transient("no whole answer within 2 s"))
    assert (world.receiving.status, world.receiving.reason) == ("False", "NotMeasured")
    assert world.receiving.message == "not counted from 1 replicas: llm-0: no whole answer within 2 s"
    world.look(vllm(0.1, 0.9))
    assert (world.counted, world.receiving.status, world.receiving.message) == ((1, 1), "True", "")
    assert {labels["outcome"]: value for labels, value in world.metric("cotenant_model_server_reads_total")} == {
        "read": 2.0,
        "failed": 1.0,
        "invalid": 0.0,
    }


def test_a_page_that_is_none_loses_nothing_that_was_counted(world: World) -> None:
    world.look(vllm())
    world.look(vllm(0.1))
    world.look("<html>")
    world.look(vllm(0.1, 0.2))
    assert world.counted == (2, 0)


def test_one_that_fails_is_asked_less_and_less(world: World) -> None:
    world.answers[SERVER.url] = Transient("gone")
    with pytest.raises(ExceptionGroup):
        asyncio.run(world.servers.run())
    assert world.waited == [4.0, 8.0, 16.0, 32.0, 32.0, 32.0, 32.0, 32.0]


def test_servers_of_no_objective_are_not_asked(world: World) -> None:
    world.objectives.remove("shop/llm")
    world.look(vllm())
    assert world.asked == []


def test_the_examples_fit_together() -> None:
    objectives = read_file(EXAMPLES / "17-model-server.yaml")
    assert [objective.key for objective in objectives] == [
        "shop/llm-first-token",
        "shop/llm-queue",
        "shop/llm-goodput",
    ]
    servers = read_model_servers(EXAMPLES / "17-model-servers.yaml").servers
    assert {server.source.qualified_service for server in servers} == {
        objective.qualified_service for objective in objectives
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "servers"),
        ("servers: []", "1 to 500"),
        ("servers: [{service: llm, url: 'http://a/metrics'}]", "NAMESPACE/NAME"),
        ("servers: [{service: shop/llm, url: 'file:///etc/passwd'}]", "http://HOST:PORT/metrics"),
        ("servers: [{service: shop/llm, url: 'http://a:x/metrics'}]", "http://HOST:PORT/metrics"),
        ("servers: [{service: shop/llm, url: 'http://a/m'}, {service: shop/b, url: 'http://a/m'}]", "each url once"),
        ("servers: [{service: shop/llm, uri: 'http://a/metrics'}]", "uri"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "servers.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=said):
        read_model_servers(file)


class _Handler(BaseHTTPRequestHandler):
    shown = vllm()

    def do_GET(self) -> None:  # the library's name
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.shown.encode())

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def served() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_the_process_reads_a_server_over_http_and_the_command_shows_it(
    served: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reading_servers, "PERIOD_S", 0.05)
    monkeypatch.setattr(_Handler, "shown", vllm())
    url = f"http://127.0.0.1:{served.server_address[1]}/metrics"
    servers = tmp_path / "servers.yaml"
    servers.write_text(f"servers: [{{service: shop/llm, url: '{url}', pod: llm-0}}]")
    settings = TraceSettings(
        http="127.0.0.1:0", grpc="", objectives=EXAMPLES / "17-model-server.yaml", model_servers=servers
    )
    with Running(settings) as running:

        def requests() -> int:
            main(["objective", "show", "shop/llm-first-token", "--url", running.url, "--json"])
            found: int = msgspec.json.decode(capsys.readouterr().out)["requests"]
            return found

        def readings() -> bool:
            page = running.ask("GET", "/metrics")[1]
            return re.search(rb'cotenant_model_server_reads_total\{outcome="read"\} [1-9]', page) is not None

        becomes("a reading", readings, True)
        monkeypatch.setattr(_Handler, "shown", vllm(0.1, 0.9))
        becomes("two requests", requests, 2)
        main(["objective", "show", "shop/llm-first-token", "--url", running.url])
        told = " ".join(capsys.readouterr().out.split())
        assert "95 % of the requests of shop/llm timeToFirstToken 500 ms (metrics), over 7d" in told
