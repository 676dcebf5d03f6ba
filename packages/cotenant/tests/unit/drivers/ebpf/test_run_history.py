"""Who ran in a time, by a CPU's timeline, against the runs themselves. The kernel side is played by `Recorded`, which
keeps the rules of bpf/run_history.h.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.drivers.ebpf.run_history import (
    FRAMES,
    HEAD,
    IDLE,
    LONG_RUN,
    RUNNER,
    RUNNERS,
    SLOT,
    SLOT_BYTES,
    SLOTS,
    TIMELINE_BYTES,
    long_run,
    who_ran,
)

SLOT_NS = 1000


class Recorded:
    """A timeline as the kernel side writes it."""

    def __init__(self, begin_ns: int) -> None:
        self.written = 0
        self.until_ns = begin_ns
        self.slots: list[list[int]] = [[0, 0, 0] for _ in range(SLOTS)]
        self.runners: list[list[list[int]]] = [[] for _ in range(SLOTS)]

    def ran(self, group: int, length_ns: int) -> None:
        begin_ns = self.until_ns
        self.until_ns += length_ns
        if not self.written or begin_ns - self.slots[(self.written - 1) % SLOTS][0] >= SLOT_NS:
            self.slots[self.written % SLOTS] = [begin_ns, length_ns, 0]
            self.runners[self.written % SLOTS] = []
            self.written += 1
        at = (self.written - 1) % SLOTS
        own = next((runner for runner in self.runners[at] if runner[0] == group), None)
        if own is None:
            if len(self.runners[at]) == RUNNERS:
                self.slots[at][2] += length_ns
                return
            own = [group, 0, 0]
            self.runners[at].append(own)
        own[1] += length_ns
        own[2] = max(own[2], length_ns >> 10)

    def packed(self) -> bytes:
        line = bytearray(TIMELINE_BYTES)
        HEAD.pack_into(line, 0, self.written, self.until_ns)
        for number, (slot, runners) in enumerate(zip(self.slots, self.runners, strict=True)):
            at = HEAD.size + number * SLOT_BYTES
            SLOT.pack_into(line, at, *slot, len(runners))
            for place, (group, ran_ns, longest) in enumerate(runners):
                name = f"task{group}".encode()
                RUNNER.pack_into(line, at + SLOT.size + place * RUNNER.size, group, ran_ns, 100 + group, longest, name)
        return bytes(line)


def truth(runs: list[tuple[int, int]], begin_ns: int, end_ns: int) -> Counter[int]:
    """How long each group ran between these times; the first run begins at 1."""
    sums: Counter[int] = Counter()
    at_ns = 1
    for group, length_ns in runs:
        sums[group] += max(0, min(at_ns + length_ns, end_ns) - max(at_ns, begin_ns))
        at_ns += length_ns
    return sums


RUNS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3 * SLOT_NS)), min_size=1, max_size=120)


@settings(max_examples=examples(200), deadline=None)
@given(RUNS, st.integers(1, 12 * SLOT_NS))
def test_sums_are_whole_and_wrong_by_less_than_a_slot(runs: list[tuple[int, int]], wait_ns: int) -> None:
    line = Recorded(1)
    for run in runs:
        line.ran(*run)
    begin_ns = max(1, line.until_ns - wait_ns)
    found, unknown_ns = who_ran(line.packed(), begin_ns, line.until_ns)
    wait_ns = line.until_ns - begin_ns
    told = sum(ran.ran_ns for ran in found)
    assert wait_ns - len(runs) - 1 <= told + unknown_ns <= wait_ns  # each share is rounded down
    assert [ran.ran_ns for ran in found] == sorted((ran.ran_ns for ran in found), reverse=True)
    real = truth(runs, begin_ns, line.until_ns)
    for ran in found:
        assert ran.ran_ns <= real[ran.group] + SLOT_NS
    if unknown_ns == 0:
        named = {ran.group: ran.ran_ns for ran in found}
        for group, ran_ns in real.items():
            assert named.get(group, 0) >= ran_ns - SLOT_NS - len(runs)


def test_one_long_run_is_told_exactly_however_long_before_the_wait_it_began() -> None:
    line = Recorded(1)
    line.ran(3, 400)
    line.ran(7, 50 * SLOT_NS)
    (ran,), unknown_ns = who_ran(line.packed(), line.until_ns - 20 * SLOT_NS, line.until_ns)
    assert (ran.group, ran.ran_ns, ran.pid, ran.command.rstrip(b"\0")) == (7, 20 * SLOT_NS, 107, b"task7")
    assert unknown_ns == 0


def test_a_thousand_short_runs_of_two_groups_are_added_up() -> None:
    line = Recorded(1)
    for _ in range(1000):
        line.ran(1, 3)
        line.ran(2, 7)
    found, unknown_ns = who_ran(line.packed(), line.until_ns - 5000, line.until_ns)
    assert [ran.group for ran in found] == [2, 1]
    assert abs(found[0].ran_ns - 3500) < 100
    assert unknown_ns < 10


def test_the_stack_is_that_of_a_long_run_within_the_wait() -> None:
    line = bytearray(TIMELINE_BYTES)
    LONG_RUN.pack_into(line, TIMELINE_BYTES - LONG_RUN.size, 100, 900, 7, 2, 11, 12, *(0,) * (FRAMES - 2))
    assert long_run(bytes(line), 899) == (7, (11, 12))
    assert long_run(bytes(line), 900) is None
    assert long_run(bytes(TIMELINE_BYTES), 0) is None


def test_time_before_what_is_kept_is_unknown_and_an_idle_cpu_is_told() -> None:
    line = Recorded(1)
    line.ran(IDLE, SLOT_NS)
    found, unknown_ns = who_ran(line.packed(), line.until_ns - 4 * SLOT_NS, line.until_ns)
    assert [(ran.group, ran.ran_ns) for ran in found] == [(IDLE, SLOT_NS)]
    assert unknown_ns == 3 * SLOT_NS


def test_of_many_groups_the_rest_is_unknown() -> None:
    line = Recorded(1)
    for group in range(1, 8):
        line.ran(group, 100)
    found, unknown_ns = who_ran(line.packed(), 1, line.until_ns)
    assert len(found) == RUNNERS
    assert unknown_ns == 300
