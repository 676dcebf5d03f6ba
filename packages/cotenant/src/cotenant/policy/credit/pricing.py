"""What earns and what costs in one period, as journal entries.

A tenant that lends its guaranteed quota gets nothing for it, and one that borrows, declares too much or disturbs others
pays nothing.

    borrowed    pays 1 credit for a core-hour above its guarantee
    lent        the idle guarantee earns the same, for the part that others borrowed; idle guarantees share it in
                proportion
    unused      pays 1 credit more for a core-hour that was borrowed and, by measurement, not used
    shared      what was paid beyond `lent` is the price of unreserved capacity: each tenant receives its share, in
                proportion to guarantees
    declared    measured use within the declared amount, and at least half of it, earns 0.05 a core-hour used
    exceeded    measured use above the declared amount pays 1 a core-hour
    interfered  harm, in core-hours that the victim lost, times confidence; nothing below 0.8 confidence. The victim
    receives it if its objective was missed

An incident whose culprit was proven by limiting it counts in full; one that was cleared afterwards is reversed by the
same amount (engine/credit). CPU, memory and whole GPUs are priced alike, each by itself: a core-hour costs as much as 8
GiB-hours or a twentieth of a GPU-hour, and idle memory is lent for memory only. The declared amount is the sum of
requests of running pods, so whoever requests more than its pods use pays for borrowing that it does not need and earns
less for declaring. Tenants that borrow in proportion to their guarantees, and use it, neither gain nor lose by it: who
owes whom does not depend on how much is unreserved. Shares are integers by largest remainder. Limits: where use was not
measured, which is always so for GPUs, neither `declared` nor `exceeded` applies. The rates are choices of this project,
not measured optima.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import InvalidInput
from cotenant.policy.credit.entries import HOUSE, CreditEntry, EntryCause, Evidence, account_of

HOUR_MS = 3_600_000
MAX_CPU_MILLI = 10**12
MAX_BYTES = 10**18
DECLARED_PERMILLE = 50  # of a core-hour used
CLOSE_PERMILLE = 500  # of the declared amount must be used to earn
CONFIDENT_PERMILLE = 800


class Priced(StrEnum):
    """The resources that are priced."""

    CPU = "cpu"  # milli-CPU
    MEMORY = "memory"  # bytes
    GPU = "gpu"  # whole devices


@dataclass(frozen=True, slots=True)
class Price:
    """`milli` milli-credits for `amount` of a resource in an hour; `unit` names the amounts in evidence."""

    milli: int
    amount: int
    unit: str
    most: int


PRICES = {
    Priced.CPU: Price(1000, 1000, "milli_cpu", MAX_CPU_MILLI),
    Priced.MEMORY: Price(1000, 8 << 30, "bytes", MAX_BYTES),
    Priced.GPU: Price(20_000, 1, "gpus", MAX_CPU_MILLI),
}


@dataclass(frozen=True, slots=True)
class PeriodUse:
    """One tenant's use of one resource in one period, as means over the period. `measured` None = unknown."""

    tenant: str
    guaranteed: int
    declared: int  # sum of the requests of running pods, which is what quotas count as used
    measured: int | None = None
    resource: Priced = Priced.CPU

    def __post_init__(self) -> None:
        price = PRICES[self.resource]
        for name in ("guaranteed", "declared", "measured"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= price.most:
                raise InvalidInput(f"credit: {name} of {self.tenant}", value, f"0 to {price.most} {price.unit}")


class CauseVerdict(StrEnum):
    """How far the cause of an incident is established."""

    ATTRIBUTED = "attributed"  # by evidence, with a confidence
    PROVEN = "proven"  # the victim improved while the culprit was limited
    CLEARED = "cleared"  # limiting it did not help, or another cause was found


@dataclass(frozen=True, slots=True)
class Interference:
    """Harm that was attributed. `key` names the incident; the same key is booked once."""

    key: str
    at_ms: int
    culprit: str
    victim: str
    harm_milli: int  # milli-core-hours that the victim lost
    confidence_permille: int
    objective_missed: bool = False
    evidence: Evidence = ()
    verdict: CauseVerdict = CauseVerdict.ATTRIBUTED

    def __post_init__(self) -> None:
        if not self.key or "/" in self.key:
            raise InvalidInput("interference.key", self.key, "a name without /")
        if not 0 <= self.harm_milli <= MAX_CPU_MILLI:
            raise InvalidInput("interference.harm_milli", self.harm_milli, f"0 to {MAX_CPU_MILLI}")
        if not 0 <= self.confidence_permille <= 1000:
            raise InvalidInput("interference.confidence_permille", self.confidence_permille, "0 to 1000")


def price_use(uses: Sequence[PeriodUse], period: int, at_ms: int, lasted_ms: int) -> tuple[CreditEntry, ...]:
    """The entries of one period of `lasted_ms`. A tenant has at most one use of each resource."""
    if len({(use.tenant, use.resource) for use in uses}) < len(uses):
        raise InvalidInput("credit: tenants", len(uses), "each tenant once for each resource")
    entries: list[CreditEntry] = []
    for resource in Priced:
        of_resource = sorted((use for use in uses if use.resource is resource), key=lambda use: use.tenant)
        entries += _price_resource(of_resource, resource, period, at_ms, lasted_ms)
    return tuple(entries)


def _price_resource(
    uses: Sequence[PeriodUse], resource: Priced, period: int, at_ms: int, lasted_ms: int
) -> list[CreditEntry]:
    price = PRICES[resource]
    entries: list[CreditEntry] = []

    def cost(amount: int) -> int:
        return amount * lasted_ms * price.milli // (price.amount * HOUR_MS)

    def add(cause: EntryCause, tenant: str, milli: int, figures: Sequence[tuple[str, int]], *, earns: bool) -> None:
        if milli > 0:
            account = account_of(tenant)
            payer, payee = (HOUSE, account) if earns else (account, HOUSE)
            name = cause.value if resource is Priced.CPU else f"{cause.value}-{resource.value}"
            evidence = (
                *((f"{figure}_{price.unit}", amount) for figure, amount in figures),
                ("seconds", lasted_ms // 1000),
            )
            entries.append(CreditEntry(f"{period}/{name}/{tenant}", at_ms, cause, payer, payee, milli, evidence))

    borrowed = [max(0, use.declared - use.guaranteed) for use in uses]
    idle = [max(0, use.guaranteed - use.declared) for use in uses]
    prices = [cost(amount) for amount in borrowed]
    for use, amount, milli in zip(uses, borrowed, prices, strict=True):
        compared = (("guaranteed", use.guaranteed), ("declared", use.declared), ("borrowed", amount))
        add(EntryCause.BORROWED, use.tenant, milli, compared, earns=False)
    unused = [
        0 if use.measured is None else cost(min(more, max(0, use.declared - use.measured)))
        for use, more in zip(uses, borrowed, strict=True)
    ]
    for use, more, milli in zip(uses, borrowed, unused, strict=True):
        not_used = (("borrowed", more), ("declared", use.declared), ("measured", use.measured or 0))
        add(EntryCause.UNUSED, use.tenant, milli, not_used, earns=False)
    lent = min(sum(prices), cost(sum(idle)))
    for use, amount, milli in zip(uses, idle, _apportion(lent, idle), strict=True):
        figures = (
            ("guaranteed", use.guaranteed),
            ("declared", use.declared),
            ("idle", amount),
            ("borrowed_by_all", sum(borrowed)),
        )
        add(EntryCause.LENT, use.tenant, milli, figures, earns=True)
    guarantees = [use.guaranteed for use in uses]
    for use, milli in zip(uses, _apportion(sum(prices) + sum(unused) - lent, guarantees), strict=True):
        parts = (
            ("guaranteed", use.guaranteed),
            ("guaranteed_to_all", sum(guarantees)),
            ("borrowed_by_all", sum(borrowed)),
        )
        add(EntryCause.SHARED, use.tenant, milli, parts, earns=True)
    for use in uses:
        if use.measured is None:
            continue
        measures = (("declared", use.declared), ("measured", use.measured))
        if use.measured > use.declared:
            add(EntryCause.EXCEEDED, use.tenant, cost(use.measured - use.declared), measures, earns=False)
        elif use.measured * 1000 >= use.declared * CLOSE_PERMILLE:
            add(EntryCause.DECLARED, use.tenant, cost(use.measured * DECLARED_PERMILLE // 1000), measures, earns=True)
    return entries


def price_interference(fact: Interference) -> tuple[CreditEntry, ...]:
    """The entry of one incident; none below the required confidence, without harm between two tenants, or of a
    cleared one.
    """
    confidence = 1000 if fact.verdict is CauseVerdict.PROVEN else fact.confidence_permille
    milli = fact.harm_milli * confidence // 1000
    if (
        fact.verdict is CauseVerdict.CLEARED
        or confidence < CONFIDENT_PERMILLE
        or not milli
        or fact.culprit == fact.victim
    ):
        return ()
    cause = EntryCause.COMPENSATED if fact.objective_missed else EntryCause.INTERFERED
    payee = account_of(fact.victim) if fact.objective_missed else HOUSE
    evidence: Evidence = (
        ("victim", fact.victim),
        ("harm_milli_core_hours", fact.harm_milli),
        ("confidence_permille", fact.confidence_permille),
        *((("verdict", fact.verdict.value),) if fact.verdict is CauseVerdict.PROVEN else ()),
        *fact.evidence,
    )
    return (CreditEntry(incident_key(fact.key), fact.at_ms, cause, account_of(fact.culprit), payee, milli, evidence),)


def incident_key(key: str) -> str:
    """The key of the entry that an incident is booked under."""
    return f"incident/{key}"


def _apportion(total: int, weights: Sequence[int]) -> list[int]:
    """`total` in proportion to the weights, whole units by largest remainder, ties by position."""
    whole = sum(weights)
    if whole == 0:
        return [0] * len(weights)
    parts = [total * weight // whole for weight in weights]
    order = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    for i in order[: total - sum(parts)]:
        parts[i] += 1
    return parts
