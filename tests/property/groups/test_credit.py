"""Credit is conserved, bounded, and booked once, after any sequence of facts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.engine.credit.accounts import Accounts, Posting, StoredAccounts
from cotenant.policy.credit.bounds import CreditRules
from cotenant.policy.credit.entries import HOUSE, EntryCause
from cotenant.policy.credit.pricing import HOUR_MS, PRICES, CauseVerdict, Interference, PeriodUse, Priced, price_use

RULES = CreditRules(half_life_s=3600, bound_milli=50_000)
NAMES = st.sampled_from("abcd")
CPU = st.integers(0, 10**7)
BYTES = st.integers(0, 1 << 45)
USES = st.builds(PeriodUse, NAMES, CPU, CPU, st.none() | CPU, st.sampled_from(Priced)) | st.builds(
    PeriodUse, NAMES, BYTES, BYTES, st.none() | BYTES, st.just(Priced.MEMORY)
)
PERIODS = st.tuples(
    st.integers(1, 12),
    st.lists(USES, max_size=6, unique_by=lambda use: (use.tenant, use.resource)),
    st.integers(0, 7_200_000),
)
INCIDENTS = st.builds(
    Interference,
    st.sampled_from(["i1", "i2", "i3"]),
    st.integers(0, 10**6),
    NAMES,
    NAMES,
    CPU,
    st.integers(0, 1000),
    st.booleans(),
    st.just(()),
    st.sampled_from(CauseVerdict),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(PERIODS | INCIDENTS, max_size=12), st.integers(0, 11))
def test_any_sequence(facts: list[tuple[int, list[PeriodUse], int] | Interference], restart_at: int) -> None:
    accounts = Accounts(RULES)
    keys: list[str] = []
    for step, fact in enumerate(facts):
        if step == restart_at:  # a restart from what was stored changes nothing
            accounts = Accounts(
                RULES,
                StoredAccounts(
                    accounts.revision,
                    accounts.period,
                    accounts.period_end_ms,
                    tuple(accounts.balances.items()),
                    accounts.incidents(),
                ),
            )
        posting: Posting | None
        if isinstance(fact, Interference):
            posting = accounts.interfered(fact, 10**6)
        else:
            posting = accounts.period_ended(fact[0], step, fact[2], fact[1])
        before = dict(accounts.balances)
        if posting is None:
            continue
        assert dict(accounts.balances) == before  # a proposal changes nothing
        accounts.committed(posting)
        accounts.validate()
        keys += [entry.key for entry in posting.entries]
        if not isinstance(fact, Interference):
            bounded = [abs(milli) <= RULES.bound_milli for name, milli in accounts.balances.items() if name != HOUSE]
            assert all(bounded)
            assert accounts.period_ended(fact[0], step, fact[2], fact[1]) is None
        else:
            assert accounts.interfered(fact, 10**6) is None
    assert len(set(keys)) == len(keys)
    assert all(-1000 <= accounts.standing_of(name) <= 1000 for name in accounts.tenants())


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(USES, max_size=8, unique_by=lambda use: (use.tenant, use.resource)), st.integers(0, 7_200_000))
def test_each_resource_is_priced_by_itself_and_lenders_never_earn_more_than_borrowers_pay(
    uses: list[PeriodUse], lasted_ms: int
) -> None:
    entries = price_use(uses, 1, 0, lasted_ms)
    apart = [entry for one in Priced for entry in price_use([u for u in uses if u.resource is one], 1, 0, lasted_ms)]
    assert list(entries) == apart
    for one in Priced:
        unit = PRICES[one].unit
        of_one = [entry for entry in entries if entry.evidence[0][0].endswith(unit)]
        lent = sum(entry.milli for entry in of_one if entry.cause is EntryCause.LENT)
        borrowed = [entry for entry in of_one if entry.cause is EntryCause.BORROWED]
        assert lent <= sum(entry.milli for entry in borrowed)
        for entry in borrowed:
            amount = dict(entry.evidence)[f"borrowed_{unit}"]
            assert isinstance(amount, int)
            exact = amount * lasted_ms * PRICES[one].milli / (PRICES[one].amount * HOUR_MS)
            assert exact - 1 <= entry.milli <= exact * (1 + 1e-9)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(INCIDENTS, max_size=10))
def test_a_reversal_returns_exactly_what_its_incident_moved_once(facts: list[Interference]) -> None:
    accounts = Accounts(RULES)
    booked: dict[str, dict[str, int]] = {}
    for fact in facts:
        before = dict(accounts.balances)
        posting = accounts.interfered(fact, 10**6)
        if posting is None:
            continue
        accounts.committed(posting)
        change = {name: milli - before.get(name, 0) for name, milli in accounts.balances.items()}
        moved = {name: milli for name, milli in change.items() if milli}
        if fact.verdict is CauseVerdict.CLEARED:
            assert moved == {name: -milli for name, milli in booked.pop(fact.key).items()}
        else:
            assert fact.key not in booked
            booked[fact.key] = moved
    expected: dict[str, int] = {}
    for moved in booked.values():
        for name, milli in moved.items():
            expected[name] = expected.get(name, 0) + milli
    assert {name: milli for name, milli in accounts.balances.items() if milli} == {
        n: m for n, m in expected.items() if m
    }
