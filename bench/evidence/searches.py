"""Used CPU at objective by search: for each policy and seed the two neighbouring loads between which it stops keeping
its objectives.

Policies whose limits lie far apart need a wide sweep, most of whose runs say nothing about either limit. Each policy
begins at a load of its own and goes up or down by a step until services and batch both violate at most 1 % at one load
and not at the next; the figures are interpolated between those two (`cotenant_lab/statistics.py`). The few figures of
both runs are kept for each policy and seed in docs/results/searches/NAME.json, with the command and the sources that
made them; pages are written from that file. Finished runs are not repeated.
Limits: where violation is not monotonous in the load, the limit nearest to the beginning is found; a search that
reaches the lowest or highest load has no figure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cotenant import __version__
from cotenant.model.errors import InvalidInput, Permanent
from cotenant_lab import storage
from cotenant_lab.contract import RunSpec
from cotenant_lab.experiment import run_specs
from cotenant_lab.seeds import read_seeds
from cotenant_lab.statistics import Interval, at_load, interval, paired_ratio, sustained_load
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.laws import drawn

FOLDER = Path("docs/results/searches")
LIMIT = 0.01
_LOWEST, _HIGHEST = 0.5, 1.3
_DIGITS = 6  # significant
_PARTS = ("queueing", "restarts", "slowdown")  # of violation, as fractions of all core-hours


@dataclass(frozen=True, slots=True)
class Search:
    """A named search: policies with the loads at which they begin, ours first."""

    name: str
    title: str
    begin: tuple[tuple[str, float], ...]
    seeds: str
    law: str = "mixed"
    step: float = 0.05

    @property
    def command(self) -> str:
        """The command that repeats it."""
        return f"python -m bench.evidence --only {self.name} --seeds {self.seeds}"


SEARCHES: tuple[Search, ...] = (
    Search(
        "lending",
        "Batch on resources that nodes lend",
        (("cotenant-lent", 0.95), ("kube-lent", 0.70), ("kube-default", 0.85)),
        "20-28",
    ),
)
SEARCH_BY_NAME = {search.name: search for search in SEARCHES}


class Run(msgspec.Struct, frozen=True):
    """The figures of one run, fractions."""

    load: float
    used: float
    requested: float
    requested_memory: float
    service: float
    batch: float
    parts: dict[str, float]  # violation by cause

    @property
    def holds(self) -> bool:
        """Whether services and batch both keep their objectives."""
        return max(self.service, self.batch) <= LIMIT


class Found(msgspec.Struct, frozen=True):
    """The last run that holds and the first that does not, of one policy and seed."""

    policy: str
    seed: int
    law: str
    holds: Run
    fails: Run

    def at_objective(self, field: str) -> float:
        """A figure at the load where the first class reaches the limit."""
        pair = (self.holds, self.fails)
        loads = [run.load for run in pair]
        figures = [[run.service for run in pair], [run.batch for run in pair]]
        load = sustained_load(loads, figures, LIMIT).load
        return load if field == "load" else at_load(loads, [float(getattr(run, field)) for run in pair], load)


class SearchSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of docs/results/searches/NAME.json."""

    name: str
    command: str
    version: str
    commit: str
    sources: str
    ours: str
    policies: tuple[str, ...]
    found: tuple[Found, ...]
    remark: str = ""

    def of(self, policy: str) -> dict[int, Found]:
        """What was found of a policy, by seed."""
        return {found.seed: found for found in self.found if found.policy == policy}


def search_path(root: Path, name: str) -> Path:
    """Where the summary of a search is kept."""
    return root / FOLDER / f"{name}.json"


def read_search(root: Path, name: str) -> SearchSummary:
    """The stored summary of a search. Raises `InvalidInput` if there is none, or it cannot be read."""
    path = search_path(root, name)
    try:
        return msgspec.json.decode(path.read_bytes(), type=SearchSummary)
    except (OSError, msgspec.MsgspecError) as error:
        hint = f"make it with python -m bench.evidence --only {name}"
        raise InvalidInput(str(path), str(error).partition("\n")[0], "a summary of a search", hint) from error


