"""Scenes: recognised with evidence, and served by the mode that was measured best, with a bounded number of trials."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.model.zones.setting import USUAL_MODES, ZoneMode
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import GroupReading, MachineSigns, ZoneReading
from cotenant.policy.zone.scenes import (
    MOST_SCENES,
    TRIAL,
    Outcomes,
    SceneTable,
    ServiceUseBand,
    ZoneScene,
    choose,
    outcome_of,
    recognise,
    room_of,
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


def played(table: SceneTable, means: dict[ZoneMode, float], readings: int, room: float | None = None) -> list[ZoneMode]:
    """The modes that run, reading by reading, from `weighted`."""
    current, ran = ZoneMode.WEIGHTED, []
    for _ in range(readings):
        found = choose(table, SCENE, USUAL_MODES, current)
        assert found is not None
        current = found[0]
        ran.append(current)
        table = table.learned(SCENE, current, means[current], room)
    return ran


def test_a_trial_goes_on_to_its_end_and_ties_keep_what_runs() -> None:
    ran = played(SceneTable(), dict.fromkeys(ZoneMode, 0.5), 3 * TRIAL)
    assert ran[0] is ZoneMode.WEIGHTED
    assert {mode: ran.count(mode) for mode in USUAL_MODES} == dict.fromkeys(USUAL_MODES, TRIAL)
    for mode in (ZoneMode.LATENCY, ZoneMode.THROUGHPUT):
        first = ran.index(mode)
        assert set(ran[first : first + TRIAL]) == {mode}
    assert choose(SceneTable(), SCENE, (), None) is None


def test_nothing_is_tried_where_no_mode_could_bring_more() -> None:
    """A light service is on time and batch has all that it leaves: a trial could only cost."""
    assert set(played(SceneTable(), dict.fromkeys(ZoneMode, 0.98), 200, room=0.001)) == {ZoneMode.WEIGHTED}
    assert len(set(played(SceneTable(), dict.fromkeys(ZoneMode, 0.98), 600, room=0.001))) > 1  # in the end all the same


def test_a_trial_of_what_is_clearly_worse_ends_at_once() -> None:
    means = {ZoneMode.WEIGHTED: 0.8, ZoneMode.LATENCY: 0.95, ZoneMode.THROUGHPUT: 0.1}
    ran = played(SceneTable(), means, 100)
    assert ran.count(ZoneMode.THROUGHPUT) <= 4  # once, and once at each doubling
    assert ran.count(ZoneMode.LATENCY) > 85


def test_where_services_are_late_latency_is_tried_first() -> None:
    table = SceneTable()
    for mode in USUAL_MODES:
        table = table.learned(ZoneScene(ServiceUseBand.HEAVY, True), mode, 0.9 if mode is ZoneMode.THROUGHPUT else 0.5)
    for late, first in ((False, ZoneMode.THROUGHPUT), (True, ZoneMode.LATENCY)):
        found = choose(table, SCENE, USUAL_MODES, ZoneMode.WEIGHTED, services_late=late)
        assert found is not None
        assert found[0] is first


def test_of_modes_that_are_as_good_the_one_that_harms_no_other_scene_runs() -> None:
    alone = ZoneScene(ServiceUseBand.NONE, True)
    table = SceneTable().learned(alone, ZoneMode.WEIGHTED, 1.0).learned(alone, ZoneMode.THROUGHPUT, 1.0)
    found = choose(table, alone, USUAL_MODES, ZoneMode.THROUGHPUT)
    assert found is not None
    assert found[0] is ZoneMode.THROUGHPUT
    table = table.learned(SCENE, ZoneMode.WEIGHTED, 0.98).learned(SCENE, ZoneMode.THROUGHPUT, 0.2)
    found = choose(table, alone, USUAL_MODES, ZoneMode.THROUGHPUT)
    assert found is not None
    assert found[0] is ZoneMode.WEIGHTED


def test_services_of_other_limits_are_another_scene() -> None:
    seen = reading((0.1, 0.2), 0.5)
    rows = {"s0": ZoneRow(ZoneClass.SERVICE, late_us=5_000), "s1": ZoneRow(ZoneClass.SERVICE, late_us=2_000)}
    scene, _ = recognise(seen, rows)
    assert scene.late_us == 2_000
    assert "late after 2 ms" in str(scene)
    quiet, _ = recognise(reading((0.1, 0.0), 0.5), rows)  # the other one is not there
    assert quiet.late_us == 5_000
    assert quiet != scene


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (reading((0.1,), 0.9), 0.0),  # all that the service leaves
        (reading((0.1,), 0.5), 0.1),
        (reading((0.4,), 0.6), 0.1),  # a heavy one may have had more than it needs
        (reading((0.4,), 0.0), 0.0),  # no batch, no part of batch's
        (reading((0.1,), 0.9, late=400), 0.75),
    ],
)
def test_room_is_what_any_mode_could_have_brought_more(seen: ZoneReading, expected: float) -> None:
    scene, _ = recognise(seen)
    assert room_of(seen, scene, outcome_of(seen, 2.0)) == pytest.approx(expected)


def test_a_table_keeps_the_scenes_that_were_seen_last() -> None:
    table = SceneTable()
    for late_us in range(1, MOST_SCENES + 10):
        table = table.learned(ZoneScene(ServiceUseBand.LIGHT, True, late_us=late_us), ZoneMode.LATENCY, 0.5)
        table = table.learned(SCENE, ZoneMode.LATENCY, 0.5)
    assert len(table.scenes) == MOST_SCENES
    assert table.of(SCENE)[ZoneMode.LATENCY].number == MOST_SCENES + 9


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
        found = found.plus(1.0, 0.0)
    for _ in range(200):
        found = found.plus(0.0, 1.0)
    assert found.number == 700
    assert found.mean < 0.1
