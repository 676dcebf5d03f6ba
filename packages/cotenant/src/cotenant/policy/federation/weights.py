"""Weights of tenants in every cluster, from their dominant share of all clusters together.

A tenant's global dominant share is the largest over resources of its use in all clusters divided by the capacity of all
clusters; its level is that share divided by its claim: the dominant share of its guarantees, or an equal part of what
is there for one that has none. Tenants above the mean level should weigh less wherever they compete, those below more.
So each round multiplies a tenant's factor by the square root of (mean level / own level), and by up to 1.25 or 0.75 for
credit, within 0.5 to 2 of the weight that its own cluster's owner wrote. The mean is over tenants that use anything.
Guarantees are divided before weights and stay. Tenants of one cluster only have a factor too: their level counts the
capacity of all, which is how fairness crosses clusters.
What a cluster that lies can do: it cannot state more use than its capacity, nor more capacity than is registered, so it
moves a tenant's share by at most its own part of all capacity, and the factor stays within its bounds. Guarantees
beyond a cluster's capacity count in proportion, as far as it could keep them. What is not bounded is how many tenants
it names: many small ones pull the mean, and the equal part of those without a guarantee, down.

Sources: Ghodsi et al., "Dominant resource fairness" (NSDI 2011); the credit's bounds as in policy/credit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isqrt

from cotenant.policy.federation.statement import MAX_STANDING, NONE, ClusterRoom, Statement, Vector

NEUTRAL = 1000
MIN_PERMILLE, MAX_PERMILLE = 500, 2000
_PPM = 1_000_000


def plus(one: Vector, other: Vector) -> Vector:
    """The sum of both."""
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def dominant_ppm(amounts: Vector, capacity: Vector) -> int:
    """The largest share over resources, in millionths."""
    return max((amount * _PPM // most for amount, most in zip(amounts, capacity, strict=True) if most), default=0)


def total_capacity(rooms: Iterable[ClusterRoom]) -> Vector:
    """Of all clusters."""
    total = NONE
    for room in rooms:
        total = plus(total, room.capacity)
    return total


def global_shares_ppm(statements: Iterable[Statement]) -> dict[str, int]:
    """Each tenant's dominant share of all clusters."""
    told = list(statements)
    used, _, _ = _sums(told)
    capacity = total_capacity(statement.room for statement in told)
    return {tenant: dominant_ppm(amounts, capacity) for tenant, amounts in sorted(used.items())}


def factors(statements: Iterable[Statement], before: Mapping[str, int]) -> dict[str, int]:
    """Each tenant's factor in permille of its local weight. `before`: those of the last round."""
    told = list(statements)
    used, guaranteed, credit = _sums(told)
    capacity = total_capacity(statement.room for statement in told)
    if not used:
        return {}
    equal_ppm = max(1, _PPM // len(used))
    levels = {
        tenant: dominant_ppm(amounts, capacity) * NEUTRAL // (dominant_ppm(guaranteed[tenant], capacity) or equal_ppm)
        for tenant, amounts in used.items()
    }
    using = [level for level in levels.values() if level]
    if len(using) < 2:
        return dict.fromkeys(sorted(used), NEUTRAL)  # nobody to compare with
    mean = max(1, sum(using) // len(using))
    found = {}
    for tenant, level in sorted(levels.items()):
        step = isqrt(mean * NEUTRAL * NEUTRAL // max(1, level))
        target = before.get(tenant, NEUTRAL) * step // NEUTRAL
        target = target * (4 * MAX_STANDING + credit[tenant]) // (4 * MAX_STANDING)
        found[tenant] = max(MIN_PERMILLE, min(MAX_PERMILLE, target))
    return found


def weighted_permille(amount: int, permille: int) -> int:
    """A weight times a factor; a weight above 0 stays above 0."""
    return max(1, amount * permille // NEUTRAL) if amount else 0


def _sums(told: list[Statement]) -> tuple[dict[str, Vector], dict[str, Vector], dict[str, int]]:
    """By tenant: use, guarantees, and the median of the clusters' credits (the lower of the middle two)."""
    used: dict[str, Vector] = {}
    guaranteed: dict[str, Vector] = {}
    credits: dict[str, list[int]] = {}
    for statement in told:
        promised = NONE
        for sums in statement.tenants:
            promised = plus(promised, sums.guaranteed)
        for sums in statement.tenants:
            used[sums.tenant] = plus(used.get(sums.tenant, NONE), sums.used)
            guarantee = _within(sums.guaranteed, promised, statement.room.capacity)
            guaranteed[sums.tenant] = plus(guaranteed.get(sums.tenant, NONE), guarantee)
            credits.setdefault(sums.tenant, []).append(sums.credit)
    middle = {tenant: sorted(values)[(len(values) - 1) // 2] for tenant, values in credits.items()}
    return used, guaranteed, middle


def _within(guarantee: Vector, all_of_them: Vector, capacity: Vector) -> Vector:
    """A tenant's part of what its cluster can keep of all guarantees there."""
    cpu, memory, gpus = (
        amount * most // total if total > most else amount
        for amount, total, most in zip(guarantee, all_of_them, capacity, strict=True)
    )
    return cpu, memory, gpus
