"""Booking: accounts in memory and the journal on disk, kept equal.

A commit whose answer is lost may or may not have been stored, and another replica may have booked meanwhile. The
accounts change only after a successful commit; after any error they are loaded again before the next posting, whose
keys then say what is still missing. One posting at a time.
Limits: a database call may take as long as the database needs; it runs in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cotenant.drivers.journal.journal import ConflictError, Journal
from cotenant.engine.credit.accounts import KEEP_INCIDENTS_MS, Accounts, Posting, StoredAccounts
from cotenant.model.errors import CotenantError
from cotenant.policy.credit.bounds import CreditRules

_log = logging.getLogger(__name__)


class Booking:
    """The accounts of one replica. `wall_ms` is Unix time."""

    def __init__(self, journal: Journal, rules: CreditRules, wall_ms: Callable[[], int]) -> None:
        self._journal = journal
        self._rules = rules
        self._wall_ms = wall_ms
        self._one_at_a_time = asyncio.Lock()
        self._is_loaded = False
        self.accounts = Accounts(rules)
        self.failures = 0  # postings and loads that failed
        self.postings = 0  # stored by this replica

    def outdate(self) -> None:
        """Load the accounts before the next posting: another replica may have booked."""
        self._is_loaded = False

    async def book(self, propose: Callable[[Accounts], Posting | None]) -> Posting | None:
        """Store what `propose` returns for the current accounts; None if there is nothing to book. Raises
        `CotenantError` where it is not known to be stored.
        """
        async with self._one_at_a_time:
            for _ in range(3):
                try:
                    if not self._is_loaded:
                        await self._load()
                    posting = propose(self.accounts)
                    if posting is None:
                        return None
                    self._is_loaded = False  # until the commit is known
                    await asyncio.to_thread(
                        self._journal.post,
                        posting.revision,
                        posting.period,
                        posting.period_end_ms,
                        posting.entries,
                    )
                except ConflictError as error:
                    _log.info("%s; loading the accounts again", error)
                    continue
                except CotenantError:
                    self.failures += 1
                    raise
                self.accounts.committed(posting)
                self._is_loaded = True
                self.postings += 1
                return posting
            self.failures += 1
            raise ConflictError("credit: other writers posted three times in a row")

    async def refresh(self) -> None:
        """Load the accounts."""
        async with self._one_at_a_time:
            await self._load()

    async def _load(self) -> None:
        found = await asyncio.to_thread(self._journal.contents, self._wall_ms() - 2 * KEEP_INCIDENTS_MS)
        stored = StoredAccounts(found.revision, found.period, found.period_end_ms, found.balances, found.incidents)
        self.accounts = Accounts(self._rules, stored)
        self._is_loaded = True
