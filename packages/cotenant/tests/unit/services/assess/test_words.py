"""The sentences and rows of a report, figure by figure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.model.assess.figure import AssessedFigure, counted, unknown
from cotenant.model.assess.report import (
    AssessedPlacement,
    AssessmentReport,
    Consolidation,
    EmptiedNode,
    EmptyingTrial,
    EmptyingTried,
    EnergyGroups,
    EnergyOf,
    Lendable,
    Money,
    PendingPods,
    ReportSource,
    Saving,
    SizeTrial,
    SizeTried,
    Spending,
    WaitCause,
)
from cotenant.services.assess import words


def figure(key: str, value: float | None, unit: str = "cores", **more: float) -> AssessedFigure:
    if value is None:
        return unknown(key, key, unit, "d", "why")
    return AssessedFigure(key, key, value, unit, "d", "i", **more)


def spending(name: str = "x", unmeasured: int = 0, unpriced: int = 0) -> Spending:
    return Spending(name, 1234, 101.0, 42.0, 59.0, 7.5, unmeasured, unpriced)


def money(unpriced_nodes: int = 0, pods: Spending | None = None, savings: tuple[Saving, ...] = ()) -> Money:
    none: tuple[Spending, ...] = ()
    return Money("EUR", 200.0, unpriced_nodes, pods or spending(), 90.0, 30.0, 25.0, none, none, none, savings, ())


def report(
    idle: float | None = 3.0,
    lendable: tuple[Lendable, ...] = (),
    waiting: tuple[PendingPods, ...] = (),
    consolidation: Consolidation | None = None,
) -> AssessmentReport:
    sizes = (figure("cpu_allocatable", 8.0), figure("cpu_allocated", 5.0), figure("cpu_idle", idle))
    return AssessmentReport(
        source=ReportSource("t", "c", "v", "u", False, (), ()),
        nodes=2,
        pods=9,
        figures=sizes,
        shapes=(),
        workloads=(),
        idle=(),
        lendable=lendable,
        waiting=waiting,
        placement=AssessedPlacement(0, 0, 0, (), figure("share", 1.0)),
        consolidation=consolidation or Consolidation((), 0, (), (), 0, 0),
        cards=(),
        moves=(),
        moves_note="",
        back_test=None,
        steps=(),
        money=None,
        energy=None,
        risk=0.01,
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.004, "0"),
        (-0.004, "0"),
        (0.52, "0.52"),
        (0.5, "0.5"),
        (-0.52, "-0.52"),
        (9.994, "9.99"),
        (9.996, "10"),
        (10, "10"),
        (31.42, "31.4"),
        (-31.42, "-31.4"),
        (99.94, "99.9"),
        (99.96, "100"),
        (100, "100"),
        (1920.4, "1,920"),
        (-1920.6, "-1,921"),
    ],
)
def test_amounts_have_three_digits_or_a_whole_part(value: float, text: str) -> None:
    assert words.amount(value) == text


def test_figures_have_their_interval_and_unit() -> None:
    assert words.figure(figure("a", 2.0)) == "2 cores"
    assert words.figure(figure("a", 2.0, low=1.5, high=2.5)) == "2 (1.5 to 2.5) cores"
    assert words.figure(figure("a", 2.0, low=1.5)) == words.figure(figure("a", 2.0, high=1.5)) == "2 cores"
    assert words.figure(figure("a", None)) == "?"


def test_units_and_numbers() -> None:
    assert (words.cores(1500.0), words.cores(None)) == ("1.5", "?")
    assert (words.gib(1536.0), words.gib(None)) == ("1.5", "?")
    counts = [words.count(number, "node") for number in (0, 1, 2, 1234)]
    assert counts == ["0 nodes", "1 node", "2 nodes", "1,234 nodes"]


def test_the_first_sentence_grows_with_what_is_known() -> None:
    begin = "2 nodes with 8 cores, of which 5 cores are allocated"
    assert words.headline(report(idle=None)) == f"{begin}."
    assert words.headline(report()) == f"{begin}; 3 cores are requested and not used."

    def lent(value: float | None, in_use: float | None) -> tuple[Lendable, ...]:
        return (Lendable("batch-cpu", "cores", figure("l", value), figure("k", None), in_use),)

    begin = f"{begin}; 3 cores are requested and not used"
    could = f"{begin}; 2 cores could be lent at 1 % risk"
    assert words.headline(report(lendable=lent(None, None))) == f"{begin}."
    for in_use in (None, 0.0):
        assert words.headline(report(lendable=lent(2.0, in_use))) == f"{could}."
    assert words.headline(report(lendable=lent(2.0, 1.5))) == f"{could}, 1.5 of which batch work uses already."
    one, two = PendingPods("w", 1, 0, None, WaitCause.ROOM), PendingPods("w", 2, 0, None, WaitCause.ROOM)
    assert words.headline(report(waiting=(one,))) == f"{begin}; 1 pod waits."
    assert words.headline(report(waiting=(one, two))) == f"{begin}; 3 pods wait."


def test_what_holds_the_pods_that_wait() -> None:
    def wait(holder: WaitCause, pods: int, lent: int | None = 0) -> PendingPods:
        return PendingPods("w", pods, 0, lent, holder)

    assert words.held(report()) == "0 pods lack room."
    begin = "1 pod lacks room"
    assert words.held(report(waiting=(wait(WaitCause.ROOM, 1, None),))) == (
        f"{begin}. How many of them lending would hold is not known, as the lendable amount is not."
    )
    room = (wait(WaitCause.ROOM, 2, 1), wait(WaitCause.ROOM, 3, 2))
    fit = ". With what could be lent 3 of those that lack room would be placed."
    assert words.held(report(waiting=room)) == f"5 pods lack room{fit}"
    others = (
        wait(WaitCause.POD, 2),
        wait(WaitCause.GATE, 1),
        wait(WaitCause.NOTHING, 4),
        wait(WaitCause.RULES, 1),
        wait(WaitCause.QUOTA, 3),
    )
    said = "; ".join(
        (
            "0 pods lack room",
            ", ".join(
                (
                    "4 cotenant would place now",
                    f"1 waits for {WaitCause.RULES.value}",
                    f"3 wait for {WaitCause.QUOTA.value}",
                    f"1 waits for {WaitCause.GATE.value}",
                    f"2 wait for {WaitCause.POD.value}",
                )
            ),
        )
    )
    assert words.held(report(waiting=others)) == f"{said}."


def test_the_dearest_savings_are_shown_and_the_others_summed() -> None:
    savings = (Saving("small", 1.0, "a"), Saving("large", 10.0, "b"), Saving("middle", 5.0, "c"))
    rows = (("large", "10", "b"), ("middle", "5", "c"), ("small", "1", "a"))
    assert words.saving(money(savings=savings), 3) == words.saving(money(savings=savings), 4) == rows
    assert words.saving(money(savings=savings), 1) == (rows[0], ("2 further steps", "6", "alike"))
    assert words.saving(money(), 1) == ()


def test_groups_of_energy_that_are_known() -> None:
    some = (EnergyOf("a", 1.0),)
    assert words.energy_groups(EnergyGroups((), (), ())) == ()
    assert words.energy_groups(EnergyGroups(some, (), some)) == (("tenant", some), ("workload", some))
    assert words.energy_groups(EnergyGroups((), some, ())) == (("namespace", some),)


def test_what_a_month_costs() -> None:
    assert words.money_row(spending()) == ("1,234", "101", "42", "59", "7.5")
    whole = words.spent(money())
    assert whole.startswith("Nodes cost 200 EUR a month. Pods pay 101 EUR of it")
    assert whole.endswith("The nodes that could be emptied cost 25 EUR.")
    assert "59 EUR of that is idle, of which 7.5 EUR could be lent. 90 EUR is for what nobody asked for, of" in whole
    unpriced = words.spent(money(1, spending(unpriced=2)))
    assert unpriced == f"{whole} 1 node without a price, with 2 pods, left out."
    assert words.spent(money(0, spending(unmeasured=1))) == f"{whole} 1 pod whose use is unknown count as wholly used."


def test_an_amount_beside_its_range_says_what_the_range_is_of() -> None:
    assert words.lent(figure("a", 516.0, low=517.0, high=521.0)) == "516 (517 to 521 would just keep the risk) cores"
    assert words.lent(figure("a", 6.0, low=5.0, high=7.0)) == "6 (5 to 7) cores"
    assert words.lent(figure("a", 6.0)) == "6 cores"
    assert words.lent(figure("a", None)) == "?"


def test_what_could_be_emptied() -> None:
    def found(empty: int, considered: int, note: str = "") -> str:
        nodes = tuple(f"n{i}" for i in range(empty))
        emptied = (EmptiedNode("n9", 2, 1),) * bool(considered)
        return words.consolidated(report(consolidation=Consolidation(nodes, considered, emptied, (), 8000, 2048, note)))

    none = "node has requests of at most half of its CPU and memory."
    assert found(0, 0) == f"No {none}"
    assert found(1, 0) == f"1 node has no pods to move already. No other {none}"
    could = "Of 3 other nodes at most half requested, 1 could be emptied one by one: 8 cores and 2 GiB"
    fits = " Their pods fit elsewhere by requests alone."
    assert found(2, 3, "quick") == f"2 nodes have no pods to move already. {could} (quick).{fits}"
    assert found(0, 3) == f"{could.replace('other ', '')}.{fits}"


def test_rows_of_trials() -> None:
    squeezed = AssessedFigure("s", "s", 0.126, "%", "d", "i")
    tried = EmptyingTried("r", ("a", "b", "c"), 5, squeezed, 0.1, 2, None, 1234, 7)
    trial = EmptyingTrial("cpu", (tried,), "v")
    assert words.emptying_rows(trial) == [("r", "3", "5", "0.13", "0.10", "2", "?", "7 of 1,234")]
    assert (words.emptied_by(trial, 2), words.emptied_by(trial, 3)) == ("a, b and 1 more", "a, b, c")
    known = replace(tried, nodes=(), squeezed=replace(squeezed, low=0.05, high=0.2), peak_pct=99.6)
    (row,) = words.emptying_rows(replace(trial, rules=(known,)))
    assert (row[3], row[6], words.emptied_by(replace(trial, rules=(known,)), 2)) == ("0.13 (0.05 to 0.20)", "100", "")
    sizes = SizeTried("r", None, 12.345, 0.0)
    assert words.sizes_rows(SizeTrial("cpu", 3, (sizes,), "v")) == [("r", "?", "12.3", "0")]
    assert counted("k", "t", 1.0, "u", "d").interval
