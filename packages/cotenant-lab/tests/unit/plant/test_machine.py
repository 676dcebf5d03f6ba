from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant_lab.plant.loads import Hog, PlantService, SineLoad, percentile
from cotenant_lab.plant.machine import Plant
from cotenant_lab.plant.sharing import fill

SECOND = 1_000_000


def used(plant: Plant, *groups: str) -> list[float]:
    """Mean CPUs in use since the start."""
    return [round((reported.cpu_us or 0) / plant.now_us, 3) for reported in plant.sample(groups).groups]


def turned(plant: Plant, group: str, knob: Knob, value: str) -> Plant:
    plant.knobs.write(KnobTarget(group, knob), value)
    return plant


def test_filling_is_fair_by_weight_and_never_exceeds_demand() -> None:
    assert fill(100, [100, 100], [1, 3]) == [25, 75]
    assert fill(100, [10, 100], [1, 1]) == [10, 90]
    assert fill(100, [10, 20], [1, 1]) == [10, 20]
    assert fill(100, [50, 50, 50], [1, 1, 1]) == [34, 33, 33]
    assert fill(0, [5], [1]) == [0]


def test_equal_groups_share_a_cpu_and_weights_change_that() -> None:
    plant = Plant(1, [Hog("a"), Hog("b")])
    plant.advance(SECOND)
    assert used(plant, "a", "b") == [0.5, 0.5]
    plant = turned(Plant(1, [Hog("a"), Hog("b")]), "a", Knob.CPU_WEIGHT, "300")
    plant.advance(SECOND)
    assert used(plant, "a", "b") == [0.75, 0.25]


def test_the_idle_class_gets_what_others_leave_and_next_to_nothing_else() -> None:
    plant = turned(Plant(1, [Hog("a", until_us=SECOND), Hog("b")]), "b", Knob.CPU_IDLE, "1")
    plant.advance(SECOND)
    assert used(plant, "b")[0] < 0.01
    plant.advance(2 * SECOND)
    assert used(plant, "b")[0] == pytest.approx(0.5, abs=0.01)


def test_a_quota_throttles_is_counted_and_holds_for_all_below() -> None:
    plant = turned(Plant(2, [Hog("be/x"), Hog("be/y")]), "be", Knob.CPU_MAX, "50000 100000")
    plant.advance(SECOND)
    assert used(plant, "be", "be/x", "be/y") == [0.5, 0.25, 0.25]
    reported = plant.sample(["be"]).groups[0]
    assert (reported.periods, reported.throttled_periods) == (9, 9)
    assert reported.throttled_us == pytest.approx(750_000, abs=50_000)
    assert reported.cpu_m_limit == 500
    turned(plant, "be", Knob.CPU_MAX, "max 100000").advance(2 * SECOND)
    assert used(plant, "be") == [pytest.approx(1.25, abs=0.01)]


def test_unused_quota_is_kept_for_a_burst() -> None:
    peaks = [Hog("a", from_us=start, until_us=start + 80_000) for start in range(100_000, SECOND, 400_000)]
    throttled = []
    for burst in ("0", "40000"):
        plant = turned(Plant(1, list(peaks)), "a", Knob.CPU_MAX, "40000 100000")
        turned(plant, "a", Knob.CPU_BURST, burst).advance(SECOND)
        throttled.append(plant.sample(["a"]).groups[0].throttled_us)
    assert throttled[0] > 0
    assert throttled[1] == 0


def test_a_cpuset_confines_children_too_and_threads_go_where_there_is_room() -> None:
    plant = turned(Plant(4, [Hog("be/x", threads=4), Hog("a", threads=2)]), "be", Knob.CPUSET_CPUS, "0-1")
    plant.advance(SECOND)
    assert used(plant, "be", "a") == [2.0, 2.0]


def test_waiting_and_pressure_are_counted_for_waiting_groups() -> None:
    plant = Plant(1, [Hog("a"), Hog("b")])
    plant.advance(SECOND)
    a = plant.sample(["a"]).groups[0]
    assert a.run_delay_us == pytest.approx(500_000, abs=5000)
    assert a.pressure.cpu is not None
    assert a.pressure.cpu.some_us == pytest.approx(500_000, abs=5000)
    assert plant.sample([]).host.cpu_busy_us == SECOND
    alone = Plant(1, [Hog("a")])
    alone.advance(SECOND)
    assert alone.sample(["a"]).groups[0].run_delay_us == 0


@pytest.mark.slow
def test_a_sine_gets_what_it_wants_alone_and_loses_what_a_slot_did_not_bring() -> None:
    wave = SineLoad("a")
    Plant(1, [wave]).advance(20 * SECOND)
    assert wave.delivered == wave.demanded
    assert max(wave.demanded) == 70_000
    wave = SineLoad("a")
    Plant(1, [wave, *(Hog(f"h{i}") for i in range(3))]).advance(20 * SECOND)
    assert max(wave.delivered) <= 26_000


@pytest.mark.slow
def test_requests_take_their_time_and_longer_beside_hogs_unless_those_are_idle_class() -> None:
    def p99(hogs: int, idle: bool) -> int:
        server = PlantService("s", 200.0, 1500, 8000, np.random.default_rng(1))
        plant = Plant(1, [server, *(Hog(f"be/{i}") for i in range(hogs))], ["be"])
        turned(plant, "be", Knob.CPU_IDLE, "1" if idle else "0").advance(30 * SECOND)
        assert len(server.latencies) > 5500
        assert min(took for _, took in server.latencies) >= 1500
        return percentile([took for _, took in server.latencies], 99)

    alone = p99(0, False)
    assert p99(3, True) <= alone * 1.1
    assert p99(3, False) >= alone * 1.3


def test_a_service_reports_the_window_that_it_is_asked_for() -> None:
    server = PlantService("s", 200.0, 1500, 8000, np.random.default_rng(1))
    plant = Plant(1, [server])
    assert server.health(0, SECOND) is None
    plant.advance(10 * SECOND)
    reported = server.health(10 * SECOND, SECOND)
    assert reported is not None
    assert reported.requests == pytest.approx(200, abs=50)
    assert reported.over_objective == sum(took > 8000 for ended, took in server.latencies if ended >= 9 * SECOND)


def test_the_same_seed_gives_the_same_counters() -> None:
    def run() -> object:
        plant = Plant(2, [PlantService("s", 300.0, 1500, 8000, np.random.default_rng(3)), Hog("h", threads=3)])
        plant.advance(3 * SECOND)
        return plant.sample(["s", "h"])

    assert run() == run()


def test_groups_that_vanish_are_left_out_and_come_back_empty_handed() -> None:
    plant = Plant(1, [Hog("a/x"), Hog("b")])
    plant.advance(SECOND)
    plant.knobs.remove("a")
    plant.advance(2 * SECOND)
    assert [reported.group for reported in plant.sample(["a/x", "b"]).groups] == ["b"]
    assert used(plant, "b") == [0.75]
