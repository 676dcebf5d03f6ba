"""Scenes: recognised with evidence, and served by the mode that was measured best, with a bounded number of trials."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.model.zones.setting import USUAL_MODES, ZoneMode
from cotenant.model.zones.table import ZoneClass
from cotenant.model.zones.zone_reading import GroupReading, MachineSigns, ZoneReading
from cotenant.policy.zone.scenes import (
    TRIAL,
    Outcomes,
    SceneTable,
    ServiceUseBand,
    ZoneScene,
    choose,
    outcome_of,
    recognise,
    wanted_readings,
)

SCENE = ZoneScene(ServiceUseBand.LIGHT, True)


def reading(services: tuple[float, ...], batch: float, signs: MachineSigns | None = None, late: int = 0) -> ZoneReading:
    """Two seconds; CPUs of each service and of batch."""
    groups = [
        GroupReading(f"s{number}", ZoneClass.SERVICE, late=late if not number else 0, cpu_us=round(cpus * 2e6))
        for number, cpus in enumerate(services)
    ]
    return ZoneReading(2.0, (*groups, GroupReading("batch", ZoneClass.BATCH, cpu_us=round(batch * 2e6))), signs)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (reading((), 0.0), ZoneScene(ServiceUseBand.NONE, False)),
        (reading((0.1,), 0.004), ZoneScene(ServiceUseBand.LIGHT, True)),  # one short turn a second is batch that waits
        (reading((0.4, 0.2), 0.0), ZoneScene(ServiceUseBand.HEAVY, False, several=True)),
        (reading((0.4, 0.001), 0.0), ZoneScene(ServiceUseBand.HEAVY, False)),  # the other service is not there
        (reading((0.9,), 0.9, MachineSigns(4)), ZoneScene(ServiceUseBand.LIGHT, True)),  # of four CPUs
        (reading((0.2,), 0.0, MachineSigns(1, 0.3)), ZoneScene(ServiceUseBand.LIGHT, False, network=True)),
        (reading((0.2,), 0.0, MachineSigns(2, 0.0, 0.4)), ZoneScene(ServiceUseBand.LIGHT, False, siblings=True)),
    ],
)
def test_a_scene_is_who_is_there_and_how_busy(seen: ZoneReading, expected: ZoneScene) -> None:
    scene, reason = recognise(seen)
    assert scene == expected
    assert {term.name for term in reason.terms} >= {"services", "batch", "softirq", "siblings", "CPUs"}


def test_an_outcome_counts_services_before_batch() -> None:
    calm, late, gone = reading((0.1,), 0.5), reading((0.1,), 0.9, late=400), reading((0.1,), 0.0)
    assert outcome_of(calm, 2.0) > outcome_of(late, 2.0)
    assert outcome_of(calm, 2.0) > outcome_of(gone, 2.0)
    assert outcome_of(late, 2.0) == pytest.approx(0.25 * 0.9)  # no part of services' time is left
    assert outcome_of(reading((0.1,), 1.0), 2.0) == pytest.approx(1.0)


@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=3, unique=True),
    st.integers(20, 400),
    st.lists(st.floats(-0.01, 0.01), min_size=5, max_size=5),
)
def test_trials_of_worse_modes_are_bounded(means: list[float], readings: int, noise: list[float]) -> None:
    table, current, worse = SceneTable(), ZoneMode.WEIGHTED, 0
    best = max(range(3), key=lambda index: means[index])
    clear = means[best] - sorted(means)[1] > 0.05
    for at in range(readings):
        found = choose(table, SCENE, USUAL_MODES, current)
        assert found is not None
        current = found[0]
        worse += USUAL_MODES.index(current) != best
        table = table.learned(SCENE, current, means[USUAL_MODES.index(current)] + noise[at % 5])
    if clear:
        assert worse <= 2 * (wanted_readings(readings, 3) + TRIAL)
        assert sum(found.number for found in table.of(SCENE).values()) == readings


def test_a_trial_goes_on_to_its_end_and_ties_keep_what_runs() -> None:
    table, current, ran = SceneTable(), ZoneMode.WEIGHTED, []
    for _ in range(3 * TRIAL):
        found = choose(table, SCENE, USUAL_MODES, current)
        assert found is not None
        current = found[0]
        ran.append(current)
        table = table.learned(SCENE, current, 0.5)
    assert ran == [mode for mode in (ZoneMode.WEIGHTED, ZoneMode.LATENCY, ZoneMode.THROUGHPUT) for _ in range(TRIAL)]
    found = choose(table, SCENE, USUAL_MODES, current)
    assert found is not None
    assert found[0] is current
    assert choose(table, SCENE, (), None) is None


def test_a_new_scene_begins_with_the_best_of_the_nearest() -> None:
    table = SceneTable()
    for scene, best in (
        (SCENE, ZoneMode.LATENCY),
        (ZoneScene(ServiceUseBand.HEAVY, False, several=True), ZoneMode.THROUGHPUT),
    ):
        for mode in USUAL_MODES:
            table = table.learned(scene, mode, 0.9 if mode is best else 0.2)
    found = choose(table, ZoneScene(ServiceUseBand.HEAVY, True), USUAL_MODES, ZoneMode.WEIGHTED)
    assert found is not None
    assert found[0] is ZoneMode.LATENCY
    assert "nearest scene (services light, batch)" in found[1].text
    found = choose(table, ZoneScene(ServiceUseBand.LIGHT, False, several=True), USUAL_MODES, ZoneMode.WEIGHTED)
    assert found is not None
    assert found[0] is ZoneMode.THROUGHPUT


def test_old_outcomes_fade() -> None:
    found = Outcomes()
    for _ in range(500):
        found = found.plus(1.0)
    for _ in range(200):
        found = found.plus(0.0)
    assert found.number == 700
    assert found.mean < 0.1
