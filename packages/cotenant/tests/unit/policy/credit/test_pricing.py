"""What earns and what costs, in figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.credit.bounds import CreditRules, decay_and_bound
from cotenant.policy.credit.entries import HOUSE, CreditEntry, EntryCause, account_of, apply, credits_text, tenant_of
from cotenant.policy.credit.pricing import (
    HOUR_MS,
    CauseVerdict,
    Interference,
    PeriodUse,
    Priced,
    price_interference,
    price_use,
)
from cotenant.policy.credit.standing import standing


def balances(entries: tuple[CreditEntry, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    apply(found, entries)
    return found


def test_a_borrower_pays_and_the_lender_earns_a_credit_for_a_core_hour() -> None:
    entries = price_use([PeriodUse("a", 10_000, 6_000), PeriodUse("b", 10_000, 13_000)], 1, 0, HOUR_MS)
    assert balances(entries) == {"tenant/a": 3000, "tenant/b": -3000, HOUSE: 0}


def test_idle_guarantees_share_what_was_borrowed_to_the_last_unit() -> None:
    uses = [PeriodUse("a", 100, 0), PeriodUse("b", 100, 0), PeriodUse("c", 100, 0), PeriodUse("d", 0, 100)]
    found = balances(price_use(uses, 1, 0, HOUR_MS))
    assert sorted(found[account_of(name)] for name in "abc") == [33, 33, 34]
    assert found[account_of("d")] == -100


def test_the_price_of_unreserved_capacity_is_returned_in_proportion_to_guarantees() -> None:
    found = balances(price_use([PeriodUse("a", 1_000, 500), PeriodUse("b", 0, 2_000)], 1, 0, HOUR_MS))
    assert found == {"tenant/a": 500 + 1500, "tenant/b": -2000, HOUSE: 0}
    uses = [PeriodUse("a", 1_000, 4_000, 4_000), PeriodUse("b", 3_000, 12_000, 12_000), PeriodUse("c", 0, 0)]
    found = balances(tuple(entry for entry in price_use(uses, 1, 0, HOUR_MS) if entry.cause is not EntryCause.DECLARED))
    assert set(found.values()) == {0}  # both borrow three times their guarantee
    without = [PeriodUse("a", 0, 2_000)]
    assert balances(price_use(without, 1, 0, HOUR_MS)) == {"tenant/a": -2000, HOUSE: 2000}


def test_who_borrows_more_than_is_used_pays_those_who_do_not() -> None:
    uses = [PeriodUse("honest", 1_000, 4_000, 4_000), PeriodUse("selfish", 1_000, 4_000, 2_000)]
    entries = price_use(uses, 1, 0, HOUR_MS)
    found = balances(tuple(entry for entry in entries if entry.cause is not EntryCause.DECLARED))
    assert found == {"tenant/honest": 1000, "tenant/selfish": -1000, HOUSE: 0}
    within = price_use([PeriodUse("a", 4_000, 4_000, 0)], 1, 0, HOUR_MS)
    assert within == ()  # a guarantee may be left unused
    unknown = price_use([PeriodUse("a", 0, 4_000, None)], 1, 0, HOUR_MS)
    assert [entry.cause for entry in unknown] == [EntryCause.BORROWED]


def test_memory_and_gpus_are_priced_in_core_hours() -> None:
    memory = [
        PeriodUse("a", 32 << 30, 0, None, Priced.MEMORY),
        PeriodUse("b", 8 << 30, 24 << 30, 30 << 30, Priced.MEMORY),
    ]
    found = balances(price_use(memory, 1, 0, HOUR_MS))
    assert found == {"tenant/a": 2000, "tenant/b": -2750, HOUSE: 750}  # 16 GiB borrowed, 6 above what it declared
    gpus = [PeriodUse("a", 4, 2, None, Priced.GPU), PeriodUse("b", 0, 1, None, Priced.GPU)]
    assert balances(price_use(gpus, 1, 0, HOUR_MS)) == {"tenant/a": 20_000, "tenant/b": -20_000, HOUSE: 0}


def test_a_proven_incident_counts_in_full_and_a_cleared_one_not_at_all() -> None:
    fact = Interference("n1-7", 5, "bad", "good", 1_000, 600, True, verdict=CauseVerdict.PROVEN)
    assert balances(price_interference(fact)) == {"tenant/bad": -1000, "tenant/good": 1000}
    assert price_interference(replace(fact, verdict=CauseVerdict.ATTRIBUTED)) == ()
    assert price_interference(replace(fact, verdict=CauseVerdict.CLEARED)) == ()


@pytest.mark.parametrize(
    ("declared", "measured", "milli", "cause"),
    [
        (10_000, 8_000, 400, EntryCause.DECLARED),
        (10_000, 10_000, 500, EntryCause.DECLARED),
        (10_000, 12_000, -2_000, EntryCause.EXCEEDED),
        (10_000, 4_999, 0, None),  # declares more than twice what it uses
        (10_000, None, 0, None),
    ],
)
def test_use_is_compared_with_what_was_declared(
    declared: int, measured: int | None, milli: int, cause: EntryCause | None
) -> None:
    entries = price_use([PeriodUse("a", declared, declared, measured)], 1, 0, HOUR_MS)
    assert balances(entries).get("tenant/a", 0) == milli
    assert [entry.cause for entry in entries] == ([cause] if cause else [])


def test_interference_counts_from_the_required_confidence_and_compensates_a_missed_objective() -> None:
    def incident(confidence: int, missed: bool) -> dict[str, int]:
        fact = Interference("n1-7", 5, "bad", "good", 1_000, confidence, missed)
        return balances(price_interference(fact))

    assert incident(799, True) == {}
    assert incident(800, False) == {"tenant/bad": -800, HOUSE: 800}
    assert incident(900, True) == {"tenant/bad": -900, "tenant/good": 900}


def test_a_tenant_that_disturbs_itself_pays_nothing() -> None:
    assert price_interference(Interference("x", 0, "a", "a", 1_000, 1_000)) == ()


def test_balances_halve_in_a_half_life_and_stay_within_the_bound() -> None:
    rules = CreditRules(half_life_s=3600, bound_milli=10_000)
    before = {"tenant/a": 8_000, "tenant/b": -50_000, HOUSE: 42_000}
    entries = decay_and_bound(before, 1, 0, HOUR_MS, rules)
    apply(before, entries)
    assert before == {"tenant/a": 4_000, "tenant/b": -10_000, HOUSE: 6_000}


def test_entries_have_evidence_and_unique_keys() -> None:
    entries = price_use([PeriodUse("a", 0, 5_000, 4_000), PeriodUse("b", 9_000, 0)], 3, 0, HOUR_MS)
    assert len({entry.key for entry in entries}) == len(entries) == 5
    assert entries[0].explanation == (
        "tenant/a paid 5.000 to house: borrowed "
        "(guaranteed_milli_cpu 0, declared_milli_cpu 5000, borrowed_milli_cpu 5000, seconds 3600)"
    )


def test_standing_is_bounded_and_steps_towards_zero() -> None:
    rules = CreditRules(bound_milli=1000)
    assert [standing(milli, rules) for milli in (-5000, -99, -49, 0, 49, 99, 1000)] == [-1000, -50, 0, 0, 0, 50, 1000]


def test_texts_of_accounts_and_amounts() -> None:
    assert [credits_text(milli) for milli in (-1, 0, 1500)] == ["-0.001", "0.000", "1.500"]
    assert (tenant_of("tenant/a/b"), tenant_of(HOUSE)) == ("a/b", "")


def test_bad_facts_are_refused() -> None:
    with pytest.raises(InvalidInput):
        PeriodUse("a", -1, 0)
    with pytest.raises(InvalidInput):
        price_use([PeriodUse("a", 0, 0), PeriodUse("a", 0, 0)], 1, 0, HOUR_MS)
    with pytest.raises(InvalidInput):
        Interference("a/b", 0, "a", "b", 1, 900)
    with pytest.raises(InvalidInput):
        CreditEntry("k", 0, EntryCause.LENT, "a", "a", 1)
    with pytest.raises(InvalidInput):
        CreditRules(half_life_s=1)