def write_search(root: Path, summary: SearchSummary) -> None:
    """Store a summary; a complete file or none."""
    path = search_path(root, summary.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    storage.write_json(path, summary)


def bracket(begin: float, step: float, run: Callable[[float], Run]) -> tuple[Run, Run] | None:
    """The last run that holds and the first that does not; None where the lowest load fails or the highest holds."""
    here = run(begin)
    move = step if here.holds else -step
    while True:
        load = round(here.load + move, 6)
        if not _LOWEST <= load <= _HIGHEST:
            return None
        there = run(load)
        if there.holds is not here.holds:
            return (here, there) if here.holds else (there, here)
        here = there


def run_search(search: Search, folder: Path, root: Path, commit: str) -> None:
    """Run what is missing, seeds outermost, and store the summary. Raises `Permanent` where a run fails or a policy
    has no limit within the loads.
    """
    found = []
    for seed in read_seeds(search.seeds):
        for policy, begin in search.begin:

            def run(load: float, policy: str = policy, seed: int = seed) -> Run:
                return _run(RunSpec("colocation", policy, seed, load, pressure_law=search.law), folder)

            both = bracket(begin, search.step, run)
            if both is None:
                raise Permanent(f"{search.name}: {policy} has no limit from load {_LOWEST} to {_HIGHEST}, seed {seed}")
            law = drawn(WorldConfig(), search.law, seed).pressure_law
            found.append(Found(policy, seed, law, *both))
    policies = tuple(policy for policy, _ in search.begin)
    write_search(
        root,
        SearchSummary(
            search.name,
            search.command,
            __version__,
            commit,
            storage.code_digest(),
            policies[0],
            policies,
            tuple(found),
        ),
    )


def _run(spec: RunSpec, folder: Path) -> Run:
    outcome = run_specs((storage.absolute(spec),), folder, 1)
    if outcome.failures:
        raise Permanent(outcome.failures[0].line())
    record = outcome.records[0]
    measures, causes = record.measures, dict(record.by_class)
    return Run(
        spec.load,
        _short(measures.utilisation_used),
        _short(measures.utilisation),
        _short(measures.utilisation_memory),
        _short(measures.violation_service),
        _short(measures.violation_batch),
        {name: _short(causes[f"violation by {name}"]) for name in _PARTS},
    )


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def ratio(summary: SearchSummary, policy: str, law: str = "") -> Interval:
    """Used CPU at objective of ours over that of a policy, paired by seed; of one law's seeds where it is given."""
    mine, theirs = summary.of(summary.ours), summary.of(policy)
    seeds = [seed for seed in sorted(mine.keys() & theirs.keys()) if law in ("", mine[seed].law)]
    first, second = ([entry[seed].at_objective("used") for seed in seeds] for entry in (mine, theirs))
    return paired_ratio(first, second)


def section(summary: SearchSummary) -> list[str]:
    """The generated lines: what made it, used CPU at objective, what limits each policy, and law by law."""
    seeds = sorted({found.seed for found in summary.found})
    remark = f" {summary.remark}" if summary.remark else ""
    return [
        f"`{summary.command}` ({len(seeds)} paired seeds, ± = 95 % interval). Made with {summary.version} at commit "
            f"{summary.commit}, "
        f"sources {summary.sources}.{remark}",
        "",
        *_table(
            ("policy", "seeds", "used CPU % at objective", f"{summary.ours} / it", "sustained load", "requested CPU %",
                "requested memory %"),
            [_row(summary, policy) for policy in summary.policies],
        ),
        "",
        "What limits each: the first run of each seed that does not hold, mean over seeds; seeds by the class that "
            "fails; late batch by its largest loss, points of all core-hours.",
        "",
        *_table(
            ("policy", "load", "used CPU %", "services %", "batch %", "fails: services, batch, both", "queueing",
                "restarts", "slowdown"),
            [_limits(summary, policy) for policy in summary.policies],
        ),
        "",
        "Law by law, the seeds of each law that the seed draws:",
        "",
        *_table(
            ("law", "seeds", *(f"{policy}, used CPU %" for policy in summary.policies),
                *(f"ours / {policy}" for policy in summary.policies[1:])),
            [_law(summary, law) for law in sorted({found.law for found in summary.found})],
        ),
    ]  # fmt: skip


def _row(summary: SearchSummary, policy: str) -> list[str]:
    found = list(summary.of(policy).values())

    def at(field: str) -> Interval:
        return interval([entry.at_objective(field) for entry in found])

    over = "" if policy == summary.ours else _text(ratio(summary, policy), 1.0, 3)
    name = f"**{policy}**" if policy == summary.ours else policy
    shares = [_text(at(field), 100.0, 1) for field in ("requested", "requested_memory")]
    return [name, str(len(found)), _text(at("used"), 100.0, 1), over, _text(at("load"), 1.0, 3), *shares]


def _limits(summary: SearchSummary, policy: str) -> list[str]:
    runs = [found.fails for found in summary.of(policy).values()]

    def mean(values: Sequence[float], decimals: int, scale: float = 100.0) -> str:
        return f"{scale * sum(values) / len(values):.{decimals}f}"

    kinds = Counter((run.service > LIMIT, run.batch > LIMIT) for run in runs)
    failing = f"{kinds[True, False]}, {kinds[False, True]}, {kinds[True, True]}"
    cells = [policy, mean([run.load for run in runs], 3, 1.0), mean([run.used for run in runs], 1)]
    cells += [mean([run.service for run in runs], 2), mean([run.batch for run in runs], 2), failing]
    return [*cells, *(mean([run.parts[name] for run in runs], 2) for name in _PARTS)]


def _law(summary: SearchSummary, law: str) -> list[str]:
    seeds = sorted({found.seed for found in summary.found if found.law == law})
    used = [
        interval([found.at_objective("used") for found in summary.of(policy).values() if found.law == law])
        for policy in summary.policies
    ]
    ratios = [ratio(summary, policy, law) for policy in summary.policies[1:]]
    return [
        law,
        str(len(seeds)),
        *(_text(entry, 100.0, 1) for entry in used),
        *(_text(entry, 1.0, 2) for entry in ratios),
    ]


def _text(value: Interval, scale: float, decimals: int) -> str:
    if value.count == 0:
        return "–"
    half = "" if value.half_width != value.half_width else f" ±{value.half_width * scale:.{decimals}f}"
    return f"{value.mean * scale:.{decimals}f}{half}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(head) + " |",
        "|" + " --- |" * len(head),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
