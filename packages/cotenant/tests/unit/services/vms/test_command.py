"""A verb is told once, and its machine watched until it has come about, has failed, or the time is over."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from cotenant.model.errors import CotenantError, InvalidInput, Permanent
from cotenant.model.vms.machine import Machine, MachineSize, MachineState, MachineVerb
from cotenant.services.vms.command import MachineLocation, change, connected

SIZE = MachineSize(2, 2048, "m1.small")
RUNNING = Machine("ns", "vm", "u", MachineState.RUNNING, SIZE, node="n1", incarnation="1")
STOPPED = replace(RUNNING, state=MachineState.STOPPED, node="", incarnation="")
STARTING = replace(STOPPED, state=MachineState.STARTING)
NOTHING = MachineSize()


class GivenPlatform:
    """Shows a machine as it is at one look after the other, the last again and again."""

    def __init__(self, *looks: Machine, failures: tuple[str, ...] = ()) -> None:
        self.looks, self.failures = list(looks), list(failures)
        self.told: list[tuple[MachineVerb, Machine, MachineSize]] = []
        self.confirmed: list[Machine] = []

    async def machine(self, name: str) -> Machine:
        assert name == "vm"
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    async def tell(self, verb: MachineVerb, machine: Machine, to: MachineSize) -> None:
        self.told.append((verb, machine, to))

    async def confirm(self, machine: Machine) -> None:
        self.confirmed.append(machine)

    async def failure(self) -> str:
        return self.failures.pop(0) if self.failures else ""


def changed(
    platform: GivenPlatform, verb: MachineVerb, to: MachineSize = NOTHING, timeout_s: float = 60.0
) -> tuple[Machine, str, list[str]]:
    said: list[str] = []
    outcome = asyncio.run(change(cast(Any, platform), verb, "vm", to, timeout_s, said.append, look_s=0.0))
    return outcome.machine, outcome.failure, said


def test_a_machine_is_watched_until_it_is_as_it_was_told_and_each_state_is_said_once() -> None:
    waiting = replace(STARTING, state=MachineState.WAITING, why="no room")
    platform = GivenPlatform(STOPPED, STOPPED, waiting, waiting, STARTING, RUNNING)
    assert changed(platform, MachineVerb.START) == (
        RUNNING,
        "",
        ["ns/vm is stopped", "ns/vm is waiting: no room", "ns/vm is starting"],
    )
    assert platform.told == [(MachineVerb.START, STOPPED, NOTHING)]
    assert platform.confirmed == []


def test_without_time_nothing_is_waited_for() -> None:
    platform = GivenPlatform(STOPPED, RUNNING)
    assert changed(platform, MachineVerb.START, timeout_s=0.0) == (STOPPED, "", [])
    assert len(platform.told) == 1


def test_what_does_not_come_about_in_time_is_said_with_what_it_is() -> None:
    platform = GivenPlatform(STOPPED, replace(STARTING, why="boots"))
    machine, failure, said = changed(platform, MachineVerb.START, timeout_s=1e-9)
    assert (machine.state, failure) == (MachineState.STARTING, "after 1e-09 s ns/vm is starting: boots")
    assert said == ["ns/vm is starting: boots"]


def test_a_verb_that_does_not_fit_is_refused_and_not_told() -> None:
    platform = GivenPlatform(RUNNING)
    with pytest.raises(Permanent, match="ns/vm: it is running, and start needs one that is"):
        changed(platform, MachineVerb.START)
    assert platform.told == []


def test_a_failure_is_the_platforms_or_the_machines() -> None:
    broken = replace(STARTING, state=MachineState.FAILED, why="no image")
    assert changed(GivenPlatform(STOPPED, broken), MachineVerb.START)[:2] == (broken, "it has failed: no image")
    given_up = GivenPlatform(RUNNING, RUNNING, RUNNING, failures=("", "the target is full"))
    assert changed(given_up, MachineVerb.MIGRATE)[:2] == (RUNNING, "the target is full")


def test_a_machine_that_is_back_where_it_was_after_it_moved_is_given_up() -> None:
    moving = replace(RUNNING, state=MachineState.MIGRATING)
    machine, failure, _ = changed(GivenPlatform(RUNNING, RUNNING, moving, RUNNING), MachineVerb.MIGRATE)
    assert (machine, failure) == (RUNNING, "it is back where it was: the platform has given up")
    there = replace(RUNNING, node="n2")
    assert changed(GivenPlatform(RUNNING, RUNNING, moving, there), MachineVerb.MIGRATE)[:2] == (there, "")


@pytest.mark.parametrize(
    ("now", "is_confirmed"),
    [(replace(RUNNING, pending="at its next start"), True), (replace(RUNNING, size=MachineSize(4, 2048)), False)],
)
def test_a_new_size_is_confirmed_where_the_platform_waits_for_that(now: Machine, is_confirmed: bool) -> None:
    platform = GivenPlatform(RUNNING, now)
    assert changed(platform, MachineVerb.RESIZE, MachineSize(4))[:2] == (now, "")
    assert platform.confirmed == ([now] if is_confirmed else [])
    other = GivenPlatform(replace(RUNNING, pending="x"), replace(RUNNING, state=MachineState.PAUSED, pending="x"))
    changed(other, MachineVerb.PAUSE)
    assert other.confirmed == []


@pytest.mark.parametrize(
    ("to", "said"),
    [
        (NOTHING, "a flavor, or vCPUs"),
        (MachineSize(4, 0, "m1.large"), "a name or numbers"),
        (MachineSize(0, 4096, "m1.large"), "a name or numbers"),
        (MachineSize(2), "another size"),
        (MachineSize(0, 2048), "another size"),
        (MachineSize(2, 2048), "another size"),
        (MachineSize(0, 0, "m1.small"), "another size"),
        (MachineSize(4), ""),
        (MachineSize(0, 4096), ""),
        (MachineSize(2, 4096), ""),
        (MachineSize(0, 0, "m1.large"), ""),
    ],
)
def test_a_size_is_numbers_or_a_name_and_another_than_it_has(to: MachineSize, said: str) -> None:
    platform = GivenPlatform(RUNNING)
    if said:
        with pytest.raises(InvalidInput, match=said):
            changed(platform, MachineVerb.RESIZE, to, timeout_s=0.0)
        assert platform.told == []
    else:
        changed(platform, MachineVerb.RESIZE, to, timeout_s=0.0)
        assert platform.told == [(MachineVerb.RESIZE, RUNNING, to)]


@pytest.mark.parametrize("more", [{"kubeconfig": Path("/k")}, {"context": "c"}, {"namespace": "n"}])
def test_a_cloud_and_a_cluster_are_not_named_together(more: dict[str, Any]) -> None:
    async def main() -> None:
        async with connected(MachineLocation(cloud="one", **more)):
            pass

    with pytest.raises(CotenantError, match="--cloud"):
        asyncio.run(main())
