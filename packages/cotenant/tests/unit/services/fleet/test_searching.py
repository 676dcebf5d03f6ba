"""Which agent has a pod, or the log of one: all that can are asked, and not again within a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.nats.file_store import FileStore
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.host import Heartbeat, Registration
from cotenant.model.fleet.logs import FindLogs, FoundLogs
from cotenant.model.fleet.pods import FIND, FindPods, FoundPods
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.services.fleet.controller.controller import ControllerSettings, FleetController
from cotenant.services.fleet.controller.searching import Searching
from cotenant.services.fleet.rpc import Dispatcher, RpcVerb

T = TypeVar("T")
BOTH = (FIND, "find-logs")


@dataclass
class World:
    """Agents with pods, as NAMESPACE/NAME, whose logs have the pods' names."""

    folder: Path
    runner: asyncio.Runner
    now_s: float = 100.0
    asked: list[tuple[str, str, str]] = field(default_factory=list)  # agent, name, session
    pods: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bus = MemoryBus()
        store = FileStore(self.folder / "store")
        self.controller = FleetController(self.bus, store, ControllerSettings(None, is_alone=True), lambda: self.now_s)
        self.searching = Searching(self.controller)

    def add(self, guid: str, *pods: str, capabilities: tuple[str, ...] = BOTH, answers: bool = True) -> None:
        self.pods[guid] = pods
        self.controller.registry.register(Registration(guid, guid, "1", capabilities=capabilities), self.now_s)
        self.controller.registry.beat(Heartbeat(guid, 1, self.now_s, 1.0), self.now_s)

        async def found(request: FindPods, message: BusMessage) -> FoundPods:
            self.asked.append((guid, request.name, request.session))
            return FoundPods(
                tuple(pod for pod in self.pods[guid] if request.name in (pod, pod.partition("/")[2], request.session))
            )

        async def logs(request: FindLogs, message: BusMessage) -> FoundLogs:
            self.asked.append((guid, request.name, "logs"))
            return FoundLogs(tuple(pod for pod in self.pods[guid] if pod.endswith(f"/{request.name}")))

        if answers:
            dispatcher = Dispatcher({FIND: RpcVerb(FindPods, found), "find-logs": RpcVerb(FindLogs, logs)}, self.bus)
            self.run(self._attach(f"guid.{guid}.rpc.*", dispatcher))

    async def _attach(self, subject: str, dispatcher: Dispatcher) -> None:
        self.bus.attach(subject, dispatcher.received)

    def run(self, asked: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(asked)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with asyncio.Runner() as runner:
        yield World(tmp_path, runner)


def test_a_pod_is_found_by_its_name_with_or_without_its_namespace(world: World) -> None:
    world.add("one", "shop/web", "shop/db")
    world.add("two", "team/web2")
    pod = world.searching.pod
    assert world.run(pod("web")) == ("one", "shop/web")
    assert world.run(pod("shop/db")) == ("one", "shop/db")
    assert world.run(pod("team/web2/main")) == ("two", "team/web2/main")
    assert {agent for agent, *_ in world.asked} == {"one", "two"}


def test_what_was_found_is_known_for_a_minute(world: World) -> None:
    world.add("one", "shop/web")
    world.run(world.searching.pod("web"))
    world.now_s += 59.9
    assert world.run(world.searching.pod("web")) == ("one", "shop/web")
    assert len(world.asked) == 1
    world.now_s += 0.1
    world.controller.registry.beat(Heartbeat("one", 2, world.now_s, 1.0), world.now_s)
    world.run(world.searching.pod("web"))
    assert len(world.asked) == 2
    assert world.searching.forget_pod("web")
    assert not world.searching.forget_pod("web")
    assert not world.searching.forget_pod("Not a name")
    world.run(world.searching.pod("web"))
    assert len(world.asked) == 3


def test_nothing_that_was_not_found_is_kept(world: World) -> None:
    world.add("one")
    for text, said in (
        ("web", "no container has the guid web, and no host's terminals reach a pod of this name"),
        ("shop/web", "no host's terminals reach a pod shop/web"),
        ("Not_a_pod", "no container has the guid Not_a_pod"),
    ):
        with pytest.raises(NoSuchGuid) as caught:
            world.run(world.searching.pod(text))
        assert str(caught.value) == said
    with pytest.raises(InvalidInput):
        world.run(world.searching.pod("a/b/c/d"))
    world.pods["one"] = ("shop/web",)
    assert world.run(world.searching.pod("web")) == ("one", "shop/web")


def test_a_name_of_several_is_refused_with_all_that_have_it(world: World) -> None:
    world.add("one", "shop/web")
    world.add("two", "team/web")
    with pytest.raises(InvalidInput) as caught:
        world.run(world.searching.pod("web"))
    assert caught.value.hint == "one (shop/web), two (team/web) have a pod of this name"
    with pytest.raises(InvalidInput) as caught:
        world.run(world.searching.agent_with_log("web"))
    assert caught.value.hint == "one, two have a log of this name"


def test_only_agents_that_can_are_asked_and_one_that_does_not_answer_has_none(world: World) -> None:
    world.add("one", "shop/web")
    world.add("without", "shop/other", capabilities=("find-logs",))
    world.add("deaf", "shop/third", answers=False)
    assert world.run(world.searching.pod("web")) == ("one", "shop/web")
    assert [agent for agent, *_ in world.asked] == ["one"]
    world.asked.clear()
    assert world.run(world.searching.agent_with_log("other")) == "without"
    assert sorted(agent for agent, *_ in world.asked) == ["one", "without"]
    with pytest.raises(NoSuchGuid) as caught:
        world.run(world.searching.agent_with_log("gone"))
    assert str(caught.value) == "no host of this fleet has a log of gone"


def test_a_terminals_pod_is_looked_for_by_its_session(world: World) -> None:
    world.add("one", "web")
    assert world.run(world.searching.pod("web", "s1")) == ("one", "web")
    assert world.asked == [("one", "web", "s1")]
    assert world.run(world.searching.pod("web", "s1")) == ("one", "web")
    assert len(world.asked) == 1
    world.run(world.searching.pod("web", "s2"))
    assert len(world.asked) == 2
    with pytest.raises(NoSuchGuid) as caught:
        world.run(world.searching.pod("db", "s1"))
    assert str(caught.value) == "this terminal is not there any more"
