from __future__ import annotations

import pytest

from cotenant.engine.node.settings import AgentSettings
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant_lab.plant.driving import Drive, StallTrigger
from cotenant_lab.plant.loads import Hog, SineLoad
from cotenant_lab.plant.machine import Plant
from cotenant_lab.plant.scenarios import GUESTS, ROOT, SERVICE, hog_pods, policies, service_pod

SECOND = 1_000_000


def drive() -> Drive:
    pods = hog_pods(2)
    plant = Plant(1, [SineLoad(SERVICE), *(Hog(pod.group) for pod in pods)], (ROOT,))
    settings = AgentSettings(policies=policies(95), roots=(ROOT,), best_effort_group=GUESTS)
    return Drive(plant, settings, (service_pod(), *pods))


def test_the_engine_sets_the_plants_knobs_and_a_clean_stop_restores_them() -> None:
    run = drive()
    before = {target: run.plant.knobs.read(target) for target in targets(run)}
    run.run(5 * SECOND)
    assert run.plant.knobs.read(KnobTarget(GUESTS, Knob.CPU_IDLE)) == "1"
    assert run.plant.knobs.read(KnobTarget(GUESTS, Knob.CPU_MAX)) != "max 100000"
    run.engine.validate()
    run.stop()
    assert {target: run.plant.knobs.read(target) for target in targets(run)} == before


@pytest.mark.slow
def test_leases_that_are_not_renewed_expire() -> None:
    run = drive()
    run.run(2 * SECOND)
    assert run.keeper.leases()
    run.plant.advance(run.plant.now_us + 31 * SECOND)
    run.keeper.tick()
    assert not run.keeper.leases()
    assert run.plant.knobs.read(KnobTarget(GUESTS, Knob.CPU_IDLE)) == "0"


def test_a_group_that_vanishes_costs_nothing_but_its_lease() -> None:
    run = drive()
    run.run(3 * SECOND)
    run.plant.knobs.remove(GUESTS)
    run.run(15 * SECOND)  # noticed at the next renewal
    assert not run.keeper.leases()
    run.engine.validate()


def test_a_trigger_fires_once_a_window_when_enough_was_lost() -> None:
    trigger = StallTrigger("a", stall_us=100, window_us=1000)
    assert [trigger.raised(now, stalled) for now, stalled in ((0, 0), (500, 99), (600, 100), (700, 900))] == [
        False,
        False,
        True,
        False,
    ]
    assert not trigger.raised(1000, 900)
    assert trigger.raised(1500, 1000)


def targets(run: Drive) -> list[KnobTarget]:
    return [
        KnobTarget(group, knob)
        for group in run.plant.knobs.groups()
        for knob in (Knob.CPU_MAX, Knob.CPU_IDLE, Knob.CPU_WEIGHT)
    ]
