"""Run experiments, keep their summaries, and write the tables of README.md, README.zh-CN.md and docs/results.md.

    python -m bench.evidence --only openb,dag       run these, store docs/results/NAME.json, rewrite the pages
    python -m bench.evidence --only founding --seeds 20-29
    python -m bench.evidence --write                rewrite the pages from the stored summaries; nothing is run
    python -m bench.evidence --check                status 1 if a page differs from the summaries
    python -m bench.evidence --show colocation      print a table from its summary, also one that no page shows
    python -m bench.evidence --list

A finished run is not repeated: the same command continues. Without an argument every experiment is run, which takes
hours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars

from bench.evidence.experiments import BY_NAME, Experiment
from bench.evidence.pages import drifted, generated, write_pages
from bench.evidence.searches import SEARCH_BY_NAME, Search, run_search
from bench.evidence.summaries import commit_of, summarise, write_summary
from cotenant.model.errors import InvalidInput, Permanent
from cotenant_lab.seeds import read_seeds

ROOT = Path(__file__).parents[2]
_KNOWN: dict[str, Experiment | Search] = {**BY_NAME, **SEARCH_BY_NAME}


def run(experiment: Experiment | Search, folder: Path, jobs: int) -> None:
    """Run what is missing of an experiment and store its summary.

    Raises:
        Permanent: the comparison failed, or a run of it did.
    """
    commit = commit_of(ROOT)
    out = folder / experiment.name
    if isinstance(experiment, Search):
        run_search(experiment, out, ROOT, commit)
        return
    words = [sys.executable, "-m", "cotenant", *experiment.command.split()[1:]]
    done = subprocess.run([*words, "--out", str(out), "--jobs", str(jobs)], check=False, stdout=sys.stderr)
    if done.returncode:
        raise Permanent(f"{experiment.name}: the comparison ended with status {done.returncode}; no summary is written")
    found = json.loads((out / "results.json").read_text())
    made = json.loads((out / "experiment.json").read_text())
    records = polars.read_parquet(out / "results.parquet").to_dicts()
    write_summary(ROOT, summarise(experiment.name, experiment.command, found, made, commit, records))


def chosen(only: str, seeds: str | None) -> list[Experiment | Search]:
    """The experiments and searches named in `only` (empty: all), with other seeds where given.

    Raises:
        InvalidInput: an unknown name, or seeds that are none.
    """
    names = [name for name in (part.strip() for part in only.split(",")) if name] or list(_KNOWN)
    for name in names:
        if name not in _KNOWN:
            raise InvalidInput("--only", name, "experiments with commas between", "known: " + ", ".join(_KNOWN))
    if seeds is not None:
        read_seeds(seeds)
        return [replace(_KNOWN[name], seeds=seeds) for name in names]
    return [_KNOWN[name] for name in names]


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 1 for a drift or a failed run, 2 for bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/evidence"), help="folder of the runs")
    parser.add_argument("--only", default="", help="names with commas between; default: all")
    parser.add_argument("--seeds", help="instead of each experiment's own: a number, or seeds such as 20-29")
    parser.add_argument("--jobs", type=int, default=2, help="parallel runs")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--write", action="store_true", help="only rewrite the pages")
    kind.add_argument("--check", action="store_true", help="only compare the pages")
    kind.add_argument("--show", metavar="NAME", help="print a table")
    kind.add_argument("--list", action="store_true", help="name the experiments and their commands")
    given = parser.parse_args(arguments)
    try:
        if given.list:
            print("\n".join(f"{name}: {entry.command}" for name, entry in _KNOWN.items()))
            return 0
        if given.show is not None:
            print(generated(ROOT, given.show), end="")
            return 0
        if given.check:
            found = drifted(ROOT)
            print(
                "\n".join(f"differs from its summary: {place}" for place in found) or "every table equals its summary"
            )
            return 1 if found else 0
        for experiment in [] if given.write else chosen(given.only, given.seeds):
            run(experiment, given.out, given.jobs)
        for page in write_pages(ROOT):
            print(f"wrote {page}")
    except InvalidInput as error:
        print(f"bench.evidence: {error}", file=sys.stderr)
        return 2
    except Permanent as error:
        print(f"bench.evidence: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
