"""Markdown of an experiment's summary: its table, the sustained loads, paired differences, and the line that says
what made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

import numpy as np

from bench.evidence.experiments import Column
from bench.evidence.summaries import Row, Run, Summary, Value
from cotenant_lab.statistics import paired_difference

_NONE = Value(None)
_BEYOND = {"exact": "", "below": "at most ", "above": "at least "}  # bounds at the ends of the sweep


def cell(value: Value, scale: float, decimals: int) -> str:
    """A mean with its interval."""
    if value.mean is None:
        return "–"
    half = "" if value.half is None else f" ±{value.half * scale:.{decimals}f}"
    return f"{value.mean * scale:.{decimals}f}{half}"


def figure(row: Row, field: str) -> Value:
    """A figure of a row by the name in a column: a metric, or `class:NAME`."""
    kind, _, name = field.partition(":")
    return row.by_class.get(name, _NONE) if kind == "class" else row.figures.get(field, _NONE)


def made_by(summary: Summary) -> str:
    """The command, and the version and commit that it was run with."""
    sources = f", sources {summary.sources}" if summary.sources else ""
    remark = f" {summary.remark}" if summary.remark else ""
    return (
        f"`{summary.command}` ({summary.seeds} paired seeds, ± = 95 % interval). "
        f"Made with {summary.version} at commit {summary.commit}{sources}.{remark}"
    )


def table(summary: Summary, columns: Sequence[Column]) -> list[str]:
    """Markdown rows, one per policy and load."""
    sweep = len(summary.loads) > 1
    head = ["policy", *(["load"] if sweep else []), *(heading for _, heading, _, _ in columns)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in summary.rows:
        cells = [_name(row.policy, summary), *([f"{row.load:g}"] if sweep else [])]
        cells += [cell(figure(row, field), scale, decimals) for field, _, scale, decimals in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _name(policy: str, summary: Summary) -> str:
    return f"**{policy}**" if policy == summary.ours else policy


def paired(summary: Summary) -> list[str]:
    """The differences of violation, a row per policy and a column per load; nothing where there are none."""
    found = {
        (difference.policy, difference.load): difference.value
        for difference in summary.paired
        if difference.value.mean is not None
    }
    if not found:
        return []
    loads = sorted({load for _, load in found})
    head = "| violation minus ours, points | " + " | ".join(f"at {load:g}" for load in loads) + " |"
    lines = ["", head, "|" + " --- |" * (len(loads) + 1)]
    for policy in dict.fromkeys(policy for policy, _ in found):
        cells = [_difference(found.get((policy, load), _NONE)) for load in loads]
        lines.append("| " + " | ".join([policy, *cells]) + " |")
    return lines


def _difference(value: Value) -> str:
    if value.mean is None:
        return ""
    shown = "" if value.half is None else f" ±{value.half * 100:.2f}"
    tie = " (tie)" if value.half is not None and abs(value.mean) <= value.half else ""
    return f"{value.mean * 100:+.2f}{shown}{tie}"


def sustained(summary: Summary) -> list[str]:
    """The sustained load of each policy of a sweep; nothing where there is none."""
    if not summary.sustained:
        return []
    lines = ["", "Sustained load: the largest at which services and batch each violate at most 1 %:", ""]
    used = {objective.policy: objective for objective in summary.used}
    differs = any(row.difference.mean is not None for row in summary.sustained)
    heads = ["policy", "mean over seeds", "of the mean curves", *(["minus ours, paired"] if differs else [])]
    heads += ["used CPU % at it", f"{summary.ours} / it"] if used else []
    lines += ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for row in summary.sustained:
        shown = "–" if row.value.mean is None else _BEYOND[row.bound] + cell(row.value, 1.0, 3)
        curves = "–" if row.of_means is None else f"{_BEYOND[row.of_means_bound]}{row.of_means:.3f}"
        cells = [row.policy, shown, curves]
        if differs:
            mean, half = row.difference.mean, row.difference.half
            cells.append("" if mean is None else f"{mean:+.3f}" + ("" if half is None else f" ±{half:.3f}"))
        if row.policy in used:
            element = used[row.policy]
            cells += [_BEYOND[element.bound] + cell(element.value, 100.0, 1)]
            cells += ["" if row.policy == summary.ours else cell(element.ratio, 1.0, 3)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def section(summary: Summary, columns: Sequence[Column]) -> list[str]:
    """All of an experiment's generated lines."""
    return [made_by(summary), "", *table(summary, columns), *sustained(summary), *paired(summary)]


def openb_lists(summaries: Mapping[str, Summary], published: Mapping[str, float]) -> list[str]:
    """Ours beside FGD on every pod list: allocation, first refusal, acceptance of CPU-only and of 8-GPU pods, ours
    / FGD / FGD with all classes.
    """
    head = (
        "list",
        "FGD published %",
        "GPUs allocated %",
        "ours - published",
        "first refusal at load",
        "CPU-only accepted %",
        "8-GPU accepted %",
    )
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for name, summary in summaries.items():
        rows = [next(row for row in summary.rows if row.policy == policy) for policy in _OPENB]
        ours = rows[0].figures["utilisation"].mean
        assert ours is not None
        cells = [name, f"{published[name]:.2f}", _three(rows, "utilisation", 100.0, 2)]
        cells += [f"{100.0 * ours - published[name]:+.2f}", _three(rows, "first_failure", 1.0, 3)]
        cells += [_three(rows, f"class:accepted: {kind}", 100.0, 1) for kind in ("cpu-only", "8 GPUs")]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


