from __future__ import annotations

import pytest
from tests.unit.policy.quota.shapes import cpu, quota

from cotenant.model.arrays import Int
from cotenant.model.compiled import njit
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_decision import DecisionTerm
from cotenant.model.resources import Amounts
from cotenant.policy.quota.headroom import HeadroomRules, LimitKind, shortages, summary
from cotenant.policy.quota.headroom_arrays import HeadroomTable, QuotaArrays, quota_add_use, quota_fits
from cotenant.policy.quota.tree import QuotaTree


@njit
def ask(quotas: QuotaArrays, row: int, request: Int, preemptible: bool) -> bool:
    return quota_fits(quotas, row, request, preemptible)


@njit
def add_use(quotas: QuotaArrays, row: int, request: Int, sign: int, preemptible: bool) -> None:
    quota_add_use(quotas, row, request, sign, preemptible)


def tree() -> QuotaTree:
    made = QuotaTree(
        [quota("p", 6000, 10_000, is_parent=True), quota("a", 3000, 8000, "p"), quota("b", 3000, 9000, "p")],
        cpu(10_000),
    )
    made.ask("a", cpu(8000))
    made.ask("b", cpu(9000))
    return made


def test_room_up_to_the_runtime_and_the_term_that_holds_beyond() -> None:
    made = tree()
    made.use("a", cpu(4000))
    most = dict(made.runtime("a"))["cpu"]
    assert shortages(made, "a", cpu(most - 4000)) == ()
    (short,) = shortages(made, "a", cpu(most - 3999))
    assert (short.quota, short.limit, short.missing) == ("a", LimitKind.RUNTIME, 1)


def test_a_parent_may_be_what_holds() -> None:
    made = tree()
    made.use("b", cpu(9000))
    assert shortages(made, "a", cpu(2000)) == ()
    (short,) = shortages(made, "a", cpu(2000), rules=HeadroomRules(check_parents=True))
    assert (short.quota, short.missing) == ("p", 1000)
    reason = summary((short,))
    assert reason.text == "p: 1 of cpu short: 9 used + 2 requested > runtime 10"
    assert [term.value for term in reason.terms] == [10_000, -9000, -2000]
    assert sum(term.value for term in reason.terms) == -short.missing


def test_what_may_not_be_preempted_fits_under_the_minimum() -> None:
    made = tree()
    made.use("a", cpu(2000), preemptible=False)
    assert shortages(made, "a", cpu(1000), preemptible=False) == ()
    (short,) = shortages(made, "a", cpu(1001), preemptible=False)
    assert (short.limit, short.allowed, short.missing) == (LimitKind.MINIMUM, 3000, 1)
    assert shortages(made, "a", cpu(1001)) == ()


def test_the_maximum_limits_where_runtimes_are_not_to() -> None:
    assert shortages(tree(), "a", cpu(8000), rules=HeadroomRules(by_runtime=False)) == ()
    (short,) = shortages(tree(), "a", cpu(8001), rules=HeadroomRules(by_runtime=False))
    assert short.limit is LimitKind.MAXIMUM


def test_an_overused_resource_holds_only_pods_that_ask_for_it() -> None:
    made = tree()
    made.use("a", cpu(9000))
    assert shortages(made, "a", Amounts.of({"memory": 5, "cpu": 0})) == ()
    assert summary(()).text == "the quota has headroom"
    assert summary(shortages(made, "a", cpu(1))).terms[1] == DecisionTerm("used", -9000, "milli-CPU")


def test_a_table_is_for_the_quotas_it_was_made_for() -> None:
    made = tree()
    table = HeadroomTable(made)
    made.put(quota("c"))
    with pytest.raises(InvalidInput, match="build a new table"):
        table.copy(made)
    with pytest.raises(InvalidInput, match="of this table"):
        table.row("c")
    assert table.request(Amounts.of({"cpu": 5, "pods": 1})).tolist() == [5]


def test_compiled_the_runtime_limits_all_and_the_minimum_those_that_may_not_be_preempted() -> None:
    table = HeadroomTable(tree())
    row, most = table.row("a"), int(table.arrays.limit[table.row("a"), 0])
    for amount, preemptible, fits in (
        (most, True, True),
        (most + 1, True, False),
        (3000, False, True),
        (3001, False, False),
    ):
        assert ask(table.arrays, row, table.request(cpu(amount)), preemptible) is fits
    add_use(table.arrays, row, table.request(cpu(3000)), 1, False)
    assert ask(table.arrays, row, table.request(cpu(1)), True)
    assert not ask(table.arrays, row, table.request(cpu(1)), False)
    assert ask(table.arrays, row, table.request(cpu(0)), False)
    add_use(table.arrays, row, table.request(cpu(3000)), -1, False)
    assert ask(table.arrays, row, table.request(cpu(1)), False)


def test_compiled_a_parent_counts_where_it_is_asked_for() -> None:
    made = tree()
    made.use("b", cpu(9000))
    for parents in (False, True):
        table = HeadroomTable(made, HeadroomRules(check_parents=parents))
        assert ask(table.arrays, table.row("a"), table.request(cpu(2000)), True) is not parents
        add_use(table.arrays, table.row("a"), table.request(cpu(500)), 1, True)
        assert table.arrays.used[table.row("p"), 0] == 9500
