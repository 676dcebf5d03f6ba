"""takeover: a cluster that another scheduler has packed badly, and ours from then on.

A new scheduler is installed in a running cluster, where services are placed already and may be in the wrong places; a
comparison in which every policy places everything does not show whether moves repair that, how fast, and at what cost.
The co-located world, filled by best-fit until hour 2, when load is rising and many services miss; then the policy takes
over with a new engine that has learned nothing, under the same limits of moves. The same workload placed by the policy
from the start is the reference, so a run simulates twice.
Limits: best-fit stands for every bad packing; batch of the first scheduler runs to its end, as in a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import perf_counter

import numpy as np

from cotenant.model.errors import InvalidInput
from cotenant_lab.bridge import Bridge
from cotenant_lab.contract import PolicyInfo, RunResult, RunSpec, Scenario, TaskExplanation
from cotenant_lab.scenarios.colocation import CoLocation, configuration, result
from cotenant_lab.scenarios.competitors import BOUND, COMPETITORS, competitor
from cotenant_lab.world.accounting import RunMetrics
from cotenant_lab.world.config import WorldConfig

AT_S = 7_200.0
PACKED_BY = "best-fit"
_RECOVERY_S = (
    1_800.0  # the time in which a cluster should have recovered; its violation is taken over the hour after it
)
_HOUR_S = 3_600.0


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The scenario (`cotenant_lab.contract.Scenario`)."""

    name: str = "takeover"
    summary: str = "a cluster packed by best-fit, taken over at hour 2: how fast moves repair it, and how many they are"
    provenance: str = "as colocation, each seed simulated twice"
    default_load: float = 0.85
    default_policies: tuple[str, ...] = ("cotenant", "cotenant-no-moves", "kube-default")
    headline: tuple[str, ...] = (
        "violation_before",
        "violation_recovered",
        "violation_fresh",
        "moved_recovery",
        "moved_hourly",
        "moved_again",
        "violation_service",
        "violation_batch",
    )
    world: CoLocation = field(  # of the workload
        default_factory=lambda: CoLocation(
            name="takeover", summary="", default_load=0.85, default_policies=(), headline=()
        )
    )

    def policies(self) -> tuple[PolicyInfo, ...]:
        """All policies that place one pod after another or a round at once."""
        return tuple(entry.info for entry in COMPETITORS if entry.info.name != BOUND and entry.lends is None)

    def check(self, spec: RunSpec) -> None:
        """Raise `InvalidInput` for a specification that cannot run."""
        if spec.policy not in {policy.name for policy in self.policies()}:
            raise InvalidInput(
                "--policies", spec.policy, f"one of {', '.join(policy.name for policy in self.policies())}"
            )
        horizon_s, min_s = configuration(spec).horizon_s, AT_S + _RECOVERY_S + _HOUR_S
        if horizon_s < min_s:
            raise InvalidInput(
                "horizon_h",
                horizon_s / _HOUR_S,
                f"at least {min_s / _HOUR_S:g} hours, in which the cluster is taken over and recovers",
            )
        self.world.check(spec)

    def run(self, spec: RunSpec) -> RunResult:
        """One run and its reference."""
        started = perf_counter()
        fresh, _ = self.world.built(spec)
        fresh.run()
        reference = fresh.world.account()
        bridge, notes = self.world.built(spec, packed_by=PACKED_BY)
        bridge.run(AT_S)
        ours = competitor(spec.policy)
        bridge.take_over(ours.build(spec.overrides), np.random.default_rng([spec.seed, 8]), ours.rebalances)
        bridge.run()
        found = result(spec, bridge, notes, perf_counter() - started)
        account = bridge.world.account()
        after = (AT_S + _RECOVERY_S, AT_S + _RECOVERY_S + _HOUR_S)
        replicas = len(bridge.world.replicas)
        moves = [(at_s, pod) for at_s, pod in bridge.moves if at_s >= AT_S]
        return replace(
            found,
            measures=replace(
                found.measures,
                violation_before=violation(account, AT_S - _RECOVERY_S, AT_S),
                violation_recovered=violation(account, *after),
                violation_fresh=violation(reference, *after),
                moved_recovery=sum(at_s < AT_S + _RECOVERY_S for at_s, _ in moves) / replicas,
                moved_hourly=hourly(fresh, fresh.config),
                moved_again=float(again(moves)),
            ),
        )

    def explain(self, spec: RunSpec, task: str) -> TaskExplanation:
        """Refused: the decisions about one task are explained in the `colocation` workload."""
        raise InvalidInput(
            "--workload", self.name, "colocation", "the first scheduler's decisions are not recorded here"
        )


def violation(account: RunMetrics, from_s: float, to_s: float) -> float:
    """Mean core-weighted share of replicas that missed their objective, over the windows that end in (from_s,
    to_s]; 0..1.
    """
    line = account.timeline
    counted = (line.time_s > from_s) & (line.time_s <= to_s)
    return float(line.service_violation[counted].mean()) if counted.any() else float("nan")


def hourly(bridge: Bridge, config: WorldConfig) -> float:
    """Moves an hour as a share of the replicas, from hour 1 to the horizon: the steady state of a cluster that the
    policy placed.
    """
    hours = (config.horizon_s - _HOUR_S) / _HOUR_S
    moves = sum(_HOUR_S <= at_s < config.horizon_s for at_s, _ in bridge.moves)
    return moves / hours / len(bridge.world.replicas)


def again(moves: Sequence[tuple[float, int]]) -> int:
    """How many moves came within an hour of another of the same replica."""
    by_replica = sorted((pod, at_s) for at_s, pod in moves)
    return sum(one[0] == two[0] and two[1] - one[1] < _HOUR_S for one, two in pairwise(by_replica))


SCENARIOS: tuple[Scenario, ...] = (TakeOver(),)
