"""The report's tables, as HTML that needs no script: every cell has its column's label, for the cards of a narrow
screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import isfinite, isnan
from statistics import median

from cotenant.model.pages.wide import Cell, Head, WideRow, cell, head, wide
from cotenant_lab.comparison import Comparison, Paired, SustainedRow, UsedRow, standing
from cotenant_lab.derived_metrics import DERIVED, SUSTAINED_LOAD, USED_AT_OBJECTIVE
from cotenant_lab.metric import OWNER_WORDS, Metric, decimals, show

_MAX_PAIRED = 8
_FIRST = (head("policy", "name"), head("role", "role"))


def summary(comparison: Comparison, load: float) -> str:
    """The headline figures at one load; the best of each column marked, and those not separated from it."""
    rows = [row for row in comparison.rows if row.load == load]
    names = comparison.headline
    best = {name: standing(comparison, name, load) for name in names}
    heads = [*_FIRST, *(_heading(comparison.metrics[name]) for name in names)]
    body = []
    for row in rows:
        cells = [_policy_cell(comparison, row.policy), cell(row.role, "role")]
        for name in names:
            value = row.get(name)
            places = _places([entry.get(name).half_width for entry in rows], comparison.metrics[name])
            found = best[name]
            mark = ""
            if found is not None and row.role != "bound":
                mark = "best" if row.policy == found.best else "tied" if row.policy in found.tied else ""
            cells.append(_number(comparison.metrics[name], value.mean, value.half_width, places, mark))
        body.append(WideRow(cells, _row_class(comparison, row.policy)))
    return wide(heads, body, is_sortable=True)


def paired(comparison: Comparison) -> str:
    """Each policy minus ours, seed by seed, in the figures that rank policies."""
    load = comparison.focus
    ranking = [name for name in comparison.headline if comparison.metrics[name].ranks]
    ranking += [
        n
        for n in ("violation_service", "violation_batch", "slowdown_p99")
        if n in comparison.measured and n not in ranking
    ]
    names = ranking[:_MAX_PAIRED]
    known = {(p.policy, p.metric): p for p in comparison.paired if p.load == load or isnan(p.load)}
    others = [row.policy for row in comparison.rows if row.load == load and row.policy != comparison.ours]
    metrics = [comparison.metrics[name] for name in names]
    if comparison.sustained:
        metrics.insert(0, SUSTAINED_LOAD)
    if not others or not metrics:
        return ""
    heads = [*_FIRST, *(_heading(metric, points=True) for metric in metrics)]
    body = []
    for policy in others:
        cells = [_policy_cell(comparison, policy), cell(comparison.roles[policy], "role")]
        for metric in metrics:
            pair = known.get((policy, metric.name))
            halves = [p.difference.half_width for (_, name), p in known.items() if name == metric.name]
            cells.append(_difference(metric, pair, _places(halves, metric)))
        body.append(WideRow(cells))
    return wide(heads, body, is_sortable=True)


def sustained(comparison: Comparison) -> str:
    """The sustained load with its bounds, of the seeds and of their mean curve."""
    if not comparison.sustained:
        return ""
    columns = (
        ("mean of seeds", "%"),
        ("of the mean curve", "%"),
        ("used CPU at it", "%"),
        ("seeds beyond the sweep", ""),
    )
    heads = [*_FIRST, *(head(name, unit=unit) for name, unit in columns)]
    body = []
    used = {row.policy: row for row in comparison.used_at_objective}
    for row in comparison.sustained:
        cells = [
            _policy_cell(comparison, row.policy),
            cell(row.role, "role"),
            Cell(f"{_sign(row.bound)}{_with_interval(show(SUSTAINED_LOAD, row.mean.mean, row.mean.half_width, 1))}"),
            Cell(f"{_sign(row.of_means.bound)}{show(SUSTAINED_LOAD, row.of_means.load, places=1)}"),
            Cell(_used(used.get(row.policy))),
            cell(_beyond(row)),
        ]
        body.append(WideRow(cells, _row_class(comparison, row.policy)))
    return wide(heads, body, is_sortable=True)


def _used(row: UsedRow | None) -> str:
    if row is None:
        return "–"
    return _sign(row.bound) + _with_interval(show(USED_AT_OBJECTIVE, row.mean.mean, row.mean.half_width, 1))


def by_class(comparison: Comparison) -> str:
    """The scenario's further figures, by name, at the focus load."""
    rows = [row for row in comparison.rows if row.load == comparison.focus]
    names = list(dict.fromkeys(name for row in rows for name in row.by_class))
    if not names:
        return ""
    largest = {
        name: max((abs(r.by_class[name].mean) for r in rows if name in r.by_class), default=0.0) for name in names
    }
    places = {name: 4 if x <= 0.2 else 3 if x <= 2 else 2 if x <= 200 else 0 for name, x in largest.items()}
    heads = [_FIRST[0], *(head(name, "long") for name in names)]
    body = []
    for row in rows:
        cells = [_policy_cell(comparison, row.policy)]
        for name in names:
            value = row.by_class.get(name)
            cells.append(Cell(_plain(value.mean, value.half_width, places[name]) if value else "–"))
        body.append(WideRow(cells, _row_class(comparison, row.policy)))
    return wide(heads, body, is_sortable=True)


