"""Postings of a small cluster, the same at every run, and their storing in a journal."""

from __future__ import annotations

from dataclasses import replace

from cotenant.drivers.journal.journal import Journal
from cotenant.engine.credit.accounts import Accounts, Posting, StoredAccounts
from cotenant.policy.credit.pricing import HOUR_MS, CauseVerdict, Interference, PeriodUse, Priced

LAST_PERIOD = 3


def loaded(journal: Journal) -> Accounts:
    """The accounts that the journal has."""
    found = journal.contents()
    return Accounts(
        stored=StoredAccounts(found.revision, found.period, found.period_end_ms, found.balances, found.incidents)
    )


def due(accounts: Accounts) -> Posting | None:
    """The next posting: a period, and after every second one an incident and its reversal."""
    at_ms = accounts.period * HOUR_MS
    if accounts.period and accounts.period % 2 == 0:
        fact = Interference(f"n1-{accounts.period}", at_ms, "b", "a", 700, 900, True)
        for verdict in (CauseVerdict.ATTRIBUTED, CauseVerdict.CLEARED):
            posting = accounts.interfered(replace(fact, verdict=verdict), at_ms)
            if posting is not None:
                return posting
    if accounts.period == LAST_PERIOD:
        return None
    period = accounts.period + 1
    uses = [PeriodUse("a", 10_000, 4_000 + 100 * period, 3_000), PeriodUse("b", 5_000, 9_000, 9_500)]
    uses += [PeriodUse("a", 64 << 30, 8 << 30, None, Priced.MEMORY), PeriodUse("b", 0, 32 << 30, None, Priced.MEMORY)]
    return accounts.period_ended(period, period * HOUR_MS, HOUR_MS, uses)


def store(journal: Journal, posting: Posting) -> None:
    """Store one posting."""
    journal.post(posting.revision, posting.period, posting.period_end_ms, posting.entries)


def post_all(journal: Journal) -> None:
    """From what the journal has to the end."""
    accounts = loaded(journal)
    while (posting := due(accounts)) is not None:
        store(journal, posting)
        accounts.committed(posting)
