"""Groups on a fleet in one process: agents over pretended Docker daemons."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.fakes.servers.fleet_world import FleetWorld
from tests.fakes.waiting import soon

from cotenant.drivers.nats.file_store import FileStore
from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.fleet.group import GroupGoal, GroupOutcome, GroupRecord
from cotenant.model.fleet.refusal import FleetForbidden, NobodyAnswers, NoSuchGuid
from cotenant.model.fleet.requests import (
    Describe,
    Down,
    Fence,
    Inspect,
    Inspected,
    List,
    Listed,
    Move,
    Moved,
    Restart,
    Up,
)
from cotenant.model.fleet.rights import FleetFile, FleetOperator, HostEntry
from cotenant.model.fleet.states import ContainerState
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate
from cotenant.services.fleet.controller.controller import FORGOTTEN_AFTER_S, FleetController
from cotenant.services.fleet.functions import containers
from cotenant.services.fleet.rpc import call, encode

ONE = GroupTemplate("one", (ContainerTemplate("web", "image"),))
SHOP = GroupTemplate(
    "shop",
    (ContainerTemplate("store", "image", environment={"A": "1"}), ContainerTemplate("web", "image", after=("store",))),
)


def played(
    scene: Callable[[FleetWorld], Awaitable[None]], folder: Path, *hosts: str, rights: FleetFile | None = None
) -> None:
    async def play() -> None:
        async with FleetWorld(folder, hosts or ("agent-a",), rights) as world:
            await scene(world)

    asyncio.run(play())


async def up(world: FleetWorld, template: GroupTemplate, key: str = "") -> GroupOutcome:
    outcome = await world.ask("up", Up(template), GroupOutcome, key=key)
    assert isinstance(outcome, GroupOutcome)
    return outcome


@pytest.mark.slow
def test_up_ps_restart_and_down(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        docker = world.dockers["agent-a"]
        outcome = await up(world, SHOP)
        assert set(outcome.guids) == {"store", "web"}
        assert docker.running() == {"store", "web"}
        made = docker.containers[outcome.guids["store"]]
        assert made["environment"]["COTENANT_GUID"] == outcome.guids["store"]
        assert (made["environment"]["A"], made["labels"]["cotenant.io/group"]) == ("1", "shop")
        assert (await up(world, SHOP)).guids == outcome.guids
        assert docker.starts == {"store": 1, "web": 1}

        async def listed() -> bool:
            answer = await world.ask("list", List("shop"), Listed)
            assert isinstance(answer, Listed)
            beat = answer.hosts[0].beat
            assert beat is not None
            return [container.state for container in beat.containers] == [ContainerState.READY] * 2

        await soon("both are listed as ready", listed)
        inspected = await world.ask("inspect", Inspect(outcome.guids["web"]), Inspected)
        assert isinstance(inspected, Inspected)
        assert inspected.facts["agent"] == "agent-a"
        again = await world.ask("restart", Restart("shop"), GroupOutcome)
        assert isinstance(again, GroupOutcome)
        assert again.guids == outcome.guids
        assert docker.starts == {"store": 2, "web": 2}
        gone = await world.ask("down", Down("shop"), GroupOutcome)
        assert isinstance(gone, GroupOutcome)
        assert (gone.left, docker.containers) == ((), {})
        assert set((await up(world, SHOP)).guids) == {"store", "web"}
        with pytest.raises(InvalidInput, match="other: expected a group of this fleet"):
            await world.ask("down", Down("other"), GroupOutcome)

    played(scene, tmp_path)


@pytest.mark.parametrize("what", ["create", "start", "health", "image"])
def test_one_that_fails_leaves_nothing_and_is_named(tmp_path: Path, what: str) -> None:
    async def scene(world: FleetWorld) -> None:
        docker = world.dockers["agent-a"]
        shop = SHOP
        if what == "health":
            docker.unhealthy.add("web")
        elif what == "image":
            shop = GroupTemplate("shop", (SHOP.containers[0], ContainerTemplate("web", "nowhere", after=("store",))))
        else:
            docker.fails.add((what, "web"))
        outcome = await up(world, shop)
        assert outcome.guids == {}
        assert outcome.left == ()
        assert "of web (" in outcome.reason
        assert what != "image" or "image nowhere: nowhere is not to be had" in outcome.reason
        assert docker.containers == {}
        docker.fails.clear()
        docker.unhealthy.clear()
        assert set((await up(world, SHOP)).guids) == {"store", "web"}

    played(scene, tmp_path)


@pytest.mark.slow
def test_a_list_that_was_older_than_its_event_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_REFRESH_S", 1e6)

    async def scene(world: FleetWorld) -> None:
        await up(world, ONE)
        await world.dockers["agent-a"].end("web", 3, is_listed_late=True)

        def details() -> list[str]:
            assert world.controller is not None
            return [status.detail for _, status in world.controller.registry.of_group("one").values()]

        await soon("its end is told", lambda: details() == ["ended with status 3"])

    played(scene, tmp_path)


def test_the_same_key_acts_once_also_at_the_same_time(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        first, second = await asyncio.gather(up(world, ONE, "key"), up(world, ONE, "key"))
        assert first == second == await up(world, ONE, "key")
        assert world.dockers["agent-a"].starts == {"web": 1}

    played(scene, tmp_path)


def test_a_failed_up_is_not_begun_again_by_the_same_key_at_another_controller(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        docker = world.dockers["agent-a"]
        docker.fails.add(("start", "web"))
        failed = await up(world, ONE, "key")
        await world.kill_controller()
        await world.start_controller()
        docker.fails.clear()
        assert (await up(world, ONE, "key")).reason == failed.reason
        assert docker.starts == {}

    played(scene, tmp_path)


def test_another_template_of_the_same_name_is_refused(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        await up(world, ONE)
        other = GroupTemplate("one", (ContainerTemplate("web", "image", command=("other",)),))
        with pytest.raises(InvalidInput, match="cotenant fleet down one first"):
            await up(world, other)

    played(scene, tmp_path)


def test_a_controller_that_dies_is_continued_by_the_next(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        docker = world.dockers["agent-a"]
        asked = asyncio.create_task(up(world, SHOP))
        await soon("the first runs", lambda: docker.starts["store"] == 1)
        await world.kill_controller()
        asked.cancel()
        controller = await world.start_controller()
        await soon("the group is up", lambda: [group.record.done for group in controller.stored.groups()] == [True])
        assert docker.running() == {"store", "web"}
        assert docker.starts == {"store": 1, "web": 1}
        assert len(docker.containers) == 2

    played(scene, tmp_path)


def test_down_over_an_up_undoes_it(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        docker = world.dockers["agent-a"]
        asked = asyncio.create_task(up(world, SHOP))
        await soon("the first runs", lambda: docker.starts["store"] == 1)
        gone = await world.ask("down", Down("shop"), GroupOutcome)
        assert isinstance(gone, GroupOutcome)
        assert (gone.left, docker.containers) == ((), {})
        assert (await asked).reason in ("asked to go down", "")  # "": all of it was ready before it was asked
        assert await listed(world) == []

    played(scene, tmp_path)


async def listed(world: FleetWorld) -> list[str]:
    found = await world.ask("list", List(), Listed)
    assert isinstance(found, Listed)
    return [group.name for group in found.groups]


def test_two_restarts_at_once_are_one(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        outcome = await up(world, SHOP)
        asked = [world.ask("restart", Restart("shop"), GroupOutcome, f"operator{k}") for k in range(2)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(answer) for answer in answers} == {GroupOutcome, Transient}
        assert world.dockers["agent-a"].starts == {"store": 2, "web": 2}
        assert world.dockers["agent-a"].running() == {"store", "web"}
        assert set(world.dockers["agent-a"].containers) == set(outcome.guids.values())

    played(scene, tmp_path)


def test_a_request_that_comes_again_late_acts_no_second_time(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        docker = world.dockers["agent-a"]
        await world.ask("up", Up(ONE), GroupOutcome, key="first")
        await world.ask("down", Down("one"), GroupOutcome, key="second")
        again = await world.ask("down", Down("one"), GroupOutcome, "other", key="second")
        assert isinstance(again, GroupOutcome)
        assert (dict(again.guids), again.left) == ({}, ())
        await world.ask("up", Up(ONE), GroupOutcome, "other", key="first")
        assert docker.containers == {}
        await world.ask("up", Up(ONE), GroupOutcome, key="third")
        await world.ask("down", Down("one"), GroupOutcome, "third", key="second")
        assert docker.running() == {"web"}
        assert docker.starts == {"web": 2}

    played(scene, tmp_path)


def test_what_was_removed_is_forgotten_after_a_while(tmp_path: Path) -> None:
    async def play() -> None:
        now_s = [0.0]
        store = FileStore(tmp_path / "store")
        controller = FleetController(MemoryBus(), store, now=lambda: now_s[0])
        await store.put("group.shop", encode(GroupRecord("shop", (), GroupGoal.GONE, 1, "", done=True, removed=True)))
        await store.put(
            "group.farm", encode(GroupRecord("farm", (), GroupGoal.GONE, 1, "", done=True, reason="failed"))
        )
        await controller.tick()
        now_s[0] = FORGOTTEN_AFTER_S - 0.1
        await controller.tick()
        assert sorted(store.names()) == ["group.farm", "group.shop"]
        now_s[0] = FORGOTTEN_AFTER_S
        await controller.tick()
        assert store.names() == ["group.farm"]
        store.close()

    asyncio.run(play())


class SlowStore(FileStore):
    """What was stored is seen by all before who stored it has the answer, as on a bus."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.may_answer = asyncio.Event()

    async def put(self, key: str, value: bytes, revision: int | None = None) -> int:
        written = await super().put(key, value, revision)
        await self.may_answer.wait()
        return written


