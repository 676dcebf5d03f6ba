"""Containers of a node's pods: no socket, no pods; another socket, another connection; and one that has just ended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cotenant.drivers.cri.pod_containers import PodContainers
from cotenant.model.errors import Unsupported
from cotenant.model.fleet.pods import PodContainer, PodName
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.model.fleet.terminals import WindowSize
from cotenant.model.machine.knob import Vanished
from cotenant.services.fleet.functions.terminals.pods import NodePods

WEB = PodContainer("shop", "web", "app", "id-1")


class Runtime:
    """Behind one socket."""

    def __init__(self, socket: Path) -> None:
        self.socket, self.closed = socket, False
        self.opened: list[tuple[Any, ...]] = []
        self.commands = SimpleNamespace(open=self._open)
        self.has_ended = False

    def close(self) -> None:
        self.closed = True

    async def names(self, name: PodName) -> tuple[str, ...]:
        return (f"{self.socket}:shop/{name.pod}",)

    async def container(self, name: PodName) -> PodContainer | None:
        return WEB if name.pod == "web" else None

    async def _open(self, *given: Any) -> str:
        if self.has_ended:
            raise Vanished("id-1")
        self.opened.append(given)
        return "terminal"


def pods() -> tuple[NodePods, list[Runtime]]:
    made: list[Runtime] = []

    def opened(socket: Path) -> PodContainers:
        made.append(Runtime(socket))
        return cast(PodContainers, made[-1])

    return NodePods(opened), made


def test_without_a_socket_there_are_none() -> None:
    found, made = pods()
    with pytest.raises(Unsupported, match="pod_runtime"):
        asyncio.run(found.names(PodName("web")))
    assert made == []
    found.close()


def test_one_connection_lasts_until_the_socket_changes_or_it_is_closed() -> None:
    found, made = pods()
    found.configure("/one")
    for _ in range(2):
        assert asyncio.run(found.names(PodName("web"))) == ("/one:shop/web",)
        found.configure("/one")
    assert len(made) == 1
    found.configure("/two")
    assert made[0].closed
    assert asyncio.run(found.names(PodName("web"))) == ("/two:shop/web",)
    found.close()
    assert made[1].closed
    asyncio.run(found.names(PodName("web")))
    assert [one.socket for one in made] == [Path("/one"), Path("/two"), Path("/two")]


def test_a_command_runs_in_the_container_of_that_name() -> None:
    found, made = pods()
    found.configure("/one")
    container = asyncio.run(found.container(PodName("web")))
    assert container == WEB
    with pytest.raises(NoSuchGuid, match="no pod other runs"):
        asyncio.run(found.container(PodName("other")))
    assert cast(Any, asyncio.run(found.command(container, ("sh",), WindowSize(80, 24)))) == "terminal"
    assert made[0].opened == [("id-1", ("sh",), 80, 24)]
    made[0].has_ended = True
    with pytest.raises(NoSuchGuid, match="shop/web/app has just ended"):
        asyncio.run(found.command(container, ("sh",), WindowSize(80, 24)))
