"""Who is in the fleet, by heartbeats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.fleet.registry import AgentChange, HostRegistry
from cotenant.model.errors import Permanent
from cotenant.model.fleet.host import Heartbeat, HostContainer, Registration
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.model.fleet.states import AgentState, ContainerState

READY, UNKNOWN = ContainerState.READY, ContainerState.UNKNOWN


def registration(guid: str = "agent-a", **given: object) -> Registration:
    return replace(Registration(guid, f"host-{guid}", "1"), **given)  # type: ignore[arg-type]


def beat(number: int, *containers: HostContainer, guid: str = "agent-a", started_s: float = 5.0) -> Heartbeat:
    return Heartbeat(guid, number, started_s, containers=containers)


def registered(*guids: str) -> HostRegistry:
    registry = HostRegistry()
    for guid in guids or ("agent-a",):
        registry.register(registration(guid), 0.0)
    return registry


def test_silence_makes_suspect_then_away_and_a_heartbeat_alive() -> None:
    registry = registered()
    registry.beat(beat(1, HostContainer("web-1", READY)), 0.0)
    assert registry.tick(2.9) == ()
    assert registry.tick(3.0) == (AgentChange("agent-a", AgentState.ALIVE, AgentState.SUSPECT),)
    assert registry.status("web-1") == HostContainer("web-1", READY)
    assert registry.tick(10.0) == (AgentChange("agent-a", AgentState.SUSPECT, AgentState.AWAY),)
    status = registry.status("web-1")
    assert status is not None
    assert status.state is UNKNOWN
    registry.beat(beat(2, HostContainer("web-1", READY)), 11.0)
    assert registry.host("agent-a").state is AgentState.ALIVE
    assert registry.status("web-1") == HostContainer("web-1", READY)


def test_missed_heartbeats_count_by_the_agents_own_pace() -> None:
    registry = registered()
    registry.beat(replace(beat(1), every_s=5.0), 0.0)
    assert registry.tick(14.0) == ()
    assert registry.tick(15.0) != ()


def test_an_unknown_agent_is_to_be_asked_and_an_unknown_guid_is_refused_at_once() -> None:
    registry = HostRegistry()
    assert not registry.beat(beat(1), 0.0)
    with pytest.raises(NoSuchGuid, match="nothing in this fleet has the guid web-1"):
        registry.agent_for("web-1")


def test_a_container_is_found_while_its_agent_reports_it() -> None:
    registry = registered()
    registry.beat(beat(1, HostContainer("web-1", READY, group="shop")), 0.0)
    assert registry.agent_for("web-1") == "agent-a"
    assert registry.of_group("shop") == {"web-1": ("agent-a", HostContainer("web-1", READY, group="shop"))}
    registry.beat(beat(2), 1.0)
    with pytest.raises(NoSuchGuid):
        registry.agent_for("web-1")


def test_a_late_heartbeat_changes_nothing_and_a_restarted_agent_counts_anew() -> None:
    registry = registered()
    registry.beat(beat(7, HostContainer("web-1", READY)), 0.0)
    registry.beat(beat(6), 1.0)
    assert registry.agent_for("web-1") == "agent-a"
    assert registry.counts["late heartbeats"] == 1
    registry.beat(beat(1, started_s=6.0), 2.0)
    assert registry.status("agent-a") is None
    with pytest.raises(NoSuchGuid):
        registry.agent_for("web-1")


def test_hosts_are_selected_by_tags_namespace_and_name() -> None:
    registry = HostRegistry()
    registry.register(registration("agent-a", tags=("edge", "gpu")), 0.0)
    registry.register(registration("agent-b", tags=("edge",), namespace="lab"), 0.0)
    names = [host.registration.guid for host in registry.select(tags=["edge"])]
    assert names == ["agent-a", "agent-b"]
    assert [host.registration.guid for host in registry.select(tags=["edge", "gpu"])] == ["agent-a"]
    assert [host.registration.guid for host in registry.select(namespace="lab")] == ["agent-b"]
    assert [host.registration.guid for host in registry.select(name="host-agent-a")] == ["agent-a"]
    registry.register(registration("agent-a", tags=()), 1.0)
    assert registry.select(tags=["gpu"]) == []


def test_who_leaves_is_away_at_once_and_is_forgotten_after_a_day_without_containers() -> None:
    registry = registered("agent-a", "agent-b")
    registry.beat(beat(1, HostContainer("web-1", READY), guid="agent-b"), 0.0)
    registry.leave("agent-a")
    assert registry.host("agent-a").state is AgentState.AWAY
    registry.tick(90_000.0)
    assert [host.registration.guid for host in registry.hosts()] == ["agent-b"]


def test_the_number_of_agents_is_bounded() -> None:
    registry = HostRegistry(max_agents=1)
    registry.register(registration("agent-a"), 0.0)
    registry.register(registration("agent-a"), 1.0)
    with pytest.raises(Permanent, match="knows 1 agents"):
        registry.register(registration("agent-b"), 1.0)


def test_a_change_that_is_not_legal_is_counted() -> None:
    registry = registered()
    registry.beat(beat(1, HostContainer("web-1", ContainerState.STOPPING)), 0.0)
    registry.beat(beat(2, HostContainer("web-1", READY)), 1.0)
    assert registry.counts["illegal changes"] == 1


def test_two_agents_under_one_guid_are_seen() -> None:
    registry = registered()
    registry.beat(beat(100, started_s=5.0), 0.0)
    registry.beat(beat(1, started_s=6.0), 1.0)
    registry.beat(beat(101, started_s=5.0), 1.5)
    assert not registry.host("agent-a").is_doubled, "the last words of the process before"
    registry.beat(beat(19, started_s=6.0), 19.0)
    registry.beat(beat(120, started_s=5.0), 20.0)
    assert registry.host("agent-a").is_doubled
    registry.beat(beat(1, started_s=30.0), 30.0)
    assert not registry.host("agent-a").is_doubled


def test_a_host_whose_clock_went_back_is_heard_again() -> None:
    registry = registered()
    registry.beat(beat(50, HostContainer("web-1", READY), started_s=1000.0), 0.0)
    registry.beat(beat(1, started_s=7.0), 2.0)
    assert registry.status("web-1") is not None, "the later start may still be there"
    registry.beat(beat(2, started_s=7.0), 3.0)
    registry.beat(beat(3, started_s=7.0), 4.0)
    found = registry.host("agent-a")
    assert (found.beat, found.is_doubled, found.heard_s) == (beat(3, started_s=7.0), False, 4.0)
    with pytest.raises(NoSuchGuid):
        registry.agent_for("web-1")
