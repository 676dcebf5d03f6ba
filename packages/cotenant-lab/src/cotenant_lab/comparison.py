"""The runs of an experiment gathered into one comparison: a row per policy and load, paired differences, the sustained
load.

The terminal, the JSON object and the report must show the same figures. All of them print one `Comparison`, computed
once.
Limits: a failed run is missing from its row's seeds; `ComparisonRow.seeds` gives the number of seeds present.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite, isnan, nan

from cotenant_lab.contract import Scenario
from cotenant_lab.derived_metrics import SUSTAINED_LOAD
from cotenant_lab.experiment import ExperimentOutcome, ExperimentPlan, measured
from cotenant_lab.metric import Metric
from cotenant_lab.metrics_by_workload import catalogue
from cotenant_lab.statistics import (
    Bound,
    Interval,
    Sustained,
    at_load,
    interval,
    paired_difference,
    paired_ratio,
    sustained_load,
)
from cotenant_lab.storage import RunRecord

LIMIT = 0.01
OURS = "ours"


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One policy at one load: each metric's mean over seeds with its interval."""

    policy: str
    role: str
    load: float
    seeds: int
    figures: Mapping[str, Interval]
    by_class: Mapping[str, Interval]

    def get(self, name: str) -> Interval:
        """The figure of that name; NaN where it is not defined."""
        return self.figures.get(name, Interval(nan, nan, 0))


@dataclass(frozen=True, slots=True)
class Paired:
    """`policy` minus `against`, seed by seed, in `metric`; `load` is NaN for the sustained load."""

    policy: str
    against: str
    metric: str
    load: float
    difference: Interval


@dataclass(frozen=True, slots=True)
class SustainedRow:
    """The sustained load of a policy. `bounded`: seeds whose value is only known to lie below or above the sweep."""

    policy: str
    role: str
    mean: Interval  # over seeds, a bound counted as the sweep's end
    of_means: Sustained  # of the seeds' mean violations
    by_seed: tuple[Sustained, ...]
    used: tuple[
        float, ...
    ] = ()  # CPU in use at the sustained load, by seed; empty where the workload has no such figure

    @property
    def bounded(self) -> int:
        """Number of seeds with only a bound."""
        return sum(sustained.bound != "exact" for sustained in self.by_seed)

    @property
    def bound(self) -> Bound:
        """Whether the mean is exact, or below or above where some seeds are only bounds (all of one kind)."""
        kinds = {sustained.bound for sustained in self.by_seed} - {"exact"}
        return kinds.pop() if len(kinds) == 1 else "exact"


@dataclass(frozen=True, slots=True)
class UsedRow:
    """Used CPU at the sustained load of a policy, and that of ours over it, seed by seed."""

    policy: str
    bound: Bound
    mean: Interval
    ratio: Interval  # ours / this policy's


