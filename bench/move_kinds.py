"""Room for pods that wait and emptied nodes in the co-located world: the same days with and without each kind of moves
of a cluster's rebalancer.

`Defragmentation` beside kube-default, which spreads, at a load at which large pods wait; `HighNodeUtilization` beside
best-fit, which packs, at a low one (beside a scheduler that spreads an emptied node is filled again). Columns are of
the time from hour 1 to the horizon: nodes without a pod, mean; service and batch violation of the run until its end;
pods of batch started within ten minutes; 99th percentile of waiting; pods moved, of which batch.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.moves import batch_moves
from cotenant.engine.rebalancer.settings import Defragmentation, MoveKinds, Packing, RebalancerSettings
from cotenant_lab.contract import RunSpec
from cotenant_lab.scenarios.colocation import CoLocation
from cotenant_lab.seeds import read_seeds

_EVERY_S = 300.0


@dataclass(frozen=True, slots=True)
class Case:
    """A policy at a load, with a kind of moves or without any."""

    name: str
    policy: str
    load: float
    kinds: MoveKinds | None


CASES = (
    Case("kube-default", "kube-default", 0.9, None),
    Case("kube-default, Defragmentation", "kube-default", 0.9, MoveKinds(defragmentation=Defragmentation())),
    Case("best-fit", "best-fit", 0.6, None),
    Case(
        "best-fit, HighNodeUtilization 30 %", "best-fit", 0.6, MoveKinds(packing=Packing({"cpu": 30.0, "memory": 30.0}))
    ),
)


def one(case: Case, seed: int, file: Path) -> tuple[float, ...]:
    """The columns of one seed."""
    spec = RunSpec("colocation", case.policy, seed, case.load, pressure_law="mixed", file=file)
    rebalancing = RebalancerSettings(pools=(), kinds=case.kinds) if case.kinds is not None else None
    bridge, _ = CoLocation("colocation", "", case.load, (), ()).built(spec, rebalancing=rebalancing)
    empty: list[int] = []
    for at_s in np.arange(3600.0, bridge.config.horizon_s + 1.0, _EVERY_S).tolist():
        bridge.run(at_s)
        empty.append(sum(not bridge.engine.pods_on(node.name) for node in bridge.engine.nodes()))
    bridge.run()
    account = bridge.world.account()
    waits = np.sort(account.wait_s)
    return (
        float(np.mean(empty)),
        100.0 * account.violation_service,
        100.0 * account.violation_batch,
        100.0 * account.success,
        float(waits[int(0.99 * (len(waits) - 1))]) / 60.0,
        float(len(bridge.moves)),
        float(batch_moves(bridge)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=24)
    parser.add_argument("--seeds", default="100-102")
    parser.add_argument("--policies", default="kube-default,best-fit", help="the cases beside these schedulers")
    given = parser.parse_args()
    print("| | load | empty nodes | services % | batch % | started in 10 min % | p99 wait, min | moves | of batch |")
    print("| --- " * 9 + "|")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "small.yaml"
        file.write_text(f"base: colocation\nnodes: {given.nodes}\n")
        for case in (case_ for case_ in CASES if case_.policy in given.policies.split(",")):
            found = np.array([one(case, seed, file) for seed in read_seeds(given.seeds)])
            means = " | ".join(f"{value:.2f}" for value in found.mean(axis=0))
            print(f"| {case.name} | {case.load} | {means} |", flush=True)


if __name__ == "__main__":
    main()
