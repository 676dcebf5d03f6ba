"""Decay and bounds of balances.

Without them a tenant that lent for a month could take precedence for the next month, and one in debt could never
recover. Every balance moves towards zero with a half-life, and the part beyond a bound goes back to the house (a debt
beyond it is forgiven). Both are entries like any other, so that the sum stays zero.
Limits: the half-life is applied at the end of each period, rounded towards keeping the balance; below about a
thousandth of a credit nothing decays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.policy.credit.entries import HOUSE, CreditEntry, EntryCause, tenant_of

_PARTS = 10**9


@dataclass(frozen=True, slots=True)
class CreditRules:
    """How fast balances decay, and how large they may become."""

    half_life_s: int = 86_400
    bound_milli: int = 100_000  # 100 core-hours, in either direction

    def __post_init__(self) -> None:
        if self.half_life_s < 60:
            raise InvalidInput("credit: half-life", self.half_life_s, "60 seconds or more")
        if not 1000 <= self.bound_milli <= 10**12:
            raise InvalidInput("credit: bound", self.bound_milli, f"1000 to {10**12} milli-credits")


DEFAULTS = CreditRules()


def decay_and_bound(
    balances: Mapping[str, int], period: int, at_ms: int, lasted_ms: int, rules: CreditRules = DEFAULTS
) -> tuple[CreditEntry, ...]:
    """The entries that let the balances decay over `lasted_ms` and bring them within the bound."""
    entries: list[CreditEntry] = []
    share = round(_PARTS * (1.0 - 0.5 ** (lasted_ms / (1000.0 * rules.half_life_s))))
    for account in sorted(balances):
        tenant = tenant_of(account)
        if not tenant:
            continue  # the house balances the sum
        balance = balances[account]
        decayed = abs(balance) * share // _PARTS
        beyond = max(0, abs(balance) - decayed - rules.bound_milli)
        for cause, milli in ((EntryCause.DECAYED, decayed), (EntryCause.BOUNDED, beyond)):
            if milli:
                payer, payee = (account, HOUSE) if balance > 0 else (HOUSE, account)
                figures = (("balance_milli", balance), ("bound_milli", rules.bound_milli))
                entries.append(
                    CreditEntry(f"{period}/{cause.value}/{tenant}", at_ms, cause, payer, payee, milli, figures)
                )
    return tuple(entries)
