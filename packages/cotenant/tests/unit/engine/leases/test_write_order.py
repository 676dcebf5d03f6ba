"""The order in which several knobs are written, checked against small models of the kernel's own refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.engine.leases.write_order import order_writes
from cotenant.model.cpus.cpulist import format_cpus, parse_cpus
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import Reason

REASON = Reason("test", "because")
PARENT, CHILD, GRANDCHILD = "a", "a/b", "a/b/c"
CHAIN = (PARENT, CHILD, GRANDCHILD)


def set_knob(group: str, knob: Knob, value: str) -> SetKnob:
    return SetKnob(KnobTarget(group, knob), value, REASON)


def values(wanted: tuple[SetKnob, ...]) -> list[tuple[str, str, str]]:
    return [(w.target.group, str(w.target.knob), w.value) for w in wanted]


cpusets = st.sets(st.integers(0, 3), min_size=1).map(frozenset)


@st.composite
def chains(draw: st.DrawFn) -> list[frozenset[int]]:
    """CPUs of parent, child and grandchild, each within the one above."""
    above = draw(cpusets)
    chain = [above]
    for _ in range(2):
        above = draw(st.sets(st.sampled_from(sorted(above)), min_size=1).map(frozenset))
        chain.append(above)
    return chain


@pytest.mark.slow
@given(chains(), chains(), st.permutations(range(3)))
def test_every_cpuset_of_a_chain_changes_without_leaving_its_parents(
    before: list[frozenset[int]], after: list[frozenset[int]], order: list[int]
) -> None:
    stands = dict(zip(CHAIN, before, strict=True))
    wanted = [set_knob(CHAIN[i], Knob.CPUSET_CPUS, format_cpus(after[i])) for i in order]
    current = {KnobTarget(group, Knob.CPUSET_CPUS): format_cpus(cpus) for group, cpus in stands.items()}
    for step in order_writes(wanted, current):
        stands[step.target.group] = frozenset(parse_cpus(step.value))
        assert stands[GRANDCHILD] <= stands[CHILD] <= stands[PARENT]
    assert [stands[group] for group in CHAIN] == after


quotas = st.sampled_from([10_000, 20_000, 50_000, 80_000])


@given(st.lists(quotas, min_size=3, max_size=3), st.lists(quotas, min_size=3, max_size=3), st.permutations(range(3)))
def test_a_childs_quota_is_never_above_its_parents(before: list[int], after: list[int], order: list[int]) -> None:
    before, after = sorted(before, reverse=True), sorted(after, reverse=True)
    stands = dict(zip(CHAIN, before, strict=True))
    wanted = [set_knob(CHAIN[i], Knob.CPU_MAX, f"{after[i]} 100000") for i in order]
    for step in order_writes(wanted, {KnobTarget(g, Knob.CPU_MAX): f"{q} 100000" for g, q in stands.items()}):
        stands[step.target.group] = int(step.value.split()[0])
        assert stands[GRANDCHILD] <= stands[CHILD] <= stands[PARENT]
    assert [stands[group] for group in CHAIN] == after


@pytest.mark.parametrize(("new", "order"), [("50000", [PARENT, CHILD]), ("20000", [CHILD, PARENT])])
def test_a_quota_whose_old_value_is_not_known_goes_with_the_one_above_it(new: str, order: list[str]) -> None:
    wanted = [set_knob(group, Knob.CPU_MAX, f"{new} 100000") for group in (CHILD, PARENT)]
    current = {KnobTarget(PARENT, Knob.CPU_MAX): "30000 100000"}
    assert [step.target.group for step in order_writes(wanted, current)] == order


@given(st.tuples(quotas, st.integers(0, 80)), st.tuples(quotas, st.integers(0, 80)), st.booleans())
def test_a_burst_is_never_above_its_quota(before: tuple[int, int], after: tuple[int, int], swapped: bool) -> None:
    stands = {Knob.CPU_MAX: before[0], Knob.CPU_BURST: min(before[0], before[1] * 1000)}
    goal = {Knob.CPU_MAX: after[0], Knob.CPU_BURST: min(after[0], after[1] * 1000)}
    text = {Knob.CPU_MAX: "{} 100000", Knob.CPU_BURST: "{}"}
    wanted = [set_knob("a", knob, text[knob].format(goal[knob])) for knob in sorted(goal, reverse=swapped)]
    for step in order_writes(
        wanted, {KnobTarget("a", knob): text[knob].format(value) for knob, value in stands.items()}
    ):
        stands[step.target.knob] = int(step.value.split()[0])
        assert stands[Knob.CPU_BURST] <= stands[Knob.CPU_MAX]
    assert stands == goal


def test_no_limit_is_above_every_quota_and_periods_count() -> None:
    current = {
        KnobTarget("a", Knob.CPU_MAX): "max 100000",
        KnobTarget("a/b", Knob.CPU_MAX): "max 100000",
        KnobTarget("c", Knob.CPU_MAX): "20000 100000",
        KnobTarget("c/d", Knob.CPU_MAX): "20000 100000",
    }
    wanted = [
        set_knob("a", Knob.CPU_MAX, "50000 100000"),
        set_knob("a/b", Knob.CPU_MAX, "50000 100000"),
        set_knob("c/d", Knob.CPU_MAX, "10000 20000"),
        set_knob("c", Knob.CPU_MAX, "10000 20000"),
    ]
    assert [w.target.group for w in order_writes(wanted, current)] == ["a/b", "a", "c", "c/d"]


def test_idle_goes_off_before_the_weight_and_on_after_it() -> None:
    off = [set_knob("a", Knob.CPU_WEIGHT, "50"), set_knob("a", Knob.CPU_IDLE, "0")]
    on = [set_knob("a", Knob.CPU_IDLE, "1"), set_knob("a", Knob.CPU_WEIGHT, "50")]
    assert [w.target.knob for w in order_writes(off, {})] == [Knob.CPU_IDLE, Knob.CPU_WEIGHT]
    assert [w.target.knob for w in order_writes(on, {})] == [Knob.CPU_WEIGHT, Knob.CPU_IDLE]


def test_the_softer_memory_limit_is_reached_first_and_reclaim_comes_last() -> None:
    current = {KnobTarget("a", Knob.MEMORY_MAX): "max", KnobTarget("a", Knob.MEMORY_HIGH): "max"}
    tighter = [
        set_knob("a", Knob.MEMORY_RECLAIM, "4096"),
        set_knob("a", Knob.MEMORY_MAX, "8192"),
        set_knob("a", Knob.MEMORY_HIGH, "4096"),
    ]
    assert [w.target.knob for w in order_writes(tighter, current)] == [
        Knob.MEMORY_HIGH,
        Knob.MEMORY_MAX,
        Knob.MEMORY_RECLAIM,
    ]
    current = {KnobTarget("a", Knob.MEMORY_MAX): "8192", KnobTarget("a", Knob.MEMORY_HIGH): "4096"}
    wider = [set_knob("a", Knob.MEMORY_HIGH, "max"), set_knob("a", Knob.MEMORY_MAX, "max")]
    assert [w.target.knob for w in order_writes(wider, current)] == [Knob.MEMORY_MAX, Knob.MEMORY_HIGH]


def test_independent_writes_keep_their_order_and_malformed_values_are_passed_on() -> None:
    wanted = [
        set_knob("b", Knob.IO_WEIGHT, "default 50"),
        set_knob("a", Knob.IO_WEIGHT, "default 20"),
        set_knob("a", Knob.MEMORY_LOW, "4096"),
    ]
    assert values(order_writes(wanted, {})) == values(tuple(wanted))
    odd = [set_knob("a", Knob.CPUSET_CPUS, "zero"), set_knob("a", Knob.CPU_MAX, "lots 0")]
    assert sorted(values(order_writes(odd, {KnobTarget("a", Knob.CPUSET_CPUS): "0"}))) == sorted(values(tuple(odd)))


@pytest.mark.parametrize(
    ("before", "after", "order"),
    [("max", "8192", ["a/b", "a"]), ("8192", "16384", ["a", "a/b"]), ("8192", "max", ["a", "a/b"])],
)
def test_memory_limits_rise_from_the_top_and_fall_from_the_bottom(before: str, after: str, order: list[str]) -> None:
    current = {KnobTarget(group, Knob.MEMORY_MAX): before for group in ("a", "a/b")}
    for groups in (("a", "a/b"), ("a/b", "a")):
        writes = order_writes([set_knob(group, Knob.MEMORY_MAX, after) for group in groups], current)
        assert [write.target.group for write in writes] == order


@pytest.mark.parametrize(
    ("before", "after", "others", "steps"),
    [
        ("0-1", "0-3", (PARENT,), ["0-3"]),  # wider
        ("0-3", "0-1", (PARENT,), ["0-1"]),  # narrower
        ("0-1", "2-3", (), ["2-3"]),
        ("0-1", "2-3", ("b",), ["2-3"]),  # nobody above or below it
        ("0-1", "2-3", ("a/bb",), ["2-3"]),  # a name that only begins alike
        ("0-1", "2-3", (PARENT,), ["0-3", "2-3"]),
        ("0-1", "2-3", (GRANDCHILD,), ["0-3", "2-3"]),
        ("0-1", "1-2", (PARENT,), ["0-2", "1-2"]),
    ],
)
def test_a_cpuset_goes_by_the_union_only_where_neither_holds_the_other_and_relatives_move(
    before: str, after: str, others: tuple[str, ...], steps: list[str]
) -> None:
    moves = {CHILD: (before, after), **dict.fromkeys(others, ("0-3", "0-3"))}
    wanted = [set_knob(group, Knob.CPUSET_CPUS, new) for group, (_, new) in moves.items()]
    current = {KnobTarget(group, Knob.CPUSET_CPUS): old for group, (old, _) in moves.items()}
    assert [value for group, _, value in values(order_writes(wanted, current)) if group == CHILD] == steps