_OPENB = ("cotenant", "fgd", "fgd-all-classes")


def _three(rows: Sequence[Row], field: str, scale: float, decimals: int) -> str:
    return " / ".join(cell(Value(figure(row, field).mean), scale, decimals) for row in rows)


def made_together(summaries: Mapping[str, Summary], word: str) -> str:
    """The line above a table of one comparison per key of `summaries`; in its command the key is written as `word`."""
    key, first = next(iter(summaries.items()))
    seeds = ", ".join(dict.fromkeys(str(summary.seeds) for summary in summaries.values()))
    commits = ", ".join(dict.fromkeys(summary.commit for summary in summaries.values()))
    sources = ", ".join(dict.fromkeys(summary.sources for summary in summaries.values()))
    command = " ".join(word if part == key else part for part in first.command.split())
    return (
        f"`{command}` ({seeds} paired seeds, ± = 95 % interval). Made with {first.version} at commit {commits}, "
        f"sources {sources}."
    )


def scales(summaries: Mapping[str, Summary]) -> list[str]:
    """Violation of the one policy of each summary, by law."""
    lines = ["| law | policy | violation % | services % | batch % |", "|" + " --- |" * 5]
    for law, summary in summaries.items():
        row = summary.rows[0]
        kinds = ("violation", "violation_service", "violation_batch")
        lines.append(
            "| " + " | ".join((law, row.policy, *(cell(figure(row, kind), 100.0, 2) for kind in kinds))) + " |"
        )
    return lines


def estimates(summaries: Mapping[str, Summary]) -> list[str]:
    """Violation of ours and of the other policy by the error of estimates, and the paired difference."""
    ours, other = _ESTIMATES
    lines = [
        f"| log-normal sd | {ours} % | services, batch % | {other} % | services, batch % | {other} - {ours}, points |"
    ]
    lines.append("|" + " --- |" * 6)
    for sd, summary in summaries.items():
        rows = {row.policy: row for row in summary.rows}
        cells = [sd]
        for policy in _ESTIMATES:
            row = rows[policy]
            cells.append(cell(figure(row, "violation"), 100.0, 2))
            cells.append(
                ", ".join(cell(Value(figure(row, f"violation_{kind}").mean), 100.0, 2) for kind in ("service", "batch"))
            )
        difference = next(entry.value for entry in summary.paired if entry.policy == other)
        shown = "–" if difference.mean is None else f"{difference.mean * 100.0:+.2f}"
        cells.append(shown if difference.half is None else f"{shown} ±{difference.half * 100.0:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


_ESTIMATES = ("cotenant", "cotenant-requests")


def by_law(summary: Summary, laws: Mapping[int, str]) -> list[str]:
    """Violation under each of the laws that the seeds drew, and the paired difference to ours. `laws`: seed -> law."""
    policies = list(dict.fromkeys(run.policy for run in summary.runs))
    policies.sort(key=lambda policy: policy != summary.ours)
    lines = ["| law | seeds | load | " + " | ".join(_name(policy, summary) for policy in policies) + " |"]
    lines.append("|" + " --- |" * (3 + len(policies)))
    for law in dict.fromkeys(laws.values()):
        for load in summary.loads:
            found = {
                policy: np.array([r.violation for r in _of(summary, policy, load) if laws[r.seed] == law])
                for policy in policies
            }
            ours = found[summary.ours]
            cells = [law, str(len(ours)), f"{load:g}"]
            for policy in policies:
                text = f"{found[policy].mean() * 100.0:.2f}"
                if policy != summary.ours:
                    difference = paired_difference(found[policy], ours)
                    half = "" if isnan(difference.half_width) else f" ±{difference.half_width * 100.0:.2f}"
                    text += f" ({difference.mean * 100.0:+.2f}{half})"
                cells.append(text)
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _of(summary: Summary, policy: str, load: float) -> list[Run]:
    runs = [run for run in summary.runs if (run.policy, run.load) == (policy, load)]
    return sorted(runs, key=lambda run: run.seed)


def mixed_in_brief(
    summary: Summary, loads: Sequence[float], headings: Sequence[str], brackets: tuple[str, str, str], zero: str
) -> list[str]:
    """The README's table of the mixed law: a row per policy, violation and the difference to ours at each of
    `loads`.
    """
    opening, separator, closing = brackets
    policy, violation, points = headings
    head = [policy]
    for load in loads:
        head += [f"{violation} {load:.2f}", f"{points} {load:.2f}"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    rows = {(row.policy, row.load): row for row in summary.rows}
    paired = {(difference.policy, difference.load): difference.value for difference in summary.paired}
    for name in sorted({row.policy for row in summary.rows}, key=lambda name: _mean(rows[name, loads[-1]])):
        cells = [_name(name, summary)]
        for load in loads:
            row = rows[name, load]
            parts = [cell(Value(figure(row, f"violation_{kind}").mean), 100.0, 2) for kind in ("service", "batch")]
            cells.append(f"{cell(Value(_mean(row)), 100.0, 2)} {opening}{separator.join(parts)}{closing}")
            value = paired.get((name, load))
            if value is None or value.mean is None or value.half is None:
                cells.append("")
            else:
                clear = "" if abs(value.mean) > value.half else f" {zero}"
                cells.append(f"{value.mean * 100.0:+.2f} ±{value.half * 100.0:.2f}{clear}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _mean(row: Row) -> float:
    return figure(row, "violation").mean or 0.0
