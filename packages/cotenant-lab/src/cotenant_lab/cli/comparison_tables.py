"""A comparison as tables for a terminal.

Twenty policies by ten figures, each with an interval, do not fit a terminal. As many figures per table as fit, the rest
in further tables; one number of decimals per column, from its intervals; sorted by the leading figure, ours marked.
With several loads: one table per figure, one column per load.
Limits: figures beyond the workload's headline are in the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cotenant.cli.tables import GAP, console, width
from cotenant.model.counted import counted
from cotenant_lab.derived_metrics import SUSTAINED_LOAD, USED_AT_OBJECTIVE
from cotenant_lab.metric import Metric, decimals, show
from cotenant_lab.storage import REPORT

if TYPE_CHECKING:
    from cotenant_lab.comparison import Comparison, ComparisonRow, Paired, SustainedRow, UsedRow
    from cotenant_lab.experiment import ExperimentOutcome
    from cotenant_lab.statistics import Interval

_SIGNS = {"below": "< ", "above": ">= ", "exact": ""}  # of a bound


def print_comparison(comparison: Comparison, folder: Path, outcome: ExperimentOutcome) -> None:
    """The figures, the comparison of ours with each rival, and the paths of further results."""
    out = console()
    if len(comparison.loads) == 1:
        _one_load(out, comparison, comparison.loads[0])
    else:
        for name in comparison.headline:
            if comparison.metrics[name].ranks:
                _sweep(out, comparison, name)
        _sustained(out, comparison)
    for line in _paired_lines(comparison):
        out.print(line, highlight=False)
    fresh = len(comparison.records) - outcome.reused
    runs = counted(len(comparison.records), "run")
    summary = f"{runs} ({fresh} now, {outcome.reused} stored before) in {outcome.wall_s:,.0f} s"
    if comparison.failures:
        summary += f"; {len(comparison.failures)} failed"
    out.print(summary, highlight=False)
    out.print(f"report: {folder / REPORT}", highlight=False, soft_wrap=True)


def _one_load(console: Console, comparison: Comparison, load: float) -> None:
    rows = [row for row in comparison.rows if row.load == load]
    columns = [
        (_heading(comparison.metrics[name]), _column(rows, comparison.metrics[name])) for name in comparison.headline
    ]
    lead = comparison.metrics[comparison.leading]
    for chunk in _chunks(columns, _name_width(rows)):
        _print_table(console, rows, comparison.ours, chunk)
    kind = "sorted by " + lead.title
    console.print(f"load {load:g}; {kind}; {_interval_words(comparison)}\n", style="dim")


def _sweep(console: Console, comparison: Comparison, name: str) -> None:
    metric = comparison.metrics[name]
    focus = comparison.focus
    order = [row.policy for row in comparison.rows if row.load == focus]
    order += [policy for policy in comparison.policies if policy not in order]
    by_policy = [
        next(row for row in comparison.rows if row.policy == policy) for policy in order if _has(comparison, policy)
    ]
    columns = []
    for load in comparison.loads:
        cells = [comparison.row(row.policy, load) for row in by_policy]
        present = [cell for cell in cells if cell is not None]
        places = _places(present, metric)
        texts = [show(metric, c.get(name).mean, c.get(name).half_width, places) if c else "failed" for c in cells]
        columns.append((f"{load:.4g}", texts))
    console.print(f"{metric.title}{f', {metric.suffix}' if metric.suffix else ''}, by load", style="bold")
    for chunk in _chunks(columns, _name_width(by_policy)):
        _print_table(console, by_policy, comparison.ours, chunk)
    console.print()


def _sustained(console: Console, comparison: Comparison) -> None:
    if not comparison.sustained:
        return
    against = {entry.policy: entry for entry in comparison.paired if entry.metric == SUSTAINED_LOAD.name}
    console.print("Sustained load: the largest with V_LS <= 1 % and V_BE <= 1 %, and CPU used at it, %", style="bold")
    cells = [_sustained_text(row) for row in comparison.sustained]
    means = [_of_means_text(row) for row in comparison.sustained]
    paired = [_difference_text(against.get(row.policy)) for row in comparison.sustained]
    columns = [("mean of seeds", cells), ("of the means", means), (f"minus {comparison.ours}", paired)]
    used = {row.policy: row for row in comparison.used_at_objective}
    if len(used) == len(comparison.sustained):
        found = [used[row.policy] for row in comparison.sustained]
        columns.append(("CPU used", [_used_text(row) for row in found]))
        ratios = ["" if row.policy == comparison.ours else _ratio_text(row.ratio) for row in found]
        columns.append((f"{comparison.ours} / it", ratios))
    for chunk in _chunks(columns, _name_width(comparison.sustained)):
        _print_table(console, comparison.sustained, comparison.ours, chunk)
    console.print(f"< and >=: at least one seed is beyond the sweep; {_interval_words(comparison)}\n", style="dim")


def _used_text(row: UsedRow) -> str:
    return _SIGNS[row.bound] + show(USED_AT_OBJECTIVE, row.mean.mean, row.mean.half_width, 1)


def _ratio_text(ratio: Interval) -> str:
    if isnan(ratio.mean):
        return ""
    return f"{ratio.mean:.2f}" + ("" if isnan(ratio.half_width) else f" ±{ratio.half_width:.2f}")


def _sustained_text(row: SustainedRow) -> str:
    return _SIGNS[row.bound] + show(SUSTAINED_LOAD, row.mean.mean, row.mean.half_width, 1)


def _of_means_text(row: SustainedRow) -> str:
    return _SIGNS[row.of_means.bound] + show(SUSTAINED_LOAD, row.of_means.load, places=1)


def _difference_text(paired: Paired | None) -> str:
    return "" if paired is None else show(SUSTAINED_LOAD, paired.difference.mean, paired.difference.half_width, 1)


def _paired_lines(comparison: Comparison) -> list[str]:
    """The policies that ours is ahead of, tied with or behind in the leading figure at the sweep's middle load."""
    metric = comparison.metrics[comparison.leading]
    load = comparison.focus
    pairs = [p for p in comparison.paired if p.metric == metric.name and p.load == load]
    if not pairs or not metric.ranks or len(comparison.seeds) < 2:
        return []
    sign = 1.0 if metric.better == "lower" else -1.0
    ahead = [p.policy for p in pairs if p.difference.excludes_zero and sign * p.difference.mean > 0]
    behind = [p.policy for p in pairs if p.difference.excludes_zero and sign * p.difference.mean < 0]
    tied = [p.policy for p in pairs if not p.difference.excludes_zero]
    words = [f"{comparison.ours} on {metric.title} at load {load:g}, paired by seed:"]
    for verb, names in (("ahead of", ahead), ("behind", behind), ("not separated from", tied)):
        if names:
            line = f"  {verb} {', '.join(names)}"
            words.append(fill(line, width(), subsequent_indent="    ", break_on_hyphens=False))
    return [*words, ""]


