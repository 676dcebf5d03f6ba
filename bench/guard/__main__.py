"""The guard beside what else is published, on one core with a real server, in one run.

    sudo python -m bench.guard [--rounds 30] [--server redis] [--hogs spin,memory,fork,disk]
    [--arms alone,kube,cotenant] [--out FOLDER] [--json]

A round runs every arm once, in random order, with four hogs of one kind. Writes `raw.jsonl`, `results.json` and
`report.html` in the folder. Needs root, two CPUs, the server (redis-server or memcached) and stress-ng, and for figures
a quiet machine; about half a minute a round. Exit status 0 where the agent meets the pass lines.

Reference: Koordinator's suppression by its formula, Kubernetes' own weights, the kernel's idle class alone; the arms
are in `arms.py`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from bench.guard.arms import ALONE, ARMS, DEFAULT, Arm
from bench.guard.comparison import Comparison
from bench.guard.hogs import KINDS, chosen
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant_lab.cli import node_experiments as experiments
from cotenant_lab.experiments import registry
from cotenant_lab.experiments.harness import BlockProgress, ExperimentSettings
from cotenant_lab.experiments.loads.servers import SERVERS


def arms_of(names: str) -> tuple[Arm, ...]:
    """The arms of a comma-separated list; `alone`, to which all others are compared, is always there. Raises
    `InvalidInput`.
    """
    wanted = names.split(",")
    for name in wanted:
        if name not in ARMS:
            raise InvalidInput("--arms", name, "a list of " + ", ".join(ARMS))
    return tuple(arm for arm in ARMS.values() if arm.name in wanted or arm is ALONE)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.guard", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", default="redis", choices=tuple(SERVERS), help="whose tail is compared")
    parser.add_argument("--hogs", default=",".join(KINDS), help="kinds, which take turns: " + ", ".join(KINDS))
    parser.add_argument("--arms", default=",".join(arm.name for arm in DEFAULT), help="of " + ", ".join(ARMS))
    parser.add_argument("--quiet-s", type=float, default=0.0, help="how long a block waits for a quiet core")
    parser.add_argument("--out", type=Path, default=Path("runs/bench-guard"))
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    try:
        comparison = Comparison(arms_of(given.arms), chosen(given.hogs))
        comparison.load = replace(comparison.load, server=given.server)
        settings = ExperimentSettings(given.rounds, given.seed, quiet_s=given.quiet_s)
        words = f"python -m bench.guard --rounds {given.rounds} --seed {given.seed} --server {given.server}"
        words += f" --hogs {given.hogs}"
        outcome = registry.run(comparison, settings, given.out, words, _report)
    except CotenantError as error:
        print(error, file=sys.stderr)
        return 2
    if given.json:
        print(registry.encode(outcome))
    else:
        experiments.show(outcome, given.out)
    return 0 if outcome.passed else 1


def _report(step: BlockProgress) -> None:
    print(f"{step.done} of {step.total}: {step.arm}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
