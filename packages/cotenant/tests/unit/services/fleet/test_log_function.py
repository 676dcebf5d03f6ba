"""Logs of a host: found, followed, read by name, and forgotten after what wrote them has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.fakes.processes.listed_containers import ListedContainers, container
from tests.fakes.waiting import soon

from cotenant.drivers.nats.contract import BusMessage
from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.logs import FindLogs, FoundLogs, LogPage, ReadLogs
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.functions.logs.function import LogFunction

MESSAGE = BusMessage("guid.host-1.rpc.logs")


def line(second: int, text: str) -> str:
    return f'{{"log":"{text}\\n","stream":"stdout","time":"2026-01-01T00:00:{second:02d}Z"}}\n'


class Host:
    """A host whose container `web` writes a file, and which has a pod `db` in two namespaces."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_s = 1_767_225_600.0
        self.containers = ListedContainers(folder)
        self.file = folder / "web.log"
        self.file.write_text(line(1, "one") + line(2, "two"))
        self.containers.known["web"] = container(
            "web", log_path=str(self.file), labels={"cotenant.io/appkey": "shop-web"}
        )
        for namespace in ("shop", "test"):
            pod = folder / "pods" / f"{namespace}_db_uid-{namespace}" / "c"
            pod.mkdir(parents=True, exist_ok=True)
            (pod / "0.log").write_text(f"2026-01-01T00:00:03Z stdout F of {namespace}\n")
        self.logs = LogFunction("host-1", self.containers, folder, lambda: self.now_s)
        self.logs.configure(AgentConfiguration(pod_logs=str(folder / "pods")))

    async def read(self, guid: str, **how: object) -> list[str]:
        page = await self.logs.verbs["logs"].handle(ReadLogs(guid, **how), MESSAGE)  # type: ignore[arg-type]
        assert isinstance(page, LogPage)
        return [found.text for found in page.lines]

    async def find(self, name: str) -> tuple[str, ...]:
        found = await self.logs.verbs["find-logs"].handle(FindLogs(name), MESSAGE)
        assert isinstance(found, FoundLogs)
        return found.names

    async def knows(self, name: str) -> bool:
        return bool(await self.find(name))


def on_host(folder: Path, work: Callable[[Host], Awaitable[None]]) -> None:
    async def run() -> None:
        host = Host(folder)
        await host.logs.start()
        try:
            await soon("the logs are read", lambda: has_lines(host))
            await work(host)
        finally:
            await host.logs.stop()

    asyncio.run(run())


async def has_lines(host: Host) -> bool:
    return await host.knows("shop/db") and bool(await host.read("shop/db"))


def test_lines_are_read_by_a_containers_guid_and_a_pods_name(tmp_path: Path) -> None:
    async def work(host: Host) -> None:
        assert await host.read("web") == ["one", "two"]
        assert await host.read("web", grep="^t") == ["two"]
        assert await host.read("web", tail=1) == ["two"]
        assert await host.read("web", tail=0, wait_s=0.0) == ["two"]  # a page has one line at least
        assert await host.read("shop/db") == ["of shop"]
        assert await host.find("db") == ("shop/db", "test/db")
        assert await host.find("nobody") == ()

    on_host(tmp_path, work)


def test_a_name_of_none_or_of_several_is_refused(tmp_path: Path) -> None:
    async def work(host: Host) -> None:
        with pytest.raises(NoSuchGuid, match="this host has no log of nobody"):
            await host.read("nobody")
        with pytest.raises(InvalidInput, match="one of shop/db, test/db"):
            await host.read("db")
        with pytest.raises(InvalidInput, match="tail: -1"):
            await host.read("web", tail=-1)

    on_host(tmp_path, work)


def test_what_comes_later_is_followed_and_waited_for(tmp_path: Path) -> None:
    async def work(host: Host) -> None:
        page = await host.logs.verbs["logs"].handle(ReadLogs("web"), MESSAGE)
        assert isinstance(page, LogPage)
        waiting = asyncio.create_task(
            host.logs.verbs["logs"].handle(ReadLogs("web", cursor=page.cursor, wait_s=20.0), MESSAGE)
        )
        await asyncio.sleep(0)
        with host.file.open("a") as file:
            file.write(line(4, "three"))
        found = await waiting
        assert isinstance(found, LogPage)
        assert [one.text for one in found.lines] == ["three"]
        host.now_s += 100.0  # a reader that does not want to wait gets an empty page
        again = await host.logs.verbs["logs"].handle(ReadLogs("web", cursor=found.cursor), MESSAGE)
        assert isinstance(again, LogPage)
        assert (again.lines, again.is_end) == ((), True)

    on_host(tmp_path, work)


def test_a_driver_that_writes_no_file_is_named_to_readers_and_in_the_heartbeat(tmp_path: Path) -> None:
    async def work(host: Host) -> None:
        with pytest.raises(Unsupported, match="not journald"):
            await host.read("job")
        await host.logs.add_to(Beat())
        assert host.logs.fault == "job: a log driver that writes files (json-file, k8s-file), not journald"
        assert await host.find("new") == ()  # never started: it has no log yet

    async def run() -> None:
        host = Host(tmp_path)
        host.containers.known["job"] = container("job", log_driver="journald", log_path="/elsewhere")
        host.containers.known["new"] = container("new", pid=0, started_s=0.0, log_path=str(host.file))
        await host.logs.start()
        await soon("the logs are found", lambda: host.knows("job"))
        await work(host)
        await host.logs.stop()

    asyncio.run(run())


def test_where_the_reading_was_is_kept_for_the_next_agent(tmp_path: Path) -> None:
    async def nothing(_: Host) -> None:
        """It was read by then."""

    on_host(tmp_path, nothing)
    stored = (tmp_path / "log-positions.json").read_text()
    assert all(key in stored for key in ("uid-shop/c/0.log", "uid-test/c/0.log", "web000"))

    async def read_again(host: Host) -> None:
        assert await host.read("web") == ["one", "two"]

    on_host(tmp_path, read_again)  # the new agent has what an earlier one had read
