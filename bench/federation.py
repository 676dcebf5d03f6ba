"""Does a federation make tenants of several clusters more equal, what does it cost, and what can a lying cluster do?

Five clusters of unequal size divide their cores among eight tenants by the project's own division of quotas
(policy/quota/runtime.py), equal guarantees of a twentieth, all lending. Each tenant wants cores in two to four
clusters, some in crowded and some in empty ones; wants change over the rounds. Each round the clusters state what their
tenants got, the hub (engine/federation) answers, and weights are multiplied. Compared, with the same wants: no
federation; an honest one, with and without noise; one cluster overstates what a victim uses, within its capacity, so
that nothing can be refused; one replays its first statement; one is silent. Of the last rounds:

    jain       Jain's index of the tenants' shares of what all clusters have: (sum x)^2 / (n sum x^2)
    least      the smallest tenant's share, in percent
    used       cores used of all, in percent: the cost
    victim     the victim's share, in percent

The mean over seeds with a 95 % interval of the paired difference from no federation; a difference whose interval has 0
in it is called a tie.

    python -m bench.federation                   # seeds 0 to 19
    python -m bench.federation --first 100       # other seeds

Nothing was fitted to any of these seeds.

Limits: wants in cores only, and work is neither late nor moved: a share is what the division gives at once, so `used`
can differ only if weights left cores idle that somebody wants.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from cotenant.engine.federation.hub import Hub
from cotenant.policy.federation.noise import Stated
from cotenant.policy.federation.statement import ClusterRoom, Statement, TenantSums, fit_to
from cotenant.policy.federation.weights import NEUTRAL, weighted_permille
from cotenant.policy.quota.runtime import QuotaSibling, share

CORES = (400, 200, 200, 100, 100)
TENANTS = tuple(f"t{i}" for i in range(8))
VICTIM, LIAR = "t0", 1  # the liar is a fifth of all that there is
ROUNDS, COUNTED, ROUND_MS = 60, 20, 30_000
WALL_MS = 1_700_000_000_000
ARMS = ("alone", "honest", "noise", "overstates", "replays", "silent")
FIGURES = ("jain", "least", "used", "victim")
_STUDENT_95 = {9: 2.262, 19: 2.093, 39: 2.023}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Means over the counted rounds."""

    jain: float
    least: float
    used: float
    victim: float


def wants_of(rng: np.random.Generator) -> np.ndarray:
    """Milli-CPU by round, cluster and tenant."""
    wants = np.zeros((ROUNDS, len(CORES), len(TENANTS)), dtype=np.int64)
    for tenant in range(len(TENANTS)):
        places = rng.choice(len(CORES), size=int(rng.integers(2, 5)), replace=False)
        for place in places:
            mean = CORES[place] * 1000 * float(rng.uniform(0.15, 0.7))
            wants[:, place, tenant] = mean * rng.uniform(0.8, 1.2, size=ROUNDS)
    return wants


def run(seed: int, arm: str) -> Outcome:
    """One run."""
    wants = wants_of(np.random.default_rng(seed))
    noise = Stated(1000 if arm == "noise" else 0, np.random.default_rng(seed + 1_000_000))
    names = tuple(f"c{i}" for i in range(len(CORES)))
    hub = Hub({name: (cores * 1000, 0, 0) for name, cores in zip(names, CORES, strict=True)}, ROUND_MS)
    factors: list[dict[str, int]] = [{} for _ in names]
    replayed: Statement | None = None
    found: list[tuple[float, float, float, float]] = []
    for moment in range(ROUNDS):
        got = [divided(CORES[i] * 1000, wants[moment, i], factors[i]) for i in range(len(CORES))]
        if moment >= ROUNDS - COUNTED:
            found.append(figures(np.array(got).sum(axis=0)))
        if arm == "alone":
            continue
        now_ms = moment * ROUND_MS
        for i, name in enumerate(names):
            if arm == "silent" and i == LIAR:
                continue
            capacity = (CORES[i] * 1000, 0, 0)
            sums = [TenantSums(t, (got[i][k], 0, 0), (CORES[i] * 50, 0, 0)) for k, t in enumerate(TENANTS)]
            if arm == "overstates" and i == LIAR:
                sums = [
                    TenantSums(t, (capacity[0] if t == VICTIM else 0, 0, 0), (CORES[i] * 50, 0, 0)) for t in TENANTS
                ]
            stated = fit_to(capacity, noise.of(sums) if arm == "noise" else sums)
            told = Statement(
                name, "s", moment + 1, WALL_MS + now_ms, 3 * ROUND_MS, 0, ClusterRoom(capacity, (0, 0, 0)), stated
            )
            if arm == "replays" and i == LIAR:
                told = replayed = replayed or told
            answer = hub.hear(told, WALL_MS + now_ms, now_ms)
            factors[i] = {} if answer.refused else dict(answer.factors)
    return Outcome(*(float(value) for value in np.mean(found, axis=0)))


def divided(cores_milli: int, wanted: np.ndarray, factors: dict[str, int]) -> list[int]:
    """What each tenant gets in one cluster."""
    base = cores_milli
    members = [
        QuotaSibling(int(want), cores_milli // 20, weighted_permille(base, factors.get(tenant, NEUTRAL)))
        for tenant, want in zip(TENANTS, wanted, strict=True)
    ]
    return share(cores_milli, members) if wanted.any() else [0] * len(TENANTS)


def figures(by_tenant: np.ndarray) -> tuple[float, float, float, float]:
    """Of one round."""
    total = sum(CORES) * 1000
    jain = float(by_tenant.sum() ** 2 / (len(by_tenant) * (by_tenant.astype(float) ** 2).sum()))
    percent = by_tenant * 100.0 / total
    return jain, float(percent.min()), float(percent.sum()), float(percent[TENANTS.index(VICTIM)])


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Mean and half width of the 95 % interval."""
    n = len(differences)
    half = _STUDENT_95.get(n - 1, 1.96) * float(np.std(differences, ddof=1)) / sqrt(n) if n > 1 else float("inf")
    return float(np.mean(differences)), half


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="A federation of five clusters, with adversaries.")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    outcomes = {arm: [run(seed, arm) for seed in seeds] for arm in ARMS}
    for figure in FIGURES:
        alone = [getattr(outcome, figure) for outcome in outcomes["alone"]]
        print(f"{figure}: alone {np.mean(alone):.4f}")
        for arm in ARMS[1:]:
            values = [getattr(outcome, figure) for outcome in outcomes[arm]]
            mean, half = interval([value - base for value, base in zip(values, alone, strict=True)])
            verdict = "tie" if abs(mean) <= half else "more" if mean > 0 else "less"
            print(f"  {arm:<11} {np.mean(values):.4f}  difference {mean:+.4f} +- {half:.4f}  {verdict}")


if __name__ == "__main__":
    main()
