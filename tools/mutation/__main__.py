"""The command: draw changes, try each, name those that no test noticed."""

from __future__ import annotations

import argparse
import json
import queue
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from tools.mutation.operators import changes
from tools.mutation.reach import FAST, SLOW, SOURCES, importing, nearest, read, record
from tools.mutation.trials import Mutant, Outcome, copied, try_one

ROOT = Path(__file__).parents[2]
MAX_SLOW_FILES = 12
FLOORS = ("policy", "engine", "services")


def drawn(floors: list[str], only: list[str], sample: int, seed: int) -> list[Mutant]:
    """So many changes of these floors, each with the same chance. `only`: globs of files, or all of them
    `FILE:LINE`.
    """
    files = [
        path
        for floor in floors
        for path in sorted((ROOT / SOURCES / "cotenant" / floor).rglob("*.py"))
        if _is_at(path, only)
    ]
    every = [
        Mutant(str(path.relative_to(ROOT / SOURCES)), change) for path in files for change in changes(path.read_text())
    ]
    lines = {place for place in only if ":" in place}
    if lines:
        every = [mutant for mutant in every if any(_is_on(mutant, place) for place in lines)]
    return random.Random(seed).sample(every, min(sample, len(every)))


def _is_at(path: Path, only: list[str]) -> bool:
    return not only or any(path.match(place.partition(":")[0]) for place in only)


def _is_on(mutant: Mutant, place: str) -> bool:
    file, _, line = place.partition(":")
    return Path(mutant.file).match(file.removeprefix(f"{SOURCES}/")) and line == str(mutant.change.line)


def shown(outcome: Outcome) -> str:
    """One line a person can act on."""
    mutant = outcome.mutant
    source = (ROOT / SOURCES / mutant.file).read_text()
    before = " ".join(source[mutant.change.begin : mutant.change.end].split())
    place = f"{SOURCES}/{mutant.file}:{mutant.change.line}"
    return (
        f"{place}  {mutant.change.kind}: `{before[:60]}` -> `{mutant.change.replacement.strip()[:40]}`  "
        f"({outcome.tests} tests)"
    )


def main() -> int:
    """Status 1 where fewer are dead than `--goal` asks for."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument(
        "--floors",
        nargs="+",
        default=FLOORS,
        help="folders below packages/cotenant/src/cotenant (default: %(default)s)",
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="FILE[:LINE]", help="changes of these places alone; FILE may be a glob"
    )
    parser.add_argument(
        "--tests",
        nargs="+",
        default=[],
        metavar="FILE",
        help="run first, for each change: new tests that the coverage does not know",
    )
    parser.add_argument(
        "--slow",
        action="store_true",
        help="where no fast test fails, the slow ones (not the long) of the files that import the module",
    )
    parser.add_argument("--sample", type=int, default=200, help="how many changes are tried")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--jobs", type=int, default=2, help="trials at once")
    parser.add_argument(
        "--max-tests", type=int, default=400, help="of those that reach a change, the nearest so many are run"
    )
    parser.add_argument("--max-s", type=float, default=300.0, help="a trial that takes longer counts as dead")
    parser.add_argument(
        "--coverage",
        type=Path,
        default=ROOT / "runs/mutation/coverage",
        help="made by a run of the fast tests where absent",
    )
    parser.add_argument("--goal-pct", type=float, default=90.0, help="share of dead ones below which the status is 1")
    parser.add_argument("--json", action="store_true", help="an object a line")
    options = parser.parse_args()
    data: Path = options.coverage
    if not data.exists():
        data.parent.mkdir(parents=True, exist_ok=True)
        record(ROOT, data.resolve(), options.jobs)
    reach = read(data, ROOT)
    mutants = drawn(list(options.floors), options.only, options.sample, options.seed)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="cotenant-mutation-") as folder:
        trees: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(options.jobs):
            trees.put(copied(ROOT, Path(folder, str(number))))

        def trial(mutant: Mutant) -> Outcome:
            tests = [
                *options.tests,
                *nearest(mutant.file, sorted(reach.tests(mutant.file, mutant.change.line)), options.max_tests),
            ]
            slow = nearest(mutant.file, importing(ROOT, mutant.file), MAX_SLOW_FILES) if options.slow else []
            outcome = Outcome(mutant, False, 0, "no test reaches it")
            tree = trees.get()
            try:
                if tests:
                    outcome = try_one(tree, mutant, tests, options.max_s, FAST)
                if slow and not outcome.dead:
                    found = try_one(tree, mutant, slow, options.max_s, SLOW)
                    outcome = replace(found, tests=outcome.tests, by_slow=found.dead)
                return outcome
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(options.jobs) as pool:
            for done in as_completed([pool.submit(trial, mutant) for mutant in mutants]):
                outcome = done.result()
                outcomes.append(outcome)
                if options.json:
                    mutant = outcome.mutant
                    line = {
                        "file": mutant.file,
                        "line": mutant.change.line,
                        "kind": mutant.change.kind,
                        "dead": outcome.dead,
                        "by_slow": outcome.by_slow,
                        "tests": outcome.tests,
                        "said": outcome.said,
                    }
                    print(json.dumps(line), flush=True)
                elif not outcome.dead:
                    print(shown(outcome), flush=True)
                print(f"\r{len(outcomes)} of {len(mutants)}", end="", file=sys.stderr, flush=True)
    dead = sum(outcome.dead for outcome in outcomes)
    by_slow = sum(outcome.by_slow for outcome in outcomes)
    share_pct = 100 * dead / len(outcomes) if outcomes else 0.0
    which = f"tests ({dead - by_slow} by the fast ones)" if options.slow else "fast tests"
    print(
        f"\n{dead} of {len(outcomes)} changes are noticed by the {which}: {share_pct:.1f} %, seed {options.seed}",
        file=sys.stderr,
    )
    return 0 if share_pct >= options.goal_pct else 1


if __name__ == "__main__":
    sys.exit(main())