def _interval_words(comparison: Comparison) -> str:
    count = len(comparison.seeds)
    return f"± half of the 95 % interval over {count} seeds" if count > 1 else "one seed: no interval"


def _has(comparison: Comparison, policy: str) -> bool:
    return any(row.policy == policy for row in comparison.rows)


def _heading(metric: Metric) -> str:
    return f"{metric.short}\n{metric.suffix}" if metric.suffix else f"{metric.short}\n"


def _places(rows: Sequence[ComparisonRow], metric: Metric) -> int:
    halves = [half for half in (row.get(metric.name).half_width for row in rows) if not isnan(half)]
    return decimals(metric, median(halves) if halves else float("nan"))


def _column(rows: Sequence[ComparisonRow], metric: Metric) -> list[str]:
    places = _places(rows, metric)
    return [show(metric, row.get(metric.name).mean, row.get(metric.name).half_width, places) for row in rows]


def _name_width(rows: Sequence[ComparisonRow | SustainedRow]) -> int:
    return max(len("policy"), *(len(row.policy) for row in rows))


def _chunks(columns: list[tuple[str, list[str]]], name_width: int) -> list[list[tuple[str, list[str]]]]:
    chunks: list[list[tuple[str, list[str]]]] = [[]]
    most = width()
    fixed = name_width + len("ablation") + 2 * GAP
    used = fixed
    for heading, cells in columns:
        wide = max(len(part) for part in (*heading.splitlines(), *cells)) + GAP
        if chunks[-1] and used + wide > most:
            chunks.append([])
            used = fixed
        chunks[-1].append((heading, cells))
        used += wide
    return [chunk for chunk in chunks if chunk]


def _print_table(
    console: Console, rows: Sequence[ComparisonRow | SustainedRow], ours: str, columns: list[tuple[str, list[str]]]
) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("policy", no_wrap=True)
    table.add_column("role", no_wrap=True)
    for heading, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for i, row in enumerate(rows):
        style = "bold" if row.policy == ours else "dim" if row.role == "bound" else ""
        table.add_row(Text(row.policy), row.role, *(Text(cells[i]) for _, cells in columns), style=style)
    console.print(table)