def definitions(comparison: Comparison) -> str:
    """The definition of every figure, those of this comparison first."""
    used = [metric for name, metric in comparison.metrics.items() if name in comparison.measured]
    if comparison.sustained:
        used += DERIVED
    unused = [metric for name, metric in comparison.metrics.items() if name not in comparison.measured]
    heads = [
        head("figure", "name"),
        head("better", "role"),
        head("determined by", "words"),
        head("definition", "words"),
    ]
    body = [
        WideRow(
            [
                Cell(f"{escape(metric.title)}<small><code>{metric.name}</code></small>", "name"),
                cell("–" if metric.better == "neither" else metric.better, "role"),
                cell(OWNER_WORDS[metric.owner], "words"),
                cell(f"{metric.definition}{'' if metric in used else ' Not measured by this workload.'}", "words"),
            ],
            "" if metric in used else "faint",
        )
        for metric in (*used, *unused)
    ]
    return wide(heads, body)


def policies(comparison: Comparison) -> str:
    """The description of each policy."""
    body = [
        WideRow(
            [
                _policy_cell(comparison, name),
                cell(comparison.roles[name], "role"),
                cell(comparison.summaries[name], "words"),
            ],
            _row_class(comparison, name),
        )
        for name in comparison.policies
    ]
    return wide([*_FIRST, head("what it does", "words")], body)


def _heading(metric: Metric, points: bool = False) -> Head:
    unit = "points" if points and metric.unit == "fraction" else metric.suffix
    arrow = {"higher": "▲", "lower": "▼", "neither": ""}[metric.better]
    return head(metric.short, unit=f"{unit} {arrow}".strip(), hint=f"{metric.title}. {metric.definition}")


def _policy_cell(comparison: Comparison, policy: str) -> Cell:
    dot = f'<i data-policy="{escape(policy, quote=True)}"></i>'
    return Cell(f"{dot}{escape(policy)}", "name", hint=comparison.summaries[policy])


def _row_class(comparison: Comparison, policy: str) -> str:
    if policy == comparison.ours:
        return "ours"
    return "bound" if comparison.roles[policy] == "bound" else ""


def _number(metric: Metric, value: float, half: float, places: int, mark: str) -> Cell:
    text = _with_interval(show(metric, value, half, places))
    return Cell(text, mark, value=f"{value}" if isfinite(value) else "")


def _difference(metric: Metric, pair: Paired | None, places: int) -> Cell:
    if pair is None:
        return cell("–")
    value, half = pair.difference.mean, pair.difference.half_width
    worse = value > 0 if metric.better == "lower" else value < 0
    kind = "" if not pair.difference.excludes_zero else "worse" if worse else "better"
    text = show(metric, value, half, places)
    sign = "+" if value > 0 and text.strip("0.,± ") else ""
    return Cell(f"{sign}{_with_interval(text)}", kind, value=f"{value}")


def _with_interval(text: str) -> str:
    value, plus, half = text.partition(" ±")
    return f"{value}<span class=ci>±{half}</span>" if plus else value


def _places(halves: Sequence[float], metric: Metric) -> int:
    known = [half for half in halves if not isnan(half)]
    return decimals(metric, median(known) if known else float("nan"))


def _plain(value: float, half: float, places: int) -> str:
    if not isfinite(value):
        return "–"
    text = f"{value:,.{places}f}"
    return f"{text}<span class=ci>±{half:,.{places}f}</span>" if isfinite(half) else text


def _sign(bound: str) -> str:
    return {"below": "&lt; ", "above": "≥ ", "exact": ""}[bound]


def _beyond(row: SustainedRow) -> str:
    below = sum(sustained.bound == "below" for sustained in row.by_seed)
    above = sum(sustained.bound == "above" for sustained in row.by_seed)
    counts = [f"{count} {side}" for count, side in ((below, "below"), (above, "above")) if count]
    return ", ".join(counts) if counts else "none"
