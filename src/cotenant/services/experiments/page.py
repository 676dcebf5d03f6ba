"""The HTML report of an experiment: checks, table, plots; one self-contained file.

Problem: results must be viewable, shareable and reproducible. Choice: a page of the house (lab/report/document.py); the command that reproduces it is at the top,
every check beside its pass line, failures as visibly as passes. Limits: about five megabytes, nearly all the plotting library.
"""

from __future__ import annotations

from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

from cotenant.lab.report.document import (
    Figure,
    Heading,
    Section,
    Trace,
    cards_table,
    document,
    drawn,
    side_by_side,
)
from cotenant.services.experiments.outcome import Check, Curve, Findings, Picture, machine


def write(path: Path, outcome: Findings, command: str) -> None:
    """Write the page atomically."""
    heading = Heading("cotenant node", outcome.title, f"cotenant: {outcome.experiment}", conditions(outcome), "")
    section, figures = part(outcome, command)
    temporary = path.with_suffix(".part")
    temporary.write_text(document(heading, (section,), figures, {}))
    temporary.replace(path)


def part(outcome: Findings, command: str) -> tuple[Section, list[Figure]]:
    """The experiment as a section with its figures, for this page and for others that show it."""
    groups = [_figures(index, picture) for index, picture in enumerate(outcome.pictures)]
    left_out = "".join(f"<li>Round {n}: {escape(why)}</li>" for n, why in outcome.discarded)
    discarded = (
        f'<details class="note"><summary>Rounds left out</summary><ul>{left_out}</ul></details>' if left_out else ""
    )
    body = (
        f"<div class=command><code>{escape(command)}</code><button type=button data-copy>copy</button></div>"
        f'<h3>Checks</h3><div class="checks">{"".join(_card(check) for check in outcome.checks)}</div>'
        f"{cards_table(outcome.columns, outcome.rows, ('regulated',)) if outcome.columns else ''}"
        f"{''.join(f'<p class=note>{escape(note)}</p>' for note in outcome.notes)}{discarded}"
        + "".join(side_by_side(group) if len(group) > 1 else drawn(group) for group in groups)
    )
    return Section("node", "On a node", body), [each for group in groups for each in group]


def conditions(outcome: Findings) -> str:
    """What counted, and on which machine, in a sentence."""
    where = machine()
    return (
        f"{'Passed' if outcome.passed else 'Not passed'}: rounds that count: {outcome.rounds}, left out: {len(outcome.discarded)}, blocks run again: {outcome.repeated}. "
        f"Linux {where['kernel']}, {where['cpus']} CPUs. Others used at most {outcome.worst_foreign:.1%} of the plant's core in a block, "
        f"the hypervisor stole at most {outcome.worst_steal:.1%}."
    )


def shown(check: Check) -> tuple[str, str, str]:
    """A check's value, its interval and its pass line, as words."""
    if check.measured is None:
        return "not measured", "", _line(check)
    places = 2 if abs(check.measured) < 100 else 0
    interval = "" if check.low is None or check.high is None else f"{check.low:.{places}f}–{check.high:.{places}f}"
    return f"{check.measured:.{places}f}{check.unit}", interval, _line(check)


def _line(check: Check) -> str:
    return f"{'≥' if check.at_least else '≤'} {check.bound:g}{check.unit}"


def _card(check: Check) -> str:
    value, interval, line = shown(check)
    verdict = "passes" if check.passed else "does not pass"
    ends = f", 95 % interval {interval}" if interval else ""
    return (
        f'<div class="check{"" if check.passed else " failed"}"><b>{value}</b>{escape(check.what)}'
        f"<span><em>{verdict}</em>: {line}{ends}</span></div>"
    )


def _figures(index: int, picture: Picture) -> list[Figure]:
    """A figure a panel; the panels of a picture have the same axes."""
    y_axis = {"title": {"text": picture.y_title}, **_scale(picture, picture.y_log, "y")}
    x_axis = {"title": {"text": picture.x_title}, "showgrid": False, **_scale(picture, picture.x_log, "x")}
    layout: dict[str, Any] = {
        "height": 360,
        "xaxis": x_axis,
        "yaxis": y_axis,
        "legend": {"orientation": "h", "x": 0, "y": -0.22, "yanchor": "top"},
        "margin": {"b": 100},
        "hovermode": "x unified" if len(picture.panels) > 1 else "closest",
    }
    return [
        Figure(
            f"node-{index}-{k}",
            f"{picture.title}: {title}" if title and len(picture.panels) > 1 else picture.title,
            title if len(picture.panels) == 1 else "",
            [_trace(curve) for curve in curves],
            layout,
        )
        for k, (title, curves) in enumerate(picture.panels)
    ]


def _scale(picture: Picture, is_log: bool, axis: str) -> dict[str, object]:
    """An axis from zero to the largest value of all panels, or a logarithmic one with 1, 2 and 5 of each power of ten as its marks."""
    values = [v for _, curves in picture.panels for curve in curves for v in getattr(curve, axis) if v is not None]
    if not is_log:
        if axis == "y" and values and min(values) >= 0:
            return {"type": "linear", "range": [0.0, float(max(values)) * 1.05 or 1.0]}
        return {"type": "linear", "rangemode": "tozero"}
    positive = [v for v in values if v > 0]
    low, high = (log10(min(positive)), log10(max(positive))) if positive else (0.0, 1.0)
    marks = [step * 10.0**power for power in range(floor(low), ceil(high) + 1) for step in (1, 2, 5)]
    return {
        "type": "log",
        "tickvals": marks,
        "ticktext": [f"{mark:g}" for mark in marks],
        "range": [low - 0.03, high + 0.03],
    }


def _trace(curve: Curve) -> Trace:
    trace: Trace = {
        "type": "scatter",
        "name": curve.name,
        "x": [float(value) for value in curve.x],
        "y": [None if value is None else float(value) for value in curve.y],
        "mode": "lines+markers" if curve.is_points else "lines",
        "line": {
            "color": curve.colour,
            "width": 1 if curve.is_filled else 2,
            "dash": "dot" if curve.is_dashed else "solid",
        },
    }
    if curve.is_filled:
        trace["fill"] = "tozeroy"
    return trace