@dataclass(frozen=True, slots=True)
class Comparison:
    """The content of the table, the JSON object and the report."""

    workload: str
    summary: str
    provenance: str
    headline: tuple[str, ...]
    metrics: Mapping[str, Metric]
    measured: tuple[str, ...]
    ours: str  # the policy others are compared with
    roles: Mapping[str, str]
    summaries: Mapping[str, str]
    policies: tuple[str, ...]
    loads: tuple[float, ...]
    seeds: tuple[int, ...]
    rows: tuple[ComparisonRow, ...]
    paired: tuple[Paired, ...]
    sustained: tuple[SustainedRow, ...]
    notes: tuple[str, ...]
    failures: tuple[str, ...]
    records: tuple[RunRecord, ...] = field(repr=False, default=())

    def row(self, policy: str, load: float) -> ComparisonRow | None:
        """The row of a policy at a load; None where all its runs failed."""
        return next((row for row in self.rows if row.policy == policy and row.load == load), None)

    @property
    def used_at_objective(self) -> tuple[UsedRow, ...]:
        """Used CPU at objective of every policy with a sustained load, the largest first."""
        with_use = [row for row in self.sustained if row.used]
        mine = next((row.used for row in with_use if row.policy == self.ours), ())
        rows = [
            UsedRow(
                row.policy,
                row.bound,
                interval(row.used),
                paired_ratio(mine, row.used) if mine else Interval(nan, nan, 0),
            )
            for row in with_use
        ]
        return tuple(sorted(rows, key=lambda row: -row.mean.mean))

    @property
    def file(self) -> str:
        """Name of the user's workload file; empty where there is none."""
        found = next((record.spec.file for record in self.records if record.spec.file), None)
        return found.name if found else ""

    @property
    def leading(self) -> str:
        """The metric that sorts the rows."""
        return leading_metric(self.headline, self.metrics, self.measured)

    @property
    def focus(self) -> float:
        """The load shown by figures of a single load: the middle of the sweep, the higher of two."""
        return self.loads[len(self.loads) // 2]


def compare(plan: ExperimentPlan, scenario: Scenario, outcome: ExperimentOutcome) -> Comparison:
    """Gather an experiment's runs."""
    metrics = catalogue(plan.base.workload)
    names = measured(outcome.records)
    infos = {info.name: info for info in scenario.policies()}
    roles = {name: infos[name].role for name in plan.policies}
    ours = next((name for name in plan.policies if roles[name] == OURS), plan.policies[0])
    headline = tuple(name for name in scenario.headline if name in names)
    groups: dict[tuple[str, float], dict[int, RunRecord]] = {}
    for record in outcome.records:
        groups.setdefault((record.spec.policy, record.spec.load), {})[record.spec.seed] = record
    leading = leading_metric(headline, metrics, names)
    rows = [_row(policy, roles[policy], load, runs, names) for (policy, load), runs in groups.items()]
    highest_first = metrics[leading].better == "higher"

    def rank(row: ComparisonRow) -> tuple[float, bool, float]:
        mean = row.get(leading).mean
        return row.load, isnan(mean), -mean if highest_first else mean

    sustained = _sustained(plan, roles, groups) if {"violation_service", "violation_batch"} <= set(names) else ()
    return Comparison(
        workload=plan.base.workload,
        summary=scenario.summary,
        provenance=scenario.provenance,
        headline=headline,
        metrics=metrics,
        measured=names,
        ours=ours,
        roles=roles,
        summaries={name: infos[name].summary for name in plan.policies},
        policies=plan.policies,
        loads=plan.loads,
        seeds=plan.seeds,
        rows=tuple(sorted(rows, key=rank)),
        paired=(*_paired(plan, ours, groups, metrics, names), *_paired_sustained(ours, sustained)),
        sustained=sustained,
        notes=tuple(dict.fromkeys(note for record in outcome.records for note in record.notes)),
        failures=tuple(failure.line() for failure in outcome.failures),
        records=outcome.records,
    )


def leading_metric(headline: tuple[str, ...], metrics: Mapping[str, Metric], names: tuple[str, ...]) -> str:
    """The metric that sorts the rows: the violation if measured, else the first figure that ranks policies."""
    if "violation" in names:
        return "violation"
    candidates = [name for name in (*headline, *names) if metrics[name].ranks]
    if "utilisation" in candidates:
        return "utilisation"
    return candidates[0] if candidates else names[0]


def _row(policy: str, role: str, load: float, runs: dict[int, RunRecord], names: tuple[str, ...]) -> ComparisonRow:
    figures = {name: interval([getattr(run.measures, name) for run in runs.values()]) for name in names}
    classes = dict.fromkeys(name for run in runs.values() for name, _ in run.by_class)
    by_class = {name: interval([dict(run.by_class).get(name, nan) for run in runs.values()]) for name in classes}
    return ComparisonRow(policy, role, load, len(runs), figures, by_class)


def _paired(
    plan: ExperimentPlan,
    ours: str,
    groups: Mapping[tuple[str, float], Mapping[int, RunRecord]],
    metrics: Mapping[str, Metric],
    names: tuple[str, ...],
) -> tuple[Paired, ...]:
    found = []
    for load in plan.loads:
        base = groups.get((ours, load), {})
        for policy in plan.policies:
            other = groups.get((policy, load), {})
            common = sorted(base.keys() & other.keys())
            if policy == ours or not common:
                continue
            for name in names:
                if not metrics[name].ranks:
                    continue
                theirs = [getattr(other[seed].measures, name) for seed in common]
                mine = [getattr(base[seed].measures, name) for seed in common]
                difference = paired_difference(theirs, mine)
                if isfinite(difference.mean):
                    found.append(Paired(policy, ours, name, load, difference))
    return tuple(found)


def _sustained(
    plan: ExperimentPlan, roles: Mapping[str, str], groups: Mapping[tuple[str, float], Mapping[int, RunRecord]]
) -> tuple[SustainedRow, ...]:
    loads = sorted(plan.loads)
    if len(loads) < 2:
        return ()
    rows = []
    for policy in plan.policies:
        by_load = [groups.get((policy, load), {}) for load in loads]
        seeds = [seed for seed in plan.seeds if all(seed in runs for runs in by_load)]
        curves = {
            seed: [
                [getattr(runs[seed].measures, name) for runs in by_load]
                for name in ("violation_service", "violation_batch")
            ]
            for seed in seeds
        }
        curves = {seed: curve for seed, curve in curves.items() if not any(isnan(v) for part in curve for v in part)}
        if len(curves) != len(plan.seeds):
            continue  # an incomplete sweep: its seeds would not pair with those of the others
        by_seed = tuple(sustained_load(loads, curve, LIMIT) for curve in curves.values())
        means = [[sum(c[k][i] for c in curves.values()) / len(curves) for i in range(len(loads))] for k in range(2)]
        rows.append(
            SustainedRow(
                policy,
                roles[policy],
                interval([sustained.load for sustained in by_seed]),
                sustained_load(loads, means, LIMIT),
                by_seed,
                _used(by_load, tuple(curves), loads, by_seed),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.mean.mean, row.policy)))


