"""The cost of the node agent at a period of one second: CPU, memory, calls and bytes per tick, over 50 and 200 groups,
and a service's tail latency beside it.

    sudo python -m bench.agent [--rounds N] [--json]

The same as `cotenant node experiment overhead`, as rows: real groups, the agent as a process, arms alternating. CPU and
latency depend on other load on the machine; calls and bytes do not. Needs root.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from bench.machine import show
from cotenant.model.errors import CotenantError
from cotenant_lab.experiments import harness
from cotenant_lab.experiments.outcome import Findings
from cotenant_lab.experiments.studies.overhead import Overhead


def rows(outcome: Findings) -> list[dict[str, Any]]:
    """One row per number of groups, and one for the probe."""
    figures = outcome.figures
    found = [{"arm": name, **values} for name, values in figures.items() if name.startswith("groups_")]
    if "probe" in figures:
        found.append({"arm": "probe", **figures["probe"]})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.agent", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cotenant-bench-") as folder:
        try:
            settings = harness.ExperimentSettings(given.rounds, max_foreign=1.0)
            outcome = harness.run(Overhead(), settings, Path(folder), lambda _: None)
        except CotenantError as error:
            raise SystemExit(f"bench.agent: {error}") from error
    notes = [*outcome.notes, f"other processes used at most {outcome.worst_foreign:.1%} of the plant's core in a block"]
    show(rows(outcome), given.json, notes)


if __name__ == "__main__":
    main()
