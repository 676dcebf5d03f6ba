"""Settings of elastic quotas.

Installations differ in how strictly quotas are enforced and how soon borrowed resources are revoked. One frozen value.
Defaults are upstream's, except that revocation of overuse is on: without it a quota that lends cannot rely on its
minimum.
Limits: one value for all trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from cotenant.model.errors import InvalidInput
from cotenant.policy.quota.headroom import HeadroomRules


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """How quotas are enforced."""

    by_runtime: bool = True  # False: limit by maximum instead of runtime, without lending
    check_parents: bool = False  # a pod must also fit every ancestor of its quota
    scale_minima: bool = True  # scale minima down in proportion if they exceed the total
    guarantee_use: bool = False  # used resources stay guaranteed to their quota
    preempt: bool = True  # a pod may evict pods of lower priority from its own quota
    revoke: bool = True  # evict pods of a quota over its runtime when other quotas wait for their share
    revoke_after_s: float = 120.0  # continuous overuse before revocation
    credit: bool = False  # the standing on quota objects changes weights and order (engine/plugins/quotas/credit.py)
    status_every_s: float = 5.0  # minimum interval between status updates

    def __post_init__(self) -> None:
        for name in ("revoke_after_s", "status_every_s"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise InvalidInput(f"quota settings: {name}", value, "seconds that are not negative")

    @property
    def rules(self) -> HeadroomRules:
        """The limits that apply to a pod."""
        return HeadroomRules(self.by_runtime, self.check_parents)


DEFAULTS = QuotaSettings()