def _used(
    by_load: list[Mapping[int, RunRecord]], seeds: tuple[int, ...], loads: list[float], at: tuple[Sustained, ...]
) -> tuple[float, ...]:
    """CPU in use at the sustained load of each seed."""
    curves = [[runs[seed].measures.utilisation_used for runs in by_load] for seed in seeds]
    if any(isnan(value) for curve in curves for value in curve):
        return ()
    return tuple(at_load(loads, curve, sustained.load) for curve, sustained in zip(curves, at, strict=True))


def _paired_sustained(ours: str, rows: tuple[SustainedRow, ...]) -> tuple[Paired, ...]:
    base = next((row for row in rows if row.policy == ours), None)
    if base is None:
        return ()
    mine = [sustained.load for sustained in base.by_seed]
    return tuple(
        Paired(
            row.policy,
            ours,
            SUSTAINED_LOAD.name,
            nan,
            paired_difference([sustained.load for sustained in row.by_seed], mine),
        )
        for row in rows
        if row is not base
    )


@dataclass(frozen=True, slots=True)
class PolicyStanding:
    """The best policy by a figure, and the policies that the paired intervals do not separate from it."""

    best: str
    tied: tuple[str, ...]


def standing(comparison: Comparison, name: str, load: float) -> PolicyStanding | None:
    """The best policy by a figure at a load, bounds excluded; None if the figure does not rank policies or is not
    defined.
    """
    metric = comparison.metrics[name]
    if metric.better == "neither" or metric.owner not in ("policy", "machine"):
        return None
    sign = 1.0 if metric.better == "lower" else -1.0
    rows = [row for row in comparison.rows if row.load == load and row.role != "bound" and row.get(name).count]
    if not rows:
        return None
    best = min(rows, key=lambda row: sign * row.get(name).mean)
    mine = _by_seed(comparison, best.policy, name, load)
    tied = []
    for row in rows:
        theirs = _by_seed(comparison, row.policy, name, load)
        common = sorted(mine.keys() & theirs.keys())
        difference = paired_difference([theirs[seed] for seed in common], [mine[seed] for seed in common])
        if row is not best and (difference.mean == 0.0 or (difference.count > 1 and not difference.excludes_zero)):
            tied.append(row.policy)
    return PolicyStanding(best.policy, tuple(tied))


def _by_seed(comparison: Comparison, policy: str, name: str, load: float) -> dict[int, float]:
    runs = [run for run in comparison.records if run.spec.policy == policy and run.spec.load == load]
    return {run.spec.seed: getattr(run.measures, name) for run in runs}