def test_a_group_is_not_taken_over_from_whoever_begins_it(tmp_path: Path) -> None:
    async def play() -> None:
        (tmp_path / "store").mkdir()
        store = SlowStore(tmp_path / "store")
        async with FleetWorld(tmp_path, ("agent-a",), store=store) as world:
            controller = world.controller
            assert controller is not None
            asked = asyncio.create_task(up(world, SHOP))
            await soon("it is stored", lambda: store.names() == ["group.shop"])
            tick = asyncio.create_task(controller.tick())
            down = asyncio.create_task(world.ask("down", Down("shop"), GroupOutcome))
            for _ in range(20):
                await asyncio.sleep(0)
            store.may_answer.set()
            await tick
            gone, outcome = await down, await asked
            assert isinstance(gone, GroupOutcome)
            assert (gone.left, outcome.reason) == ((), "asked to go down")
            assert world.dockers["agent-a"].containers == {}
            assert await listed(world) == []
        store.close()

    asyncio.run(play())


def test_a_container_that_cannot_be_stopped_is_left_named_and_goes_later(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        docker = world.dockers["agent-a"]
        outcome = await up(world, SHOP)
        docker.fails.add(("stop", "web"))
        gone = await world.ask("down", Down("shop"), GroupOutcome)
        assert isinstance(gone, GroupOutcome)
        assert [line.partition(" on ")[0] for line in gone.left] == [outcome.guids["web"]]
        assert "stop is broken" in gone.left[0]
        docker.fails.clear()
        again = await world.ask("down", Down("shop"), GroupOutcome)
        assert isinstance(again, GroupOutcome)
        assert (again.left, docker.containers, await listed(world)) == ((), {}, [])

    played(scene, tmp_path)


@pytest.mark.slow
def test_an_agent_that_dies_is_waited_for(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        docker = world.dockers["agent-a"]
        asked = asyncio.create_task(up(world, SHOP))
        await soon("the first runs", lambda: docker.starts["store"] == 1)
        await world.kill_agent("agent-a")
        await world.start_agent("agent-a")
        outcome = await asked
        assert set(outcome.guids) == {"store", "web"}, outcome.reason
        assert docker.starts == {"store": 1, "web": 1}
        assert len(docker.containers) == 2

    played(scene, tmp_path)


def test_a_group_whose_record_is_lost_is_removed_by_its_labels(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        await up(world, SHOP)
        await world.store.delete("group.shop")
        assert world.controller is not None
        await soon("heartbeats tell of it", lambda: len(world.controller.registry.of_group("shop")) == 2)
        with pytest.raises(InvalidInput, match="run; down removes them"):
            await up(world, SHOP)
        with pytest.raises(Permanent, match="known by its containers' labels only"):
            await world.ask("restart", Restart("shop"), GroupOutcome)
        await world.ask("down", Down("shop"), GroupOutcome)
        assert world.dockers["agent-a"].containers == {}

    played(scene, tmp_path)


def test_a_controller_that_was_replaced_is_refused_by_agents(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        outcome = await up(world, ONE)
        old = Move(Fence("one", 1), outcome.guids["web"])
        with pytest.raises(Permanent, match="belongs to a later controller"):
            await call(world.bus, "guid.agent-a.rpc.stop", old, Moved, 60.0)
        await world.kill_agent("agent-a")
        await world.start_agent("agent-a")
        with pytest.raises(Permanent, match="belongs to a later controller"):
            await call(world.bus, "guid.agent-a.rpc.stop", old, Moved, 60.0)
        assert world.dockers["agent-a"].running() == {"web"}

    played(scene, tmp_path)


def test_who_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    async def scene(world: FleetWorld) -> None:
        with pytest.raises(NobodyAnswers, match="nobody answers for agent-z"):
            await call(world.bus, "guid.agent-z.rpc.describe", Describe(), object, 60.0)
        with pytest.raises(NoSuchGuid, match="web-00000000"):
            await world.ask("inspect", Inspect("web-00000000"), Inspected)
        with pytest.raises(InvalidInput, match=r"start: .*fence"):
            await call(world.bus, "guid.agent-a.rpc.start", {"guid": "x"}, Moved, 60.0)

    played(scene, tmp_path)


def test_operators_have_the_verbs_and_hosts_of_the_fleets_file(tmp_path: Path) -> None:
    rights = FleetFile(
        (HostEntry("agent-a", ("edge",)),),
        (FleetOperator("bob", ("list", "up"), ("lab",)), FleetOperator("alice", ("*",))),
    )

    async def scene(world: FleetWorld) -> None:
        listed = await world.ask("list", List(), Listed, "bob")
        assert isinstance(listed, Listed)
        assert listed.hosts == ()
        with pytest.raises((Permanent, Transient), match="no host of this fleet is alive and may be used"):
            await world.ask("up", Up(ONE), GroupOutcome, "bob")
        await world.ask("up", Up(ONE), GroupOutcome, "alice")
        with pytest.raises(FleetForbidden, match="bob may not down"):
            await world.ask("down", Down("one"), GroupOutcome, "bob")
        with pytest.raises(FleetForbidden, match="carol is no operator"):
            await world.ask("list", List(), Listed, "carol")

    played(scene, tmp_path, rights=rights)
