"""Which verb fits which state, and when it has come about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.vms.verbs import is_done, why_failed, why_not
from cotenant.model.vms.machine import Machine, MachineSize, MachineState, MachineVerb

UP = Machine("shop", "db", "u", MachineState.RUNNING, MachineSize(2, 2048), node="a", incarnation="i1")


@pytest.mark.parametrize(
    ("verb", "now"),
    [
        (MachineVerb.STOP, replace(UP, state=MachineState.STOPPED, node="")),
        (MachineVerb.RESTART, replace(UP, incarnation="i2")),
        (MachineVerb.PAUSE, replace(UP, state=MachineState.PAUSED)),
        (MachineVerb.MIGRATE, replace(UP, node="b")),
        (MachineVerb.RESIZE, replace(UP, size=MachineSize(4, 2048))),
        (MachineVerb.RESIZE, replace(UP, pending="at the next start")),
    ],
)
def test_a_verb_is_done_by_what_it_changes(verb: MachineVerb, now: Machine) -> None:
    assert why_not(verb, UP) == ""
    assert not is_done(verb, UP, UP)
    assert is_done(verb, UP, now)


def test_a_migration_whose_node_is_not_told_is_seen_by_the_incarnation() -> None:
    hidden = replace(UP, node="")
    assert not is_done(MachineVerb.MIGRATE, hidden, hidden)
    assert not is_done(MachineVerb.MIGRATE, hidden, replace(hidden, state=MachineState.MIGRATING, incarnation="i2"))
    assert is_done(MachineVerb.MIGRATE, hidden, replace(hidden, incarnation="i2"))


def test_what_does_not_fit_says_what_would() -> None:
    assert why_not(MachineVerb.START, UP) == "it is running, and start needs one that is stopped or failed"
    assert why_not(MachineVerb.UNPAUSE, UP) == "it is running, and unpause needs one that is paused"
    assert why_not(MachineVerb.STOP, replace(UP, state=MachineState.STOPPED)).startswith(
        "it is stopped, and stop needs"
    )


def test_a_machine_that_fails_is_not_waited_for() -> None:
    failed = replace(UP, state=MachineState.FAILED)
    assert why_failed(MachineVerb.MIGRATE, UP, replace(failed, why="no host"), False) == "it has failed: no host"
    assert why_failed(MachineVerb.STOP, UP, failed, False) == ""
    assert why_failed(MachineVerb.START, failed, failed, False) == ""  # it was so before it was told to start


def test_a_machine_that_is_back_where_it_was_is_not_waited_for() -> None:
    assert why_failed(MachineVerb.MIGRATE, UP, UP, False) == ""
    assert "given up" in why_failed(MachineVerb.MIGRATE, UP, UP, True)
    assert why_failed(MachineVerb.RESIZE, UP, replace(UP, state=MachineState.MIGRATING), True) == ""


def test_a_resize_is_done_when_the_machine_has_stopped_moving() -> None:
    on_its_way = replace(UP, state=MachineState.MIGRATING, size=MachineSize(4, 2048))
    assert not is_done(MachineVerb.RESIZE, UP, on_its_way)
