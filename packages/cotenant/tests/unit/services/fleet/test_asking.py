"""What operators ask of a controller about groups, with agents that do at once what they are told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fakes.cluster.fleet_agents import WALL_S, AskedFleet, played

from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.fleet.group import ContainerStep, GroupGoal, GroupOutcome, GroupRecord, PlannedContainer
from cotenant.model.fleet.refusal import FleetForbidden, NoSuchGuid
from cotenant.model.fleet.requests import Down, Inspect, Inspected, List, Listed, Restart, Up
from cotenant.model.fleet.rights import FleetFile, FleetOperator, HostEntry
from cotenant.model.fleet.states import AgentState
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate

SHOP = GroupTemplate(
    "shop", (ContainerTemplate("db", "repo/db:1"), ContainerTemplate("web", "repo/web:1", after=("db",)))
)
OTHER = GroupTemplate("shop", (ContainerTemplate("db", "repo/db:2"),))
UP = ["reserve db", "reserve web", "create db", "create web", "start db", "probe db", "start web", "probe web"]
DOWN = ["stop web", "stop db", "remove web", "remove db"]


def told(fleet: AskedFleet) -> list[str]:
    return [act.partition(" ")[2] for act in fleet.acts()]


async def brought_up(fleet: AskedFleet, key: str = "") -> GroupOutcome:
    outcome = await fleet.outcome("up", Up(SHOP), key)
    assert set(outcome.guids) == {"db", "web"}
    return outcome


def test_a_group_is_made_in_its_order_and_the_record_says_where(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        outcome = await brought_up(fleet, "k1")
        assert (outcome.reason, outcome.left) == ("", ())
        assert sorted(told(fleet)[:4]) == sorted(UP[:4])
        record = fleet.record("shop")
        assert (record.goal, record.done, record.keys, record.owner) == ("up", True, ("k1",), fleet.controller.id)
        assert {container.template.appkey: container.guid for container in record.containers} == outcome.guids
        assert {container.agent for container in record.containers} == {"a"}
        assert outcome.guids["db"].startswith("db-")
        assert record.epoch == int((WALL_S + fleet.now_s) * 1000)
        assert record.digest

    played(tmp_path, scene)


def test_asked_again_the_same_is_there_and_another_template_is_refused(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        first = await brought_up(fleet, "k1")
        fleet.acts()
        for key in ("k1", "k2", ""):
            assert (await fleet.outcome("up", Up(SHOP), key)).guids == first.guids
        with pytest.raises(InvalidInput, match="a group that is not up; cotenant fleet down shop first"):
            await fleet.outcome("up", Up(OTHER), "k3")
        assert fleet.acts() == []

    played(tmp_path, scene)


def test_a_group_goes_in_the_other_order_and_its_name_is_free_again(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        before = await brought_up(fleet)
        epoch = fleet.record("shop").epoch
        fleet.acts()
        gone = await fleet.outcome("down", Down("shop"), "k1")
        assert (gone.guids, gone.reason, gone.left) == ({}, "asked to go down", ())
        acts = told(fleet)
        assert sorted(acts) == sorted(DOWN)
        assert acts.index("stop web") < acts.index("stop db")
        record = fleet.record("shop")
        assert (record.goal, record.done, record.removed, record.is_forgotten) == ("gone", True, True, True)
        assert (await fleet.outcome("down", Down("shop"), "k1")).reason == "asked to go down"  # asked again
        with pytest.raises(InvalidInput, match="a group of this fleet"):
            await fleet.outcome("down", Down("shop"), "k2")
        assert fleet.acts() == []
        after = await brought_up(fleet, "k3")
        assert set(after.guids.values()).isdisjoint(before.guids.values())
        assert fleet.record("shop").epoch > epoch + 1
        assert fleet.record("shop").keys == ("k1", "k3")

    played(tmp_path, scene)


def test_a_restart_removes_and_makes_the_same_containers(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        before = await brought_up(fleet)
        fleet.acts()
        after = await fleet.outcome("restart", Restart("shop"), "k1")
        assert after.guids == before.guids
        acts = told(fleet)
        assert (sorted(acts[:4]), sorted(acts[4:])) == (sorted(DOWN), sorted(UP))
        assert (await fleet.outcome("restart", Restart("shop"), "k1")).guids == before.guids  # asked again
        assert fleet.acts() == []

    played(tmp_path, scene)


def test_only_a_group_that_is_up_is_restarted(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        with pytest.raises(InvalidInput, match="cotenant fleet ps lists them"):
            await fleet.outcome("restart", Restart("shop"))
        fleet.agents["a"].faults["create"] = Permanent("no such image")
        failed = await fleet.outcome("up", Up(SHOP))
        assert failed.guids == {}
        assert failed.reason.startswith("create of ")
        assert failed.reason.endswith(" on a: no such image")
        assert failed.left == ()  # neither could be made, so both are back where they began
        with pytest.raises(InvalidInput, match="a group that is up"):
            await fleet.outcome("restart", Restart("shop"))

    played(tmp_path, scene)


def test_a_group_on_its_way_is_neither_restarted_nor_brought_up_by_a_second_request(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a").slow["probe"] = 3.0
        first = asyncio.create_task(fleet.outcome("up", Up(SHOP), "k1"))
        await asyncio.sleep(1.0)
        with pytest.raises(Transient, match="group shop is under way: up"):
            await fleet.outcome("restart", Restart("shop"))
        second = await fleet.outcome("up", Up(SHOP), "k2")
        assert second.guids == (await first).guids
        assert sorted(told(fleet)) == sorted(UP)

    played(tmp_path, scene)


def test_a_group_that_comes_up_can_be_taken_down_at_any_moment(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a").slow["probe"] = 30.0
        first = asyncio.create_task(fleet.outcome("up", Up(SHOP), "k1"))
        await asyncio.sleep(1.0)
        gone = await fleet.outcome("down", Down("shop"), "k2")
        assert (gone.reason, gone.left) == ("asked to go down", ())
        assert (await first).reason == "asked to go down"
        assert fleet.record("shop").keys == ("k1", "k2")
        assert set(fleet.agents["a"].steps.values()) == {ContainerStep.ABSENT}

    played(tmp_path, scene)


def test_a_group_that_is_being_removed_does_not_come_up_until_it_is_gone(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        await brought_up(fleet)
        fleet.agents["a"].slow["stop"] = 5.0
        gone = asyncio.create_task(fleet.outcome("down", Down("shop"), "k1"))
        await asyncio.sleep(1.0)
        with pytest.raises(Transient, match="group shop is being removed: asked to go down"):
            await fleet.outcome("up", Up(SHOP), "k2")
        await gone
        await brought_up(fleet, "k2")

    played(tmp_path, scene)


def test_what_cannot_be_undone_is_named_and_tried_again(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        agent = fleet.add("a")
        before = await brought_up(fleet)
        agent.faults["remove"] = Permanent("the disk is full")
        left = await fleet.outcome("down", Down("shop"))
        assert left.reason == "asked to go down"
        assert sorted(left.left) == sorted(
            f"{guid} on a: remove: the disk is full" for guid in (before.guids["db"], before.guids["web"])
        )
        assert not fleet.record("shop").done
        del agent.faults["remove"]
        await asyncio.sleep(6.0)
        assert fleet.record("shop").done
        assert set(agent.steps.values()) == {ContainerStep.ABSENT}

    played(tmp_path, scene)


def test_containers_of_a_group_without_a_record_are_in_the_way_until_they_are_removed(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        agent = fleet.add("a")
        agent.steps["web-1"] = ContainerStep.READY
        agent.epochs["shop"] = 10**15  # of a controller whose clock was ahead
        fleet.beat("a", "shop", "web-1")
        with pytest.raises(InvalidInput, match="a group that is not up; web-1 run; down removes them"):
            await fleet.outcome("up", Up(SHOP))
        with pytest.raises(Permanent, match="known by its containers' labels only"):
            await fleet.outcome("restart", Restart("shop"))
        gone = await fleet.outcome("down", Down("shop"))
        assert (gone.reason, gone.left) == ("asked to go down", ())
        assert fleet.acts() == ["a stop web-1", "a remove web-1"]
        await brought_up(fleet)  # the heartbeat still names it; its agent says that it is gone
        assert fleet.record("shop").epoch > 10**15

    played(tmp_path, scene)


def test_an_agent_that_is_away_is_asked_for_a_while_and_then_the_group_is_undone(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        agent = fleet.add("a")
        agent.faults["start"] = Transient("too busy")
        began_s = fleet.now_s
        outcome = await fleet.outcome("up", Up(SHOP))
        assert outcome.reason.startswith("start of db ")
        assert outcome.reason.endswith(" on a: too busy")
        assert 10.0 <= fleet.now_s - began_s < 12.0
        assert set(agent.steps.values()) == {ContainerStep.ABSENT}

    played(tmp_path, scene)


def test_a_group_that_another_controller_took_is_followed_in_the_store(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        stored = fleet.controller.stored
        containers = (PlannedContainer("db-1", "a", SHOP.containers[0]),)
        record = GroupRecord("shop", containers, GroupGoal.UP, 5, "another", keys=("k1",))
        revision = await stored.put_group(record, 0)
        asked = asyncio.create_task(fleet.outcome("up", Up(SHOP), "k1"))
        await asyncio.sleep(1.0)
        assert not asked.done()
        done = GroupRecord("shop", containers, GroupGoal.UP, 5, "another", keys=("k1",), done=True)
        revision = await stored.put_group(done, revision)
        assert (await asked).guids == {"db": "db-1"}
        gone = GroupRecord("shop", containers, GroupGoal.GONE, 5, "another", keys=("k1",), done=True, reason="failed")
        revision = await stored.put_group(gone, revision)
        again = await fleet.ask("up", Up(SHOP), GroupOutcome, "bob", "k1")  # of him no answer is remembered
        assert again == GroupOutcome("shop", {}, "failed")
        waiting = GroupRecord("shop", containers, GroupGoal.GONE, 6, "another", keys=("k9",))
        revision = await stored.put_group(waiting, revision)
        asked = asyncio.create_task(fleet.outcome("down", Down("shop"), "k9"))
        await asyncio.sleep(1.0)
        found = stored.group("shop")
        assert found is not None
        await stored.forget_group(found)
        assert await asked == GroupOutcome("shop", {}, "it was removed")
        assert fleet.acts() == []

    played(tmp_path, scene)


# ---- what is there


RIGHTS = FleetFile(
    (HostEntry("a", ("red",)), HostEntry("b", ("blue",))),
    (FleetOperator("ada"), FleetOperator("red", ("list", "inspect", "up", "down"), ("red",)), FleetOperator("no", ())),
)


async def listed(fleet: AskedFleet, operator: str = "ada", **fields: object) -> Listed:
    return await fleet.ask("list", List(**fields), Listed, operator)  # type: ignore[arg-type]


def test_hosts_come_by_guid_as_far_as_the_asker_may_see_them(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        for guid in ("b", "a"):
            fleet.add(guid, f"tag-{guid}")
        fleet.beat("a", "shop", "web-1")
        await asyncio.sleep(2.0)
        fleet.controller.registry.leave("b")
        both = await listed(fleet)
        assert [(row.registration.guid, row.state, row.silent_s) for row in both.hosts] == [
            ("a", AgentState.ALIVE, 2.0),
            ("b", AgentState.AWAY, 2.0),
        ]
        assert both.next_start is None
        assert [row.registration.guid for row in (await listed(fleet, "red")).hosts] == ["a"]
        assert [row.registration.guid for row in (await listed(fleet, tags=("tag-b",))).hosts] == ["b"]
        assert [row.registration.guid for row in (await listed(fleet, start=1)).hosts] == ["b"]
        beat = both.hosts[0].beat
        assert beat is not None
        assert [container.guid for container in beat.containers] == ["web-1"]
        other = (await listed(fleet, group="other")).hosts[0].beat
        assert other is not None
        assert other.containers == ()
        with pytest.raises(FleetForbidden):
            await listed(fleet, "no")

    played(tmp_path, scene, RIGHTS)


def test_many_hosts_come_in_pages_that_say_where_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cotenant.services.fleet.controller import asking

    monkeypatch.setattr(asking, "_PAGE_BYTES", 1)

    async def scene(fleet: AskedFleet) -> None:
        for guid in ("c", "a", "b"):
            fleet.add(guid)
        found, start = [], 0
        while start is not None:
            page = await listed(fleet, start=start)
            (row,) = page.hosts  # one is given even where it is too large
            found.append(row.registration.guid)
            start = page.next_start  # type: ignore[assignment]
        assert found == ["a", "b", "c"]

    played(tmp_path, scene)


def test_groups_are_listed_until_they_were_removed_and_members_where_one_is_asked_for(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        guids = (await brought_up(fleet)).guids
        (row,) = (await listed(fleet)).groups
        assert (row.name, row.goal, row.done, row.reason, row.containers, row.members) == (
            "shop",
            "up",
            True,
            "",
            2,
            (),
        )
        (row,) = (await listed(fleet, group="shop")).groups
        assert [(m.guid, m.agent, m.appkey, m.image) for m in row.members] == [
            (guids["db"], "a", "db", "repo/db:1"),
            (guids["web"], "a", "web", "repo/web:1"),
        ]
        assert (await listed(fleet, group="other")).groups == ()
        await fleet.outcome("down", Down("shop"))
        assert (await listed(fleet)).groups == ()

    played(tmp_path, scene)


def test_a_container_is_inspected_by_its_agent_or_by_what_was_heard_of_it(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        agent = fleet.add("a")
        fleet.beat("a", "shop", "web-1")

        async def facts(guid: str, operator: str = "ada") -> Inspected:
            return await fleet.ask("inspect", Inspect(guid), Inspected, operator)

        place = {"agent": "a", "host": "host-a", "agent is": "alive"}
        found = await facts("web-1")
        assert found.facts == {**place, "asked about": "web-1"}
        assert found.status is not None
        assert found.status.guid == "web-1"
        itself = await facts("a")
        assert (itself.status, itself.facts) == (None, {**place, "asked about": "the agent itself"})
        with pytest.raises(NoSuchGuid):
            await facts("nothing")
        await agent.close()
        silent = await facts("web-1")
        assert silent.status == found.status
        assert silent.facts == {**place, "answer": "none: its agent is not there"}

    played(tmp_path, scene)


def test_who_may_not_act_on_a_host_gets_no_group_there(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        fleet.add("a")
        fleet.add("b")
        outcome = await fleet.ask("up", Up(SHOP), GroupOutcome, "red")
        assert {container.agent for container in fleet.record("shop").containers} == {"a"}
        assert outcome.guids
        for verb, request in (("up", Up(SHOP)), ("down", Down("shop")), ("restart", Restart("shop"))):
            with pytest.raises(FleetForbidden):
                await fleet.ask(verb, request, GroupOutcome, "no")
        with pytest.raises(FleetForbidden):
            await fleet.ask("inspect", Inspect("b"), Inspected, "red")

    played(tmp_path, scene, RIGHTS)


def test_an_agent_that_saw_a_higher_epoch_is_outbid_where_the_record_is_ours(tmp_path: Path) -> None:
    async def scene(fleet: AskedFleet) -> None:
        agent = fleet.add("a")
        agent.epochs["shop"] = 10**15
        outcome = await fleet.outcome("up", Up(SHOP))
        assert set(outcome.guids) == {"db", "web"}
        assert fleet.record("shop").epoch == 10**15 + 1

    played(tmp_path, scene)
