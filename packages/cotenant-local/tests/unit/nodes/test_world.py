from dataclasses import replace
from math import inf

import pytest

from cotenant.model.errors import InvalidInput, Permanent
from cotenant_lab.world.config import WorldConfig
from cotenant_local.nodes.behaviour import SimulatedBehaviour, SimulatedPodBehaviour
from cotenant_local.nodes.world import LiveWorld

GIB = 1 << 30


def world(nodes: int = 2, speed: float = 60.0, **more: object) -> LiveWorld:
    config = WorldConfig(node_cores=16, node_memory_bytes=64 * GIB, pair_cores=8.0, replica_start_s=0.0, **more)  # type: ignore[arg-type]
    made = LiveWorld(config, speed, 0.0)
    for i in range(nodes):
        made.add_node(f"n{i}")
    return made


def batch(cores: float = 4.0, seconds: float = 600.0, memory: int = GIB, **more: float) -> SimulatedPodBehaviour:
    truth = SimulatedBehaviour(use_cores=cores, use_memory_bytes=memory, duration_s=seconds, **more)
    return SimulatedPodBehaviour(int(cores * 1000), memory, "batch", "", truth, 1e9, seconds, 0)


def service(name: str = "s", objective: float = 8.0, replicas: int = 1, **more: float) -> SimulatedPodBehaviour:
    truth = SimulatedBehaviour(
        service=name, workers=4, peak_erlangs=2.0, replicas=replicas, use_memory_bytes=GIB, swing=0.5, **more
    )
    return SimulatedPodBehaviour(4000, GIB, "web", name, truth, objective, inf, 0)


def test_work_without_neighbours_ends_after_its_duration() -> None:
    w = world()
    w.start("p", "n0", batch(seconds=600.0), 0.0)
    assert w.advance(9.9).finished == ()
    assert w.advance(10.1).finished == ("p",)
    assert not w.knows("p")


def test_a_neighbour_slows_work_down() -> None:
    w = world()
    w.start("a", "n0", batch(sensitivity=0.5, pressure=0.5), 0.0)
    w.start("b", "n0", batch(sensitivity=0.5, pressure=0.5), 0.0)
    w.start("alone", "n1", batch(sensitivity=0.5, pressure=0.5), 0.0)
    assert w.advance(10.1).finished == ("alone",)
    assert set(w.advance(14.0).finished) == {"a", "b"}


def test_the_pace_of_batch_is_the_work_done_and_not_the_cpu_used() -> None:
    w = world()
    w.start("alone", "n1", batch(sensitivity=0.5, pressure=0.5), 0.0)
    w.advance(1.1)
    assert w.snapshot().batch_pace == pytest.approx(4.0 / 32.0)
    w.start("a", "n0", batch(sensitivity=0.5, pressure=0.5), 1.1)
    w.start("b", "n0", batch(sensitivity=0.5, pressure=0.5), 1.1)
    w.advance(2.2)
    assert 8.0 / 32.0 < w.snapshot().batch_pace < 12.0 / 32.0


def test_load_rises_from_the_trough_and_the_objective_is_evaluated() -> None:
    w = world(speed=600.0)
    w.start("s", "n0", service(), 0.0)
    w.start("tight", "n1", service("tight", objective=3.0), 0.0)
    seen = []
    for second in range(1, 19):
        w.advance(float(second))
        usage = w.usage("s")
        assert usage is not None
        seen.append(usage.cpu_cores)
    assert max(seen) > 1.5 * seen[0]
    snapshot = w.snapshot()
    assert [s.name for s in snapshot.services] == ["s", "tight"]
    assert [v.uid for v in snapshot.victims] == ["tight"]
    assert snapshot.violation == 0.5


def test_missing_replicas_shift_their_load_to_the_others() -> None:
    one, two = world(), world()
    one.start("a", "n0", service(replicas=2), 0.0)
    two.start("a", "n0", service(replicas=2), 0.0)
    two.start("b", "n1", service(replicas=2), 0.0)
    for w in (one, two):
        w.advance(3.0)
    alone, shared = one.usage("a"), two.usage("a")
    assert alone is not None
    assert shared is not None
    assert alone.cpu_cores > 1.6 * shared.cpu_cores


def test_a_node_out_of_memory_evicts_batch_pods_with_least_progress_first() -> None:
    w = world(1)
    w.start("first", "n0", batch(memory=40 * GIB, seconds=3600.0), 0.0)
    w.advance(20.0)
    w.start("second", "n0", batch(memory=40 * GIB, seconds=3600.0), 20.0)
    assert w.advance(20.1).evicted == ("second",)
    assert w.knows("first")


