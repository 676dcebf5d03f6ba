"""A tenant's standing: its balance as a number of -1000 to 1000, the only form in which credit reaches a scheduler.

The standing is the balance over the bound, rounded to steps of 50 towards zero, so that schedulers see a change only
when it matters.
Limits: what the standing influences is bounded where it acts (engine/plugins/quotas/credit.py).
"""

from __future__ import annotations

from cotenant.policy.credit.bounds import DEFAULTS, CreditRules

MOST = 1000
STEP = 50


def standing(balance_milli: int, rules: CreditRules = DEFAULTS) -> int:
    """Permille of the bound, -1000 to 1000, in steps of `STEP`."""
    most = min(MOST, abs(balance_milli) * MOST // rules.bound_milli) // STEP * STEP
    return most if balance_milli >= 0 else -most
