"""Journal entries: double-entry transfers of milli-credits between accounts.

Credit that appears or vanishes by an error of rounding or of booking makes every balance meaningless. One entry moves a
positive integer from a payer to a payee, so the sum over all accounts is zero by construction; what does not come from
another tenant comes from the house account. An entry has its cause and the figures from which its amount was computed.
Limits: one credit is one core borrowed for one hour; other resources are priced in it (pricing.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import InvalidInput

HOUSE = "house"
MAX_MILLI = 10**15  # of one entry: far above any real amount, and within 64 bits for every sum
_TENANT = "tenant/"

Evidence = tuple[tuple[str, int | str], ...]


class EntryCause(StrEnum):
    """Why an amount was moved."""

    LENT = "lent"  # guaranteed quota was idle, and others used it
    DECLARED = "declared"  # measured use was within what was declared, and near it
    BORROWED = "borrowed"  # use above the guarantee
    UNUSED = "unused"  # borrowed, and by measurement not used
    SHARED = "shared"  # others used unreserved capacity, of which each guarantee has its share
    EXCEEDED = "exceeded"  # measured use was above what was declared
    INTERFERED = "interfered"  # harm attributed with confidence; no objective was missed
    COMPENSATED = "compensated"  # the same where the victim missed an objective: the victim receives it
    REVERSED = "reversed"  # an incident whose culprit was cleared afterwards: the same amount back
    DECAYED = "decayed"  # a balance moves towards zero with time
    BOUNDED = "bounded"  # the part of a balance beyond the bound


@dataclass(frozen=True, slots=True)
class CreditEntry:
    """One transfer. `key` is unique; the same key means the same transfer. `at_ms` is Unix time."""

    key: str
    at_ms: int
    cause: EntryCause
    payer: str
    payee: str
    milli: int
    evidence: Evidence = ()

    def __post_init__(self) -> None:
        if not self.key:
            raise InvalidInput("entry.key", self.key, "a key")
        if not 0 < self.milli <= MAX_MILLI:
            raise InvalidInput("entry.milli", self.milli, f"1 to {MAX_MILLI} milli-credits")
        if self.payer == self.payee or not self.payer or not self.payee:
            raise InvalidInput("entry.payee", self.payee, "an account other than the payer")

    @property
    def explanation(self) -> str:
        """The cause and the figures as one sentence."""
        figures = ", ".join(f"{name} {value}" for name, value in self.evidence)
        text = f"{self.payer} paid {credits_text(self.milli)} to {self.payee}: {self.cause.value}"
        return f"{text} ({figures})" if figures else text


def account_of(tenant: str) -> str:
    """The account of a tenant. Raises `InvalidInput` for an empty name."""
    if not tenant:
        raise InvalidInput("tenant", tenant, "a name")
    return _TENANT + tenant


def tenant_of(account: str) -> str:
    """The tenant of an account; empty for the house."""
    return account.removeprefix(_TENANT) if account.startswith(_TENANT) else ""


def apply(balances: dict[str, int], entries: Iterable[CreditEntry]) -> None:
    """Book the entries on balances in milli-credits."""
    for entry in entries:
        balances[entry.payer] = balances.get(entry.payer, 0) - entry.milli
        balances[entry.payee] = balances.get(entry.payee, 0) + entry.milli


def credits_text(milli: int) -> str:
    """Milli-credits as credits with three digits."""
    sign = "-" if milli < 0 else ""
    return f"{sign}{abs(milli) // 1000}.{abs(milli) % 1000:03d}"
