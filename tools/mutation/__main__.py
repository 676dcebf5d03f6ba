"""The command: draw changes, try each, name those that no test noticed."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import math
import queue
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from tools.mutation.distance import has_slow_cases, import_graph, nearest_files, stages
from tools.mutation.judged import JUDGED, Judged, named
from tools.mutation.judged import read as judged
from tools.mutation.kept import OtherSample, begun, digest, line, summary
from tools.mutation.operators import changes
from tools.mutation.reach import FAST, SLOW, SOURCES, Reach, nearest, read, record
from tools.mutation.trials import Interpreter, Interpreters, Mutant, Outcome, copied, failing, try_one

ROOT = Path(__file__).parents[2]
MAX_SLOW_FILES = 8
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


@dataclass(frozen=True, slots=True)
class Choice:
    """Which tests are run for a change, one list after the other until one of them fails."""

    reach: Reach | None  # from a recording; None: from the imports
    graph: Mapping[str, frozenset[str]]
    first: Sequence[str]
    max_tests: int
    sizes: Sequence[int]
    slow: bool

    def fast(self, mutant: Mutant) -> list[list[str]]:
        """Fast tests, the nearest first."""
        if self.reach is not None:
            reached = sorted(self.reach.tests(mutant.file, mutant.change.line))
            tests = [*self.first, *nearest(mutant.file, reached, self.max_tests)]
            return [tests] if tests else []
        found = stages(nearest_files(self.graph, f"{SOURCES}/{mutant.file}"), self.sizes)
        return [list(self.first), *found] if self.first else found

    def slow_files(self, mutant: Mutant) -> list[str]:
        """Files whose slow tests are run where no fast one fails, the nearest first."""
        if not self.slow:
            return []
        near = nearest_files(self.graph, f"{SOURCES}/{mutant.file}")
        return [path for path in near if has_slow_cases(ROOT, path)][:MAX_SLOW_FILES]


def tried(tree: Path, mutant: Mutant, choice: Choice, max_s: float, interpreter: Interpreter) -> Outcome:
    """Whether a test notices this change."""
    outcome = Outcome(mutant, False, 0, "no test reaches it")
    for tests in choice.fast(mutant):
        found = try_one(tree, mutant, tests, max_s, FAST, interpreter)
        outcome = replace(found, tests=outcome.tests + found.tests)
        if outcome.dead:
            return outcome
    slow = choice.slow_files(mutant)
    if slow:
        found = try_one(tree, mutant, slow, max_s, SLOW, interpreter)
        outcome = replace(found, tests=outcome.tests, by_slow=found.dead)
    return outcome


class Belief:
    """Which tests pass in the tree as it is: a death by one that fails there says nothing of a change."""

    def __init__(self, max_s: float) -> None:
        self._max_s = max_s
        self._green: set[str] = set()

    def checked(self, tree: Path, outcome: Outcome, interpreter: Interpreter | None = None) -> Outcome:
        """The outcome, alive where what noticed it fails without the change. Each test is asked once."""
        unknown = sorted(set(outcome.noticed) - self._green) if outcome.dead else []
        limit_s = self._max_s * max(1, len(unknown) // 20)
        broken = failing(tree, unknown, limit_s, SLOW if outcome.by_slow else FAST, interpreter)
        self._green |= set(unknown) - broken
        if not broken:
            return outcome
        return replace(outcome, dead=False, by_slow=False, said=f"fails without the change: {min(broken)}")


def arguments() -> argparse.ArgumentParser:
    """The options."""
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
    parser.add_argument("--tests", nargs="+", default=[], metavar="FILE", help="run first, for each change")
    parser.add_argument(
        "--slow",
        action="store_true",
        help="where no fast test fails, the slow ones (not the long, nor those of whole clusters and nodes) and all "
        f"cases of the properties of the {MAX_SLOW_FILES} nearest files that have some",
    )
    parser.add_argument("--sample", type=int, default=200, help="how many changes are tried")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--jobs", type=int, default=2, help="trials at once")
    parser.add_argument(
        "--files",
        nargs="+",
        type=int,
        default=[2, 6, 16],
        help="of the test files that come to import the module, the nearest so many are run, then so many more, until "
        "a test fails",
    )
    parser.add_argument(
        "--coverage",
        type=Path,
        default=None,
        metavar="FILE",
        help="choose tests by the lines they reach instead: a recording, made by a run of the fast tests where absent",
    )
    parser.add_argument(
        "--max-tests", type=int, default=400, help="of those that a recording names, the nearest so many are run"
    )
    parser.add_argument(
        "--max-s",
        type=float,
        default=300.0,
        help="a run that takes longer, without what it waited for a CPU, counts as dead where the tree as it is takes "
        "less",
    )
    parser.add_argument(
        "--trees",
        type=Path,
        default=None,
        metavar="FOLDER",
        help="keep the copies of the tree there: what was compiled for them is used by the next command",
    )
    parser.add_argument("--goal-pct", type=float, default=90.0, help="share of dead ones below which the status is 1")
    parser.add_argument(
        "--state",
        type=Path,
        default=None,
        metavar="FILE",
        help="keep each outcome there as soon as it is known; a later call with the same draw and sources goes on with "
        "the rest",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="begin no trial after so long; the status is 3 where some are left",
    )
    parser.add_argument("--json", action="store_true", help="an object a line")
    return parser


def chosen_by(options: argparse.Namespace) -> Choice:
    """How tests are chosen, with the recording made or the imports read."""
    reach = None
    if options.coverage is not None:
        data: Path = options.coverage
        if not data.exists():
            data.parent.mkdir(parents=True, exist_ok=True)
            record(ROOT, data.resolve(), options.jobs)
        reach = read(data, ROOT)
    return Choice(reach, import_graph(ROOT), options.tests, options.max_tests, options.files, options.slow)


def told(outcome: Outcome, as_json: bool) -> None:
    """One line of what became of a change."""
    if as_json:
        mutant = outcome.mutant
        entry = named(mutant.file, (ROOT / SOURCES / mutant.file).read_text(), mutant.change)
        print(json.dumps({**json.loads(line(outcome)), "entry": entry._asdict()}), flush=True)
    elif not outcome.dead:
        print(shown(outcome), flush=True)


def tried_in_parallel(
    mutants: Sequence[Mutant], choice: Choice, options: argparse.Namespace, folder: Path
) -> Iterator[Outcome]:
    """The outcome of each, as they come to an end; none is begun after `--minutes`."""
    until_s = time.monotonic() + 60 * options.minutes
    belief = Belief(options.max_s)
    trees: queue.SimpleQueue[Interpreters] = queue.SimpleQueue()

    def trial(mutant: Mutant) -> Outcome | None:
        interpreters = trees.get()
        try:
            if time.monotonic() > until_s:
                return None
            interpreter = interpreters.of(mutant)
            outcome = tried(interpreters.tree, mutant, choice, options.max_s, interpreter)
            return belief.checked(interpreters.tree, outcome, interpreter)
        finally:
            trees.put(interpreters)

    with contextlib.ExitStack() as held:
        for number in range(options.jobs):
            interpreters = Interpreters(copied(ROOT, folder / str(number)))
            held.callback(interpreters.close)
            trees.put(interpreters)
        with ThreadPoolExecutor(options.jobs) as pool:
            for done in as_completed([pool.submit(trial, mutant) for mutant in mutants]):
                outcome = done.result()
                if outcome is not None:
                    yield outcome


def sample_of(options: argparse.Namespace) -> dict[str, object]:
    """Which changes are drawn, by what decides it."""
    sources = ROOT / SOURCES / "cotenant"
    files = [path for floor in options.floors for path in (sources / floor).rglob("*.py")]
    chosen = {name: getattr(options, name) for name in ("floors", "only", "sample", "seed", "slow")}
    return {**chosen, "sources": digest(files, sources)}


def main() -> int:
    """Status 1 where fewer are dead than `--goal-pct` asks for, 2 where none could be tried, 3 where some are left."""
    options = arguments().parse_args()
    drawn_ones = drawn(list(options.floors), options.only, options.sample, options.seed)
    entries = judged(JUDGED)
    mutants = [mutant for mutant in drawn_ones if _name(mutant) not in entries]
    outcomes: list[Outcome] = []
    with contextlib.ExitStack() as held:
        kept: Path | None = options.trees
        folder = kept or Path(held.enter_context(tempfile.TemporaryDirectory(prefix="cotenant-mutation-")))
        folder.mkdir(parents=True, exist_ok=True)
        lock = held.enter_context((folder / "lock").open("w"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print(f"another command makes its changes in {folder}", file=sys.stderr)
            return 2
        if options.state is not None:
            try:
                outcomes = begun(options.state, sample_of(options))
            except OtherSample as error:
                print(error, file=sys.stderr)
                return 2
            known = {outcome.mutant for outcome in outcomes}
            outcomes = [outcome for outcome in outcomes if _name(outcome.mutant) not in entries]
            mutants = [mutant for mutant in mutants if mutant not in known]
        left = len(mutants)
        for outcome in tried_in_parallel(mutants, chosen_by(options), options, folder.resolve()) if mutants else ():
            outcomes.append(outcome)
            left -= 1
            told(outcome, options.json)
            if options.state is not None:
                with options.state.open("a") as state:
                    state.write(line(outcome) + "\n")
            print(f"\r{len(outcomes)} of {len(outcomes) + left}", end="", file=sys.stderr, flush=True)
    equivalent = len(drawn_ones) - len(outcomes) - left
    tests = "tests" if options.slow else "fast tests"
    print("", *summary(outcomes, equivalent, len(drawn_ones), options.seed, tests), sep="\n", file=sys.stderr)
    if left:
        return 3
    dead = sum(outcome.dead for outcome in outcomes)
    return 0 if 100 * dead >= options.goal_pct * (len(outcomes) + equivalent) else 1


def _name(mutant: Mutant) -> Judged:
    return named(mutant.file, (ROOT / SOURCES / mutant.file).read_text(), mutant.change)


if __name__ == "__main__":
    sys.exit(main())
