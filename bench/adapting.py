"""What weights that follow the law of contention could gain at most over the best fixed ones.

    python -m bench.adapting --folder FOLDER        (runs that are stored there are not done again)

Points are weights of the founding score, the published ones and corners of the box that `cotenant lab tune` searches.
Every point places the same workload under each of the three laws, on small cells of the co-located world. On tuning
seeds one point is chosen for all laws together (`fixed`) and one for each law (`told`, which a rule that adapts without
being told can only approach). Both are reported on other seeds, paired by seed: the difference is what knowing the law
is worth, before anything is paid for finding it out. A bandit, a canary and a roll-back cannot gain more than this.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.machine import show
from cotenant_lab.contract import RunSpec
from cotenant_lab.experiment import run_specs
from cotenant_lab.seeds import read_seeds
from cotenant_lab.statistics import Interval, interval, paired_difference
from cotenant_lab.world.config import PRESSURE_LAWS

Weights = tuple[tuple[str, float], ...]
Table = Mapping[tuple[str, str], Sequence[float]]  # violation in percent by law and point, seed by seed

POINTS: dict[str, Weights] = {
    "published": (),
    "latency": (("founding_capacity", 20.0), ("founding_latency", 60.0), ("founding_violations", 60.0)),
    "capacity": (("founding_capacity", 80.0), ("founding_latency", 10.0), ("founding_violations", 10.0)),
    "packing": (("founding_capacity", 0.0), ("founding_dominant", 60.0)),
}


def chosen(table: Table, points: Sequence[str], laws: Sequence[str]) -> str:
    """The point with the least mean violation over these laws; of equal ones the first."""
    return min(points, key=lambda point: float(np.mean([np.mean(table[law, point]) for law in laws])))


def worth(
    tuning: Table, reported: Table, points: Sequence[str], laws: Sequence[str]
) -> tuple[str, dict[str, str], dict[str, Interval], Interval]:
    """The fixed point, the point of each law, and by law and over all what `fixed` violates more, in points."""
    fixed = chosen(tuning, points, laws)
    told = {law: chosen(tuning, points, (law,)) for law in laws}
    by_law = {law: paired_difference(reported[law, fixed], reported[law, told[law]]) for law in laws}
    over_all = np.mean([np.subtract(reported[law, fixed], reported[law, told[law]]) for law in laws], axis=0)
    return fixed, told, by_law, interval(over_all)


def measured(seeds: Sequence[int], load: float, file: Path, folder: Path, jobs: int) -> Table:
    """Run what is not stored."""
    specs = {
        (law, name, seed): RunSpec(
            "colocation", "founding", seed, load, pressure_law=law, file=file.resolve(), overrides=weights
        )
        for law in PRESSURE_LAWS
        for name, weights in POINTS.items()
        for seed in seeds
    }
    outcome = run_specs(tuple(specs.values()), folder, jobs)
    for failure in outcome.failures:
        raise SystemExit(failure.line())
    found = {record.spec: 100.0 * record.measures.violation for record in outcome.records}
    return {(law, name): [found[specs[law, name, seed]] for seed in seeds] for law in PRESSURE_LAWS for name in POINTS}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="of stored runs")
    parser.add_argument("--tuning-seeds", default="200-205")
    parser.add_argument("--seeds", default="300-309")
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    file = given.folder / "cell.yaml"
    file.write_text(f"base: colocation\nnodes: {given.nodes}\nhorizon_h: {given.hours:g}\n")
    runs = [
        measured(read_seeds(text), given.load, file, given.folder, given.jobs)
        for text in (given.tuning_seeds, given.seeds)
    ]
    tuning, reported = runs
    fixed, told, by_law, over_all = worth(tuning, reported, tuple(POINTS), PRESSURE_LAWS)
    rows = [
        {
            "law": law,
            **{name: _said(interval(reported[law, name])) for name in POINTS},
            "told": told[law],
            "fixed - told": _said(by_law[law]),
        }
        for law in PRESSURE_LAWS
    ]
    notes = (
        f"violation in %, {given.nodes} nodes, load {given.load:g}, seeds {given.seeds}; chosen on "
        f"{given.tuning_seeds}: fixed {fixed}",
        f"all laws: fixed - told {_said(over_all)} points",
    )
    show(rows, given.json, notes)


def _said(found: Interval) -> str:
    return f"{found.mean:.2f} ±{found.half_width:.2f}"


if __name__ == "__main__":
    main()
