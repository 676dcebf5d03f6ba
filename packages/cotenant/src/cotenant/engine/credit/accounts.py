"""The accounts: a state machine that turns facts of periods and incidents into postings.

A process that stops between deciding and storing must repeat its work without booking anything twice. A posting
(`Posting`) is proposed from the present balances and changes nothing; the caller stores it as one transaction, and
`committed` applies it. A period has a number and is booked once; an incident is booked once by its key, and one that is
cleared afterwards is reversed once, by an entry of the same amount. A posting states the revision on which it was
computed, so that a store refuses one that was computed from outdated balances.
Limits: keys of incidents are kept for `KEEP_INCIDENTS_MS`; an incident that is older than that is refused, because it
could have been booked before. Only observed time is booked: `lasted_ms` may be shorter than the time between two
periods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cotenant.model.errors import Permanent
from cotenant.policy.credit.bounds import DEFAULTS, CreditRules, decay_and_bound
from cotenant.policy.credit.entries import CreditEntry, EntryCause, account_of, apply, tenant_of
from cotenant.policy.credit.pricing import (
    CauseVerdict,
    Interference,
    PeriodUse,
    incident_key,
    price_interference,
    price_use,
)
from cotenant.policy.credit.standing import standing

KEEP_INCIDENTS_MS = 86_400_000
FUTURE_MS = 60_000  # tolerated difference of clocks


class IncidentEntry(NamedTuple):
    """What is kept of an incident's entry: enough to refuse it a second time, and to reverse it."""

    key: str
    at_ms: int
    payer: str
    payee: str
    milli: int


@dataclass(frozen=True, slots=True)
class Posting:
    """Entries to store in one transaction. `revision` is the number of postings before; `period` the last period
    booked afterwards.
    """

    revision: int
    period: int
    period_end_ms: int
    entries: tuple[CreditEntry, ...]


@dataclass(frozen=True, slots=True)
class StoredAccounts:
    """What a store returns: enough to go on where the last stored posting ended. `incidents`: the entries of
    incidents of at least `KEEP_INCIDENTS_MS`.
    """

    revision: int = 0
    period: int = 0
    period_end_ms: int = 0
    balances: tuple[tuple[str, int], ...] = ()
    incidents: tuple[tuple[str, int, str, str, int], ...] = ()  # as `IncidentEntry`


class Accounts:
    """Balances in milli-credits by account. Their sum is always zero."""

    def __init__(self, rules: CreditRules = DEFAULTS, stored: StoredAccounts | None = None) -> None:
        stored = stored or StoredAccounts()
        self.rules = rules
        self.revision = stored.revision
        self.period = stored.period
        self.period_end_ms = stored.period_end_ms
        self._balances = dict(stored.balances)
        self._incidents = {incident[0]: IncidentEntry(*incident) for incident in stored.incidents}
        self.validate()

    @property
    def balances(self) -> Mapping[str, int]:
        """Every account's balance, the house included."""
        return self._balances

    def period_ended(self, period: int, at_ms: int, lasted_ms: int, uses: Sequence[PeriodUse]) -> Posting | None:
        """The posting of a period; None if this or a later one was booked. `lasted_ms`: the observed part of it."""
        if period <= self.period:
            return None
        entries = list(price_use(uses, period, at_ms, lasted_ms))
        after = dict(self._balances)
        apply(after, entries)
        entries += decay_and_bound(after, period, at_ms, lasted_ms, self.rules)
        return Posting(self.revision, period, at_ms, tuple(entries))

    def interfered(self, fact: Interference, now_ms: int) -> Posting | None:
        """The posting of an incident, or of its reversal; None if it was booked, is outdated or of the future, or
        gives no entry.
        """
        if not now_ms - KEEP_INCIDENTS_MS < fact.at_ms <= now_ms + FUTURE_MS:
            return None
        found = self._reversal(fact) if fact.verdict is CauseVerdict.CLEARED else price_interference(fact)
        entries = tuple(entry for entry in found if entry.key not in self._incidents)
        return Posting(self.revision, self.period, self.period_end_ms, entries) if entries else None

    def committed(self, posting: Posting) -> None:
        """Apply a posting that was stored. Raises `Permanent` where it is not the next one."""
        if posting.revision != self.revision:
            raise Permanent(f"credit: posting on revision {posting.revision}, the accounts are at {self.revision}")
        apply(self._balances, posting.entries)
        self._incidents |= incidents_of(posting.entries)
        oldest = max((incident.at_ms for incident in self._incidents.values()), default=0) - 2 * KEEP_INCIDENTS_MS
        self._incidents = {key: incident for key, incident in self._incidents.items() if incident.at_ms > oldest}
        self.revision += 1
        self.period, self.period_end_ms = posting.period, posting.period_end_ms

    def standing_of(self, tenant: str) -> int:
        """The tenant's standing, -1000 to 1000; 0 for one without an account."""
        return standing(self._balances.get(account_of(tenant), 0), self.rules)

    def tenants(self) -> tuple[str, ...]:
        """Tenants with an account, by name."""
        return tuple(sorted(name for account in self._balances if (name := tenant_of(account))))

    def incidents(self) -> tuple[IncidentEntry, ...]:
        """The entries of incidents that are kept."""
        return tuple(self._incidents.values())

    def _reversal(self, fact: Interference) -> tuple[CreditEntry, ...]:
        """The entry that returns what the incident moved; none if it was not booked."""
        booked = self._incidents.get(incident_key(fact.key))
        if booked is None:
            return ()
        evidence = (("reverses", booked.key), *fact.evidence)
        key = f"{booked.key}/cleared"
        return (CreditEntry(key, fact.at_ms, EntryCause.REVERSED, booked.payee, booked.payer, booked.milli, evidence),)

    def validate(self) -> None:
        """Check that nothing was created or lost. Raises `Permanent`."""
        if sum(self._balances.values()):
            raise Permanent(f"credit: the sum of all accounts is {sum(self._balances.values())}, not 0")


def incidents_of(entries: Iterable[CreditEntry]) -> dict[str, IncidentEntry]:
    """The entries that stand for incidents and their reversals, by key."""
    return {
        entry.key: IncidentEntry(entry.key, entry.at_ms, entry.payer, entry.payee, entry.milli)
        for entry in entries
        if entry.key.startswith(incident_key(""))
    }
