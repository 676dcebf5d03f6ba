"""The command: draw changes, try each, name those that no test noticed."""

from __future__ import annotations

import argparse
import json
import queue
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tools.mutation.operators import changes
from tools.mutation.reach import nearest, read, record
from tools.mutation.trials import Mutant, Outcome, copied, try_one

ROOT = Path(__file__).parents[2]
FLOORS = ("policy", "engine", "services")


def drawn(floors: list[str], sample: int, seed: int) -> list[Mutant]:
    """So many changes of these floors, each with the same chance."""
    every = [
        Mutant(str(path.relative_to(ROOT / "src")), change)
        for floor in floors
        for path in sorted((ROOT / "src/cotenant" / floor).rglob("*.py"))
        for change in changes(path.read_text())
    ]
    return random.Random(seed).sample(every, min(sample, len(every)))


def shown(outcome: Outcome) -> str:
    """One line a person can act on."""
    mutant = outcome.mutant
    source = (ROOT / "src" / mutant.file).read_text()
    before = " ".join(source[mutant.change.begin : mutant.change.end].split())
    place = f"src/{mutant.file}:{mutant.change.line}"
    return f"{place}  {mutant.change.kind}: `{before[:60]}` -> `{mutant.change.replacement.strip()[:40]}`  ({outcome.tests} tests)"


def main() -> int:
    """Status 1 where fewer are dead than `--goal` asks for."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument("--floors", nargs="+", default=FLOORS, help="folders below src/cotenant (default: %(default)s)")
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
    mutants = drawn(list(options.floors), options.sample, options.seed)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="cotenant-mutation-") as folder:
        trees: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(options.jobs):
            trees.put(copied(ROOT, Path(folder, str(number))))

        def trial(mutant: Mutant) -> Outcome:
            tests = nearest(mutant.file, sorted(reach.tests(mutant.file, mutant.change.line)), options.max_tests)
            if not tests:
                return Outcome(mutant, False, 0, "no test reaches it")
            tree = trees.get()
            try:
                return try_one(tree, mutant, tests, options.max_s)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(options.jobs) as pool:
            for done in as_completed([pool.submit(trial, mutant) for mutant in mutants]):
                outcome = done.result()
                outcomes.append(outcome)
                if options.json:
                    mutant = outcome.mutant
                    line = {"file": mutant.file, "line": mutant.change.line, "kind": mutant.change.kind, "dead": outcome.dead, "tests": outcome.tests, "said": outcome.said}  # fmt: skip
                    print(json.dumps(line), flush=True)
                elif not outcome.dead:
                    print(shown(outcome), flush=True)
                print(f"\r{len(outcomes)} of {len(mutants)}", end="", file=sys.stderr, flush=True)
    dead = sum(outcome.dead for outcome in outcomes)
    share_pct = 100 * dead / len(outcomes) if outcomes else 0.0
    print(
        f"\n{dead} of {len(outcomes)} changes are noticed by the fast tests ({share_pct:.1f} %), seed {options.seed}",
        file=sys.stderr,
    )
    return 0 if share_pct >= options.goal_pct else 1


if __name__ == "__main__":
    sys.exit(main())
