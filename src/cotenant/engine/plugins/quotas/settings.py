"""What may be set about elastic quotas.

Problem: installations differ in how strictly quotas hold and how soon what was borrowed is taken back. Choice: one frozen value; the defaults are
upstream's, except that overuse is revoked unless that is turned off: without it nobody who lends can rely on its minimum. Limits: one value for all trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from cotenant.model.errors import InvalidInput
from cotenant.policy.quota.headroom import HeadroomRules


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """How quotas hold."""

    by_runtime: bool = True  # False: maxima limit instead of runtimes, and nothing is lent
    check_parents: bool = False  # a pod must fit under every ancestor of its quota too
    scale_minima: bool = True  # minima that do not fit are made smaller in proportion
    guarantee_use: bool = False  # what is used stays guaranteed to its quota
    preempt: bool = True  # a pod may have less important pods of its own quota evicted
    revoke: bool = True  # a quota that is over its runtime gives back to those who wait for what is theirs
    revoke_after_s: float = 120.0  # of overuse without a break
    status_every_s: float = 5.0  # how often objects are told, at most

    def __post_init__(self) -> None:
        for name in ("revoke_after_s", "status_every_s"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise InvalidInput(f"quota settings: {name}", value, "seconds that are not negative")

    @property
    def rules(self) -> HeadroomRules:
        """What counts as a limit."""
        return HeadroomRules(self.by_runtime, self.check_parents)


DEFAULTS = QuotaSettings()
