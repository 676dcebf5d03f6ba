"""Noise on what a cluster states, so that a small tenant's single pods cannot be told from it.

The geometric mechanism: to an integer sum that one pod changes by at most `sensitivity` units, noise Z is added with
P(Z = z) = (1 - a) / (1 + a) * a^|z|, a = exp(-epsilon / sensitivity). Then a statement with and one without the pod
have probabilities within a factor of exp(epsilon). A pod counts with at most the sensitivity (`clamped`), or the
promise would not hold; that understates tenants of large pods, in every cluster alike. `epsilon` of a statement is
divided equally among its four sums (CPU, memory, GPUs, violations). Every tenant has noise, large ones too: who has
none would be told apart by it. Negative results become 0, which costs nothing of the promise.
Limits: the promise is of one statement; n statements of fresh noise together have n times the epsilon. `Stated` draws
new noise only when the true sums changed, so that nobody averages it away over a quiet time; that they changed is seen,
and beside what is free in the cluster, which has no noise, by how much where only one tenant's did.

Sources: Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms" (STOC 2009); composition
and post-processing: Dwork, Roth, "The algorithmic foundations of differential privacy" (2014), chapter 3.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp

import msgspec
import numpy as np

from cotenant.policy.federation.statement import MAX_AMOUNT, TenantSums, Vector

SENSITIVITY: Vector = (4000, 16384, 1)  # of one pod: 4 cores, 16 GiB, 1 GPU
_SUMS = 4


def clamped(requests: Vector) -> Vector:
    """A pod's part in its tenant's sums."""
    cpu, memory, gpus = (min(amount, most) for amount, most in zip(requests, SENSITIVITY, strict=True))
    return cpu, memory, gpus


def geometric_noise(epsilon: float, sensitivity: int, rng: np.random.Generator) -> int:
    """One draw: the difference of two geometric variables is the two-sided one."""
    success = 1.0 - exp(-epsilon / sensitivity)
    return int(rng.geometric(success)) - int(rng.geometric(success))


def noisy(sums: TenantSums, epsilon_milli: int, rng: np.random.Generator) -> TenantSums:
    """The tenant's sums as they are stated; as they are where `epsilon_milli` is 0."""
    if not epsilon_milli:
        return sums
    epsilon = epsilon_milli / 1000 / _SUMS
    cpu, memory, gpus = (
        min(MAX_AMOUNT, max(0, amount + geometric_noise(epsilon, sensitivity, rng)))
        for amount, sensitivity in zip(sums.used, SENSITIVITY, strict=True)
    )
    violations = max(0, sums.violations + geometric_noise(epsilon, 1, rng))
    return msgspec.structs.replace(sums, used=(cpu, memory, gpus), violations=violations)


class Stated:
    """What was stated of each tenant, said again while the truth is the same."""

    def __init__(self, epsilon_milli: int, rng: np.random.Generator) -> None:
        self._epsilon_milli = epsilon_milli
        self._rng = rng
        self._said: dict[str, tuple[TenantSums, TenantSums]] = {}  # tenant -> its true sums, what was stated

    def of(self, tenants: Iterable[TenantSums]) -> tuple[TenantSums, ...]:
        """What to state of these tenants; others are forgotten."""
        said: dict[str, tuple[TenantSums, TenantSums]] = {}
        for sums in tenants:
            before = self._said.get(sums.tenant)
            if before is not None and before[0] == sums:
                said[sums.tenant] = before
            else:
                said[sums.tenant] = sums, noisy(sums, self._epsilon_milli, self._rng)
        self._said = said
        return tuple(stated for _, stated in said.values())