def test_a_reused_row_is_not_reported_as_evicted() -> None:
    w = world(1)
    w.start("first", "n0", batch(memory=40 * GIB, seconds=3600.0), 0.0)
    w.start("second", "n0", batch(memory=60 * GIB, seconds=3600.0), 0.0)  # one of them is evicted immediately
    w.stop("first", 0.0)
    w.stop("second", 0.0)
    w.start("third", "n0", batch(), 0.0)
    assert w.advance(0.1).evicted == ()
    assert w.knows("third")


def test_failed_nodes_do_nothing_and_report_nothing() -> None:
    w = world()
    w.start("p", "n0", batch(), 0.0)
    w.advance(2.0)
    assert {r.node for r in w.reports(2.0)} == {"n0", "n1"}
    w.power_off("n0", 2.0)
    assert not w.knows("p")
    assert w.advance(100.0).finished == ()
    assert {r.node for r in w.reports(100.0)} == {"n1"}
    assert w.snapshot().nodes_up == 1


def test_reports_have_the_founding_fields() -> None:
    w = world(1)
    w.start("p", "n0", batch(cores=8.0, memory=16 * GIB, seconds=6000.0), 0.0)
    w.start("s", "n0", service(objective=1.0), 0.0)
    w.advance(2.5)
    (report,) = w.reports(77.0)
    assert report.cpu_allocatable == 16.0
    assert 5.0 < report.cpu_used < 13.0
    assert report.violation == 1.0
    assert report.latency_p99_ms > 5.0
    assert 0.5 < report.fairness < 1.0
    assert report.at_s == 77.0


def test_the_state_grows_with_nodes_pods_and_services() -> None:
    w = world(0)
    for i in range(600):
        w.add_node(f"n{i}")
        w.start(f"p{i}", f"n{i}", batch(seconds=60.0 + i), 0.0)
        w.start(f"s{i}", f"n{i}", service(f"s{i}"), 0.0)
    done: list[str] = []
    for second in range(1, 13):
        done += w.advance(float(second)).finished
    assert sorted(done) == sorted(f"p{i}" for i in range(600))
    assert w.snapshot().pods == 600


@pytest.mark.parametrize("speed", [0.0, -1.0, inf])
def test_an_invalid_speed_is_refused(speed: float) -> None:
    with pytest.raises(InvalidInput, match="speed"):
        world(speed=speed)


@pytest.mark.slow
def test_rows_of_services_and_tenants_without_pods_are_reused() -> None:
    w = world()
    for at in range(600):
        w.start(f"pod-{at}", "n0", service(f"default/pod-{at}"), at * 1.0)
        w.start(f"other-{at}", "n1", replace(service("kept"), tenant=f"team-{at}"), at * 1.0)
        w.advance(at + 0.5)
        w.stop(f"pod-{at}", at + 0.5)
        w.stop(f"other-{at}", at + 0.5)
    state = w._state
    assert (len(state.services), len(state.tenants), len(state.pods)) == (256, 256, 256)
    assert not state.services.live.any()
    assert not state.load.any()
    w.start("last", "n0", service("last"), 600.0)
    w.advance(602.0)
    assert [service_view.name for service_view in w.snapshot().services] == ["last"]
    usage = w.usage("last")
    assert usage is not None
    assert usage.cpu_cores > 0.5


def test_a_service_keeps_its_row_while_one_of_its_pods_runs() -> None:
    w = world()
    w.start("a", "n0", service(replicas=2), 0.0)
    w.start("b", "n1", service(replicas=2), 0.0)
    w.advance(3.0)
    before = w.usage("b")
    w.stop("a", 3.0)
    w.start("other", "n0", service("other"), 3.0)
    w.advance(6.0)
    after = w.usage("b")
    assert before is not None
    assert after is not None
    assert after.cpu_cores > 1.6 * before.cpu_cores  # the whole load of its own service
    assert sorted(service_view.name for service_view in w.snapshot().services) == ["other", "s"]


def test_a_day_starts_at_midnight_however_late_it_is() -> None:
    day_s = WorldConfig().horizon_s
    w = world(speed=day_s / 10.0)  # a day in ten seconds
    w.advance(1.0)
    w.start_day(27.3)
    assert w.snapshot().day == 3.0  # fresh, not the last step's
    assert w.simulated(27.3) == pytest.approx(3 * day_s)
    w.start("s", "n0", service(), 27.3)
    w.advance(28.3)
    assert w.snapshot().day == pytest.approx(3.1, abs=0.01)
    usage = w.usage("s")
    early = usage.cpu_cores if usage is not None else 0.0
    for tenth in range(284, 324):
        w.advance(tenth / 10.0)
    usage = w.usage("s")
    assert usage is not None
    assert usage.cpu_cores > early > 0.0  # the load rises towards noon
    with pytest.raises(Permanent, match="while no pod runs"):
        w.start_day(33.0)


def test_the_first_day_of_a_new_world_starts_at_zero() -> None:
    w = world()
    w.start_day(0.0)
    assert w.snapshot().day == 0.0
