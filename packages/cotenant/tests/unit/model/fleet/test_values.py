"""Guids, durations, limits, rights and configurations."""

from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.fleet.configuration import USUAL_FUNCTIONS, AgentConfiguration, merged, refusals
from cotenant.model.fleet.durations import duration_s
from cotenant.model.fleet.identity import agent_guid, check_guid, container_guid
from cotenant.model.fleet.limits import shown_limit, wanted_limits
from cotenant.model.fleet.refusal import Fenced, FleetForbidden, NoSuchGuid, Overdue, error_of, refusal_of
from cotenant.model.fleet.rights import FleetFile, FleetOperator, HostEntry
from cotenant.model.machine.knob import Knob


def test_an_agents_guid_is_stable_and_does_not_show_the_machine_id() -> None:
    assert agent_guid("0123456789abcdef\n") == agent_guid("0123456789abcdef")
    assert "0123" not in agent_guid("0123456789abcdef")
    with pytest.raises(InvalidInput, match="machine id"):
        agent_guid("\n")


@pytest.mark.parametrize(
    ("image", "guid"),
    [
        ("nginx", "nginx-00010203"),
        ("registry:5000/team/Web_App:1.2", "web-app-00010203"),
        ("a/b@sha256:0f", "b-00010203"),
        ("...", "container-00010203"),
    ],
)
def test_a_containers_guid_has_its_images_name(image: str, guid: str) -> None:
    assert container_guid(image, bytes(range(4))) == guid
    assert check_guid("guid", guid) == guid


@pytest.mark.parametrize("guid", ["", "a.b", "a b", "*", "A", "x" * 81, "-a"])
def test_what_cannot_be_a_token_is_no_guid(guid: str) -> None:
    with pytest.raises(InvalidInput, match="guid"):
        check_guid("guid", guid)


@pytest.mark.parametrize(("text", "seconds"), [("10m", 600), ("1h30m", 5400), ("1.5s", 1.5), ("500ms", 0.5), (3, 3)])
def test_durations(text: str, seconds: float) -> None:
    assert duration_s("--for", text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "10", "m", "10x", "-3s"])
def test_wrong_durations(text: str) -> None:
    with pytest.raises(InvalidInput, match="--for"):
        duration_s("--for", text)


def test_limits_become_knobs() -> None:
    found = wanted_limits({"cpu": "2", "memory": "512Mi", "cpus": ""})
    wanted, given_back = found.values, found.given_back
    assert wanted == {Knob.CPU_MAX: "200000 100000", Knob.MEMORY_MAX: str(512 << 20)}
    assert given_back == (Knob.CPUSET_CPUS,)
    assert [shown_limit(knob, value) for knob, value in wanted.items()] == ["cpu=2", "memory=512Mi"]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({}, "limits"),
        ({"disk": "1"}, "disk"),
        ({"cpu": "x"}, "cpu"),
        ({"cpu": "1m"}, "10m CPU"),
        ({"memory": "1k"}, "1Mi"),
        ({"cpus": "a"}, "cpus"),
    ],
)
def test_wrong_limits_are_named(limits: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        wanted_limits(limits)


def test_errors_survive_the_bus() -> None:
    for error in (
        InvalidInput("cpu", "x", "a number", "hint"),
        NoSuchGuid("none"),
        FleetForbidden("no"),
        Fenced("later", 7),
        Overdue("late"),
        Transient("again"),
        Unsupported("limits", "a keeper"),
        Permanent("broken"),
    ):
        again = error_of(refusal_of(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert getattr(again, "epoch", 0) == getattr(error, "epoch", 0)


RIGHTS = FleetFile(
    (HostEntry("agent-a", ("edge",)), HostEntry("agent-b", ("lab",))),
    (FleetOperator("alice", ("*",)), FleetOperator("bob", ("list", "up"), ("edge",))),
)


def test_rights_are_by_verb_and_tag() -> None:
    RIGHTS.check("alice", "down", ["agent-a", "agent-b"])
    RIGHTS.check("bob", "up", ["agent-a"])
    for name, verb, agent, said in (
        ("carol", "list", "agent-a", "carol is no operator"),
        ("bob", "down", "agent-a", "bob may not down; granted are list, up"),
        ("bob", "up", "agent-b", "bob may not up on agent-b: it has none of the tags edge"),
        ("bob", "up", "agent-unknown", "bob may not up on agent-unknown"),
    ):
        with pytest.raises(FleetForbidden, match=said):
            RIGHTS.check(name, verb, [agent])


def test_a_fleet_file_names_each_once_and_knows_its_verbs() -> None:
    with pytest.raises(InvalidInput, match=r"hosts\.guid"):
        FleetFile((HostEntry("agent-a"), HostEntry("agent-a")))
    with pytest.raises(InvalidInput, match=r"operators\.bob\.verbs"):
        FleetOperator("bob", ("destroy",))


def test_a_local_file_wins_where_it_says_something() -> None:
    remote = AgentConfiguration(("containers",), heartbeat_s=2.0, environment={"A": "1"})
    local = AgentConfiguration(heartbeat_s=0.5)
    assert merged(remote, local, ("heartbeat_s",)) == AgentConfiguration(("containers",), 0.5, {"A": "1"})


def test_what_needs_a_restart_is_refused_with_its_reason() -> None:
    now = AgentConfiguration()
    assert refusals(now, AgentConfiguration(("figures",), 2.0)) == ()
    (reason,) = refusals(now, AgentConfiguration(keeper="/run/other.sock"))
    assert reason.startswith("keeper: ")
    with pytest.raises(InvalidInput, match="functions: telepathy"):
        AgentConfiguration(("telepathy",))
    with pytest.raises(InvalidInput, match="heartbeat_s"):
        AgentConfiguration(heartbeat_s=0.0)


def test_an_address_is_changed_only_while_nothing_listens_there() -> None:
    off, on = AgentConfiguration(), AgentConfiguration((*USUAL_FUNCTIONS, "exporter"), exporter=":1")
    assert refusals(off, on) == ()
    assert refusals(on, AgentConfiguration(exporter=":2")) == ()
    moved = AgentConfiguration((*USUAL_FUNCTIONS, "exporter"), exporter=":2")
    assert refusals(on, moved) == ("exporter: the function exporter listens there; switch it off first",)
