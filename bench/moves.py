"""Moves under limits in the co-located world: the `takeover` workload as far as its services need it, on a cluster of
any size.

The fresh cluster runs to its horizon and the one that is taken over to 90 minutes after that, without the hours in
which the last batch ends, so a seed costs half or less of `cotenant lab compare --workload takeover`. A line for each
seed and policy as it is done, then means. Columns: services' violation from 30 to 90 minutes after the takeover, at the
same hours of a fresh placement by the policy (*fresh*), and of a fresh cluster's whole day from hour 1; pods moved in
30 and 90 minutes and an hour of the fresh day, in percent of the replicas, of which batch pods; moves of a pod within
an hour of its last. `best` is the smallest mean of *fresh* among the policies.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotenant_lab.bridge import Bridge
from cotenant_lab.contract import RunSpec
from cotenant_lab.scenarios.competitors import competitor
from cotenant_lab.scenarios.takeover import AT_S, PACKED_BY, TakeOver, again, hourly, violation
from cotenant_lab.seeds import read_seeds

POLICIES = "cotenant-learned,cotenant-learned-few-moves,cotenant-learned-rebalanced,cotenant-learned-rebalanced-few"
_FROM_S, _TO_S = AT_S + 1800.0, AT_S + 5400.0


@dataclass(frozen=True, slots=True)
class Moved:
    """One seed of one policy; percent, and counts of moves again."""

    recovered: float
    fresh: float
    fresh_day: float
    moved_30: float
    moved_90: float
    hourly: float
    of_batch: float  # share of the moves of both runs
    again: float


def batch_moves(bridge: Bridge) -> int:
    """How many of the moves are of batch pods."""
    service = bridge.offer.is_service[bridge.offer.shape]
    return sum(not service[pod] for _, pod in bridge.moves)


def one(policy: str, seed: int, file: Path | None, load: float) -> Moved:
    """Both runs of a seed."""
    spec = RunSpec("takeover", policy, seed, load, pressure_law="mixed", declared_profiles=False, file=file)
    world, ours = TakeOver().world, competitor(policy)
    fresh, _ = world.built(spec)
    fresh.run(fresh.config.horizon_s)
    taken, _ = world.built(spec, packed_by=PACKED_BY)
    taken.run(AT_S)
    taken.take_over(ours.build(), np.random.default_rng([seed, 8]), ours.rebalances)
    taken.run(_TO_S)
    reference, account, replicas = fresh.world.account(), taken.world.account(), len(taken.world.replicas)
    moves = len(fresh.moves) + len(taken.moves)
    return Moved(
        100.0 * violation(account, _FROM_S, _TO_S),
        100.0 * violation(reference, _FROM_S, _TO_S),
        100.0 * violation(reference, 3600.0, fresh.config.horizon_s),
        100.0 * sum(at_s < _FROM_S for at_s, _ in taken.moves) / replicas,
        100.0 * len(taken.moves) / replicas,
        100.0 * hourly(fresh, fresh.config),
        100.0 * (batch_moves(fresh) + batch_moves(taken)) / max(1, moves),
        float(again(taken.moves) + again(fresh.moves)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=249)
    parser.add_argument("--load", type=float, default=0.85)
    parser.add_argument("--seeds", default="100-104")
    parser.add_argument("--policies", default=POLICIES)
    given = parser.parse_args()
    found: dict[str, list[Moved]] = {name: [] for name in given.policies.split(",")}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "takeover.yaml"
        file.write_text(f"base: takeover\nnodes: {given.nodes}\n")
        for seed in read_seeds(given.seeds):
            for name, figures in found.items():
                figures.append(one(name, seed, None if given.nodes == 249 else file, given.load))
                print(f"seed {seed} {name}: {figures[-1]}", flush=True)
    best = min(np.mean([figure.fresh for figure in figures]) for figures in found.values())
    print(
        "\n| policy | min 30 to 90 % | fresh % | ratio to own fresh | ratio to best | fresh day % | moved in 30 min "
        "% | in 90 min % | moved an hour % | of batch % | again |"
    )
    print("| --- " * 11 + "|")
    for name, figures in found.items():
        of = {field: float(np.mean([getattr(figure, field) for figure in figures])) for field in Moved.__slots__}
        own = f"{of['recovered'] / of['fresh']:.2f}" if of["fresh"] else "-"
        to_best = f"{of['recovered'] / best:.2f}" if best else "-"
        print(
            f"| {name} | {of['recovered']:.2f} | {of['fresh']:.2f} | {own} | {to_best} | {of['fresh_day']:.2f} | "
            f"{of['moved_30']:.2f} | {of['moved_90']:.2f} "
            f"| {of['hourly']:.3f} | {of['of_batch']:.0f} | {of['again']:.1f} |"
        )


if __name__ == "__main__":
    main()
