from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.machine.counters import LogicalCpu
from cotenant.model.zones.setting import ExclusiveCpus
from cotenant.policy.zone.cores import own_cpus, siblings_of


def machine(nodes: int, cores: int, threads: int) -> tuple[LogicalCpu, ...]:
    """CPUs as Linux numbers them: first one thread of each core, then the others."""
    number = nodes * cores
    return tuple(
        LogicalCpu(thread * number + core, core, core // cores, core // cores)
        for thread in range(threads)
        for core in range(number)
    )


def test_whole_cores_of_the_last_node_come_first() -> None:
    assert own_cpus(machine(2, 4, 2), ExclusiveCpus(cpus=4)) == (6, 7, 14, 15)
    assert own_cpus(machine(1, 4, 1), ExclusiveCpus()) == (2, 3)
    # an odd number is rounded up to whole cores
    assert own_cpus(machine(1, 4, 2), ExclusiveCpus(cpus=3)) == (2, 3, 6, 7)


@given(
    st.integers(1, 3), st.integers(1, 5), st.integers(1, 2), st.integers(0, 12), st.floats(0.01, 0.99, allow_nan=False)
)
@settings(max_examples=examples(80))
def test_batch_keeps_a_core_and_no_core_is_shared(
    nodes: int, cores: int, threads: int, cpus: int, share: float
) -> None:
    topology = machine(nodes, cores, threads)
    most = (nodes * cores - 1) * threads
    try:
        chosen = set(own_cpus(topology, ExclusiveCpus(cpus, share)))
    except Unsupported:
        assert most == 0 or cpus > most
        return
    owners = {logical_cpu.core for logical_cpu in topology if logical_cpu.cpu in chosen}
    assert {logical_cpu.cpu for logical_cpu in topology if logical_cpu.core in owners} == chosen
    assert 0 < len(chosen) <= most
    if cpus:
        assert cpus <= len(chosen) < cpus + threads


def test_a_machine_that_is_too_small_is_refused_with_what_it_has() -> None:
    with pytest.raises(Unsupported, match="this machine has 1"):
        own_cpus(machine(1, 1, 2), ExclusiveCpus())
    with pytest.raises(Unsupported, match="6 of 8 CPUs can be theirs"):
        own_cpus(machine(1, 4, 2), ExclusiveCpus(cpus=7))


def test_siblings_are_the_two_threads_of_a_core() -> None:
    assert siblings_of(machine(1, 2, 2)) == {0: 2, 2: 0, 1: 3, 3: 1}
    # a CPU whose sibling is offline has none
    assert siblings_of(machine(1, 2, 2)[:3]) == {0: 2, 2: 0}
    for threads in (1, 4):
        with pytest.raises(Unsupported, match=f"two hardware threads .this machine's have {threads} at most"):
            siblings_of(machine(1, 2, threads))


@pytest.mark.parametrize(("cpus", "share"), [(-1, 0.5), (1024, 0.5), (0, 0.0), (0, 1.0), (0, float("nan"))])
def test_a_number_or_share_out_of_bounds_is_refused(cpus: int, share: float) -> None:
    with pytest.raises(InvalidInput, match="exclusive"):
        ExclusiveCpus(cpus, share)
