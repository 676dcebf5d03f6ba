"""What an agent serves over HTTP: the list of exporters, its own figures, and exports that it sends on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest
from aiohttp import ClientSession, web
from tests.fakes.waiting import soon

from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import CotenantError, Transient
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.figures import ContainerFigures, HostFigures, Measured
from cotenant.model.fleet.host import Heartbeat, Registration
from cotenant.model.fleet.requests import Describe
from cotenant.services.fleet.functions.contract import Beat, Function
from cotenant.services.fleet.functions.exporter import ExporterFunction
from cotenant.services.fleet.functions.figures import FigureFunction
from cotenant.services.fleet.functions.forwarding import ForwardFunction
from cotenant.services.fleet.functions.gateway import GatewayFunction
from cotenant.services.fleet.rpc import Dispatcher, RpcVerb

ANY = "127.0.0.1:0"


async def told(function: Function) -> Beat:
    beat = Beat()
    await function.add_to(beat)
    return beat


@asynccontextmanager
async def on(function: Function, **settings: Any) -> AsyncIterator[None]:
    function.configure(AgentConfiguration(**settings))
    await function.start()
    try:
        yield
    finally:
        await function.stop()


async def asked(url: str, method: str = "GET", **more: Any) -> tuple[int, str, bytes]:
    async with ClientSession() as session, session.request(method, url, **more) as answer:
        return answer.status, answer.headers.get("content-type", ""), await answer.read()


def play(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(cast(Any, scene)())


# ---- exports


class Collector:
    def __init__(self) -> None:
        self.got: list[tuple[str, bytes, str, str]] = []
        self.status = 200

    async def answer(self, request: web.Request) -> web.Response:
        kind, coding = (request.headers.get(name, "") for name in ("content-type", "content-encoding"))
        body = await request.content.read() if coding else await request.read()
        if self.status == 200:
            self.got.append((request.path, body, kind, coding))
        return web.Response(status=self.status)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        application = web.Application()
        application.add_routes([web.post("/{path:.*}", self.answer)])
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        try:
            yield f"http://{host}:{port}"
        finally:
            await runner.cleanup()


def test_exports_are_answered_at_once_and_sent_on_as_they_came() -> None:
    async def scene() -> None:
        function, collector = ForwardFunction(), Collector()
        assert function.url == ""
        async with collector.served() as url, on(function, collector=url, otlp=ANY):
            json_type = {"Content-Type": "application/json; charset=utf-8"}
            assert await asked(f"{function.url}/v1/traces", "POST", data=b"{1}", headers=json_type) == (
                200, "application/json", b"{}",
            )  # fmt: skip
            plain = await asked(
                f"{function.url}/v1/logs", "POST", data=b"12", headers={"Content-Type": "application/x-protobuf"}
            )
            assert (plain[0], plain[2]) == (200, b"")
            await soon("both arrive", lambda: len(collector.got) == 2)
            assert collector.got == [
                ("/v1/traces", b"{1}", "application/json; charset=utf-8", ""),
                ("/v1/logs", b"12", "application/x-protobuf", ""),
            ]
            await told(function)
            assert function.fault == ""
        assert function.url == ""

    play(scene)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/healthz", 200), ("GET", "/v1/traces", 405), ("POST", "/v1/other", 404), ("GET", "/", 404)],
)
def test_only_exports_are_taken(method: str, path: str, status: int) -> None:
    async def scene() -> None:
        function = ForwardFunction()
        async with on(function, collector="http://127.0.0.1:1", otlp=ANY):
            found, _, body = await asked(f"{function.url}{path}", method)
            assert found == status
            assert body == {200: b"ok\n", 405: b"only POST\n", 404: b"/v1/traces, /v1/metrics, /v1/logs\n"}[status]

    play(scene)


def test_without_a_collector_senders_are_told_so() -> None:
    async def scene() -> None:
        function = ForwardFunction()
        async with on(function, otlp=ANY):
            assert (await asked(f"{function.url}/v1/logs", "POST", data=b"12"))[0] == 503
            function.configure(AgentConfiguration(collector="http://127.0.0.1:1", otlp=ANY))
            assert (await asked(f"{function.url}/v1/logs", "POST", data=b"12"))[0] == 200

    play(scene)


def test_what_a_collector_refuses_is_the_functions_fault() -> None:
    async def scene() -> None:
        function, collector = ForwardFunction(), Collector()
        collector.status = 400
        async with collector.served() as url, on(function, collector=url, otlp=ANY):
            await asked(f"{function.url}/v1/logs", "POST", data=b"12")

            async def is_said() -> bool:
                await told(function)
                return "400" in function.fault

            await soon("the refusal is said", is_said)
            assert "dropped" not in function.fault

    play(scene)


def test_an_address_that_is_taken_is_said_and_tried_again() -> None:
    async def scene() -> None:
        bus, first = MemoryBus(), ForwardFunction()
        async with on(first, otlp=ANY):
            taken = first.url.removeprefix("http://")
            others: list[Function] = [ForwardFunction(), GatewayFunction(bus), ExporterFunction(figures())]
            for other in others:
                other.configure(AgentConfiguration(otlp=taken, gateway=taken, exporter=taken))
                with pytest.raises(CotenantError):
                    await other.start()
                assert taken.rpartition(":")[2] in other.fault
                other.configure(AgentConfiguration(otlp=ANY, gateway=ANY, exporter=ANY))
                await other.start()
                if not isinstance(other, ForwardFunction):
                    assert other.fault == ""
                await other.stop()

    play(scene)


# ---- figures


class Figures:
    def __init__(self) -> None:
        self.error: Exception | None = None

    async def measured(self) -> Measured:
        if self.error is not None:
            raise self.error
        return Measured("a", "host-a", 1.0, HostFigures(cpus=4, cpu_milli=1500), (ContainerFigures("web"),))


def figures() -> FigureFunction:
    return cast(FigureFunction, Figures())


def test_figures_are_served_where_heartbeats_say() -> None:
    async def scene() -> None:
        source = Figures()
        function = ExporterFunction(cast(FigureFunction, source))
        assert (await told(function)).exporters == []
        async with on(function, exporter=ANY):
            (place,) = (await told(function)).exporters
            assert place.startswith("127.0.0.1:")
            status, _, page = await asked(f"http://{place}/metrics")
            assert status == 200
            assert b"\ncotenant_host_cpus 4.0\n" in page
            assert (await asked(f"http://{place}/healthz"))[0] == 200
            assert await asked(f"http://{place}/other") == (404, "text/plain; charset=utf-8", b"/metrics\n")
            source.error = Transient("nothing was measured yet")
            status, _, body = await asked(f"http://{place}/metrics")
            assert (status, body) == (503, b"nothing was measured yet\n")
        assert (await told(function)).exporters == []

    play(scene)


@pytest.mark.parametrize(
    ("listens", "named", "told_as"),
    [(ANY, "node-7", "node-7:"), (ANY, "2001:db8::1", "[2001:db8::1]:"), ("0.0.0.0:0", "node-7", "node-7:")],
)
def test_it_is_reached_by_the_name_that_is_configured(listens: str, named: str, told_as: str) -> None:
    async def scene() -> None:
        function = ExporterFunction(figures())
        async with on(function, exporter=listens, exporter_host=named):
            (place,) = (await told(function)).exporters
            assert place.startswith(told_as)
            assert int(place.rpartition(":")[2]) > 0

    play(scene)


def test_on_every_address_it_is_reached_by_one_of_the_host() -> None:
    async def scene() -> None:
        function = ExporterFunction(figures())
        async with on(function, exporter="0.0.0.0:0"):
            (place,) = (await told(function)).exporters
            assert not place.startswith("0.0.0.0")

    play(scene)


# ---- the list of exporters


class Fleet:
    """Agents on a bus that say who they are. `asked`: who was."""

    def __init__(self) -> None:
        self.bus, self.now_s = MemoryBus(), 100.0
        self.asked: list[str] = []
        self.number = 0  # of the last heartbeat
        self.gateway = GatewayFunction(self.bus, now=lambda: self.now_s)

    def add(self, guid: str, called: str = "") -> None:
        async def describe(_: Describe, __: BusMessage) -> Registration:
            self.asked.append(guid)
            return Registration(called or guid, f"host-of-{guid}", "1", region="east", tags=("web",))

        dispatcher = Dispatcher({"describe": RpcVerb(Describe, describe)}, self.bus)
        self.bus.attach(f"guid.{guid}.rpc.*", dispatcher.received)

    async def beat(self, guid: str, number: int = 1, subject: str = "") -> None:
        beat = Heartbeat(guid, number, 1.0, exporters=(f"{guid}:9477",))
        await self.bus.publish(subject or f"hb.{guid}", msgspec.json.encode(beat))

    async def listed(self) -> dict[str, Any]:
        status, _, body = await asked(self.gateway.url)
        assert status == 200
        return {group["labels"]["guid"]: group for group in json.loads(body)}

    async def heard(self, *guids: str) -> None:
        """Heartbeats until they, and nobody else, are listed."""

        async def are_listed() -> bool:
            for guid in guids:
                self.number += 1
                await self.beat(guid, self.number)
            return await self.lists(*guids)

        await soon(f"{guids} are listed", are_listed)

    async def lists(self, *guids: str) -> bool:
        return set(await self.listed()) == set(guids)


def test_who_is_heard_is_asked_once_and_listed_until_it_leaves() -> None:
    async def scene() -> None:
        fleet = Fleet()
        for guid in ("a", "b"):
            fleet.add(guid)
        assert fleet.gateway.url == ""
        async with on(fleet.gateway, gateway=ANY):
            assert await fleet.listed() == {}
            await fleet.heard("a", "b")
            await fleet.heard("a", "b")
            assert sorted(fleet.asked) == ["a", "b"]
            assert (await fleet.listed())["a"] == {
                "targets": ["a:9477"],
                "labels": {
                    "guid": "a", "host": "host-of-a", "role": "edge", "platform": "docker", "region": "east",
                    "namespace": "default", "__meta_cotenant_tags": ",web,",
                },
            }  # fmt: skip
            await fleet.bus.publish("fleet.leave.a", b"")
            await soon("who left is not listed", lambda: fleet.lists("b"))
            page = (await asked(fleet.gateway.url.replace("/sd", "/metrics")))[2].decode()
            assert " 1.0" in "".join(line for line in page.splitlines() if line.startswith("cotenant_fleet_agents{"))
        assert fleet.gateway.url == ""

    play(scene)


def test_who_is_silent_for_long_is_no_longer_listed() -> None:
    async def scene() -> None:
        fleet = Fleet()
        fleet.add("a")
        async with on(fleet.gateway, gateway=ANY):
            await fleet.heard("a")
            fleet.now_s += 3600
            await soon("it is away", lambda: fleet.lists())

    play(scene)


def test_heartbeats_of_others_and_what_is_none_change_nothing() -> None:
    async def scene() -> None:
        fleet = Fleet()
        for guid, called in (("a", ""), ("liar", "a"), ("last", "")):
            fleet.add(guid, called)
        async with on(fleet.gateway, gateway=ANY):
            await fleet.bus.publish("hb.a", b"no json")
            await fleet.beat("a", subject="hb.liar")
            await fleet.beat("liar")  # says that it is another
            await fleet.heard("last")
            assert "a" not in fleet.asked

    play(scene)


def test_who_cannot_be_asked_is_the_gateways_fault_until_one_can() -> None:
    async def scene() -> None:
        fleet = Fleet()
        async with on(fleet.gateway, gateway=ANY):
            await fleet.beat("a")
            await soon("that is said", lambda: fleet.gateway.fault.startswith("who a is: "))
            fleet.add("a")
            await fleet.heard("a")
            assert fleet.gateway.fault == ""

    play(scene)


@pytest.mark.parametrize(("method", "path", "status"), [("POST", "/sd", 404), ("GET", "/", 404), ("HEAD", "/sd", 200)])
def test_a_gateway_has_the_list_and_its_own_metrics_only(method: str, path: str, status: int) -> None:
    async def scene() -> None:
        fleet = Fleet()
        async with on(fleet.gateway, gateway=ANY):
            assert (await asked(fleet.gateway.url.replace("/sd", path), method))[0] == status

    play(scene)
