"""Which hosts may be used for a group now, and what is said where none may."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.fleet.registry import RegisteredHost
from cotenant.model.errors import Permanent, Transient
from cotenant.model.fleet.host import FunctionHealth, Heartbeat, Registration
from cotenant.model.fleet.states import AgentState
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate, Mount
from cotenant.services.fleet.controller.hosts import placed_on

WEB = ContainerTemplate("web", "image", cpu_milli=1000)


def host(guid: str, state: AgentState = AgentState.ALIVE, function: FunctionHealth | None = None) -> RegisteredHost:
    functions = (FunctionHealth("limits", False, "broken"), *((function,) if function is not None else ()))
    registration = Registration(guid, f"host-{guid}", "1", cpu_milli=2000, memory_bytes=1 << 30)
    return RegisteredHost(registration, 0.0, state, Heartbeat(guid, 1, 1.0, functions=functions))


def placed(*hosts: RegisteredHost, young: bool = False, alone: bool = False, web: ContainerTemplate = WEB) -> str:
    return placed_on(GroupTemplate("shop", (web,)), hosts, is_young=young, is_alone=alone)["web"]


SUSPECT, AWAY = AgentState.SUSPECT, AgentState.AWAY
STARTING = FunctionHealth("containers", True, "not yet", is_starting=True)
OFF = FunctionHealth("containers", False)
BROKEN = FunctionHealth("containers", True, "Docker is away")
WORKS = FunctionHealth("containers", True)


def test_hosts_that_cannot_run_containers_now_are_left_out() -> None:
    unfit = (
        host("a", AWAY),
        host("b", SUSPECT),
        host("c", function=STARTING),
        host("d", function=BROKEN),
        host("e", function=OFF),
    )
    assert placed(*unfit, host("f", function=WORKS)) == "f"
    assert placed(*unfit, host("g")) == "g"  # of its functions nothing is said
    assert placed(*unfit, replace(host("h"), beat=None)) == "h"


@pytest.mark.parametrize(
    ("hosts", "kind", "said"),
    [
        (
            [host("a", function=STARTING), host("b", function=BROKEN)],
            Transient,
            "no host can run containers yet; starting: a",
        ),
        (
            [host("a", function=BROKEN), host("b", function=OFF), host("c", SUSPECT)],
            Permanent,
            "no host can run containers now: a: Docker is away; b: its configuration switches containers off",
        ),
        ([host("a", SUSPECT)], Transient, "no host is alive just now; heartbeats are missed of a"),
        ([host("a", AWAY)], Permanent, "no host of this fleet is alive and may be used"),
        ([host(name, function=STARTING) for name in "abcd"], Transient, "starting: a, b, c"),
    ],
)
def test_where_none_may_be_used_it_is_said_why(hosts: list[RegisteredHost], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as refused:
        placed(*hosts)
    assert type(refused.value) is kind
    assert said in str(refused.value)


def test_what_does_not_fit_may_do_so_while_hosts_are_still_heard() -> None:
    large = replace(WEB, host_tags=("ssd",))
    with pytest.raises(Permanent):
        placed(host("a"), web=large)
    with pytest.raises(Transient, match="among those heard since this controller began a moment ago"):
        placed(host("a"), web=large, young=True)
    assert placed(host("a"), young=True) == "a"


def test_which_host_has_a_volume_is_not_said_before_all_were_heard() -> None:
    volume = replace(WEB, mounts=(Mount("data", "/data", is_volume=True),))
    with pytest.raises(Transient, match="this controller has just begun"):
        placed(host("a"), web=volume, young=True)
    folder = replace(WEB, mounts=(Mount("/srv", "/data"),))
    assert placed(host("a"), web=folder, young=True) == "a"
