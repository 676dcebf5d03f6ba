"""What holds a workload, and what it wants of a disk, against a simulated thread that computes and waits."""

from __future__ import annotations

import pytest

from cotenant.model.cluster.workload_profile import (
    AxisReading,
    FigureSource,
    ProfileAxis,
    ProfileFigure,
    Unknown,
    WorkloadBound,
    WorkloadProfile,
    WorkloadRef,
)
from cotenant.model.machine.node_metric import PodSignals
from cotenant.policy.interference.axes import NO_BOUND, AxisMoments
from cotenant.policy.interference.bound import bound_by, disk_alone, disk_demand, shares


def figure(value: int, samples: int = 100, source: FigureSource = FigureSource.LEARNED) -> ProfileFigure:
    return ProfileFigure(value, value, value, samples, source)


@pytest.mark.parametrize("disk", [0.05, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("slower", [1.0, 1.5, 3.0, 20.0])
def test_what_a_thread_wants_of_the_disk_does_not_depend_on_its_neighbours(disk: float, slower: float) -> None:
    """Units of work, one after another: computing, then a disk that neighbours make slower."""
    units = 1000
    elapsed = sum((1.0 - disk) + slower * disk for _ in range(units))
    served, waiting = units * disk, units * slower * disk
    signals = PodSignals(disk_use=served / elapsed, disk_stall=waiting / elapsed)
    found = disk_alone(signals)
    assert found is not None
    if waiting / elapsed < 0.99:
        assert found == pytest.approx(disk)
    else:  # it hardly computes: what is told of its waiting is cut, and the figure is low
        assert 0.5 * disk < found < disk


def test_a_pod_that_does_not_wait_wants_what_it_uses() -> None:
    assert disk_alone(PodSignals(disk_use=0.5, disk_stall=0.2)) == 0.5  # it writes behind
    assert disk_alone(PodSignals(disk_use=0.5)) == 0.5
    assert disk_alone(PodSignals(disk_stall=0.5)) is None


def test_shares_are_of_what_held_the_pod() -> None:
    for cpu_m, signals, most in (
        (950, PodSignals(disk_stall=0.01, memory_stall=0.0), WorkloadBound.CPU),
        (200, PodSignals(wait_per_cpu=4.0, disk_stall=0.1), WorkloadBound.CPU),  # it waits to run
        (150, PodSignals(disk_stall=0.8, memory_stall=0.0), WorkloadBound.DISK),
        (
            150,
            PodSignals(disk_stall=0.8, memory_stall=0.7),
            WorkloadBound.MEMORY,
        ),  # the disk serves its reclaimed pages
        (900, PodSignals(cycles_per_instruction=3.0, disk_stall=0.0), WorkloadBound.MEMORY_BANDWIDTH),
        (900, PodSignals(cycles_per_instruction=0.5, disk_stall=0.0), WorkloadBound.CPU),
        (100, PodSignals(network_use=0.7, disk_stall=0.0), WorkloadBound.NETWORK),
    ):
        found = shares(cpu_m, signals)
        assert sum(found.values()) == pytest.approx(1.0)
        assert max(found, key=lambda resource: found[resource]) is most
        assert min(found.values()) >= 0.0
    assert shares(10, PodSignals(disk_stall=0.01)) == {}  # idle
    assert shares(1000, PodSignals()) == {WorkloadBound.CPU: 1.0}


def test_many_cores_are_one_time() -> None:
    found = shares(16_000, PodSignals(disk_stall=0.5))
    assert found == {WorkloadBound.CPU: pytest.approx(2 / 3), WorkloadBound.DISK: pytest.approx(1 / 3)}


def test_the_sums_of_a_workload_say_its_class_and_its_disk() -> None:
    pod = AxisMoments()
    for window in range(40):
        slower = 1.0 + 3.0 * (window % 2)  # every other window beside a neighbour
        elapsed = 0.4 + 0.6 * slower
        signals = PodSignals(disk_use=0.6 / elapsed, disk_stall=0.6 * slower / elapsed)
        pod.add_waits(round(400 / elapsed), signals, 0.6 * (window % 2), 60.0)
    pod.add_waits(0, PodSignals(disk_stall=0.0), 0.0, 60.0)
    disk = pod.readings()[ProfileAxis.DISK]
    assert isinstance(disk.tendency, ProfileFigure)
    assert disk.tendency.value == pytest.approx(600, abs=2)
    assert isinstance(disk.sensitivity, ProfileFigure)
    assert disk.sensitivity.value == 1000  # at 0.6 of the disk it needs 2.8 times the time
    bound = pod.bounds()
    assert isinstance(bound[WorkloadBound.DISK], ProfileFigure)
    assert 700 < bound[WorkloadBound.DISK].value < 800
    assert bound[WorkloadBound.DISK].samples == 40  # without the idle window
    assert bound_by(bound) == "disk"
    assert bound[WorkloadBound.NETWORK] == NO_BOUND[WorkloadBound.NETWORK]
    assert bound_by(AxisMoments().bounds()) == ""
    assert bound_by({WorkloadBound.CPU: figure(450), WorkloadBound.DISK: figure(400)}) == "mixed"


def test_a_learned_demand_counts_where_the_disk_holds_the_workload() -> None:
    def profile(tendency: ProfileFigure | Unknown, **bound: int) -> WorkloadProfile:
        reading = AxisReading(tendency, Unknown("x"))
        is_declared = isinstance(tendency, ProfileFigure) and not tendency.samples
        return WorkloadProfile(
            "a/b",
            WorkloadRef("Deployment", "b"),
            declared={ProfileAxis.DISK: reading} if is_declared else {},
            learned={} if is_declared else {ProfileAxis.DISK: reading},
            bound={WorkloadBound(name): figure(value) for name, value in bound.items()},
        )

    assert disk_demand(profile(figure(600), disk=700, cpu=300)) == 600
    assert disk_demand(profile(figure(600), disk=100, cpu=900)) == 0  # it writes, and does not wait
    assert disk_demand(profile(figure(600, 0, FigureSource.DECLARED), disk=100)) == 600
    assert disk_demand(profile(figure(600))) == 600
    assert disk_demand(profile(Unknown("nothing"))) == 0
