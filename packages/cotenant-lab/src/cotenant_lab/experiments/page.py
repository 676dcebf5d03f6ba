"""The HTML report of an experiment: checks, table, plots; one self-contained file.

Results must be viewable, shareable and reproducible. A page of the house (`cotenant.model.pages`); the command
that reproduces it is at the top, every check beside its pass line, failures as visibly as passes, and what is not
decided as neither.
Limits: a curve is drawn as it was measured, point by point.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from cotenant.model.pages.document import Heading, PageSection, document, drawn, side_by_side
from cotenant.model.pages.document import command as copied
from cotenant.model.pages.figures import Axis, Chart, ChartLine, Figure, logarithmic, over
from cotenant.model.pages.wide import plain_table
from cotenant_lab.experiments.outcome import CheckVerdict, Curve, FigureCheck, Findings, Picture, machine


def write(path: Path, outcome: Findings, command: str) -> None:
    """Write the page atomically."""
    heading = Heading("cotenant node", outcome.title, f"cotenant: {outcome.experiment}", conditions(outcome), "")
    section, figures = part(outcome, command)
    temporary = path.with_suffix(".part")
    temporary.write_text(document(heading, (section,), figures, {}))
    temporary.replace(path)


def part(outcome: Findings, command: str, pictures_first: bool = False) -> tuple[PageSection, list[Figure]]:
    """The experiment as a section with its figures, for this page and for others that show it."""
    groups = [_figures(index, picture) for index, picture in enumerate(outcome.pictures)]
    left_out = "".join(f"<li>Round {n}: {escape(why)}</li>" for n, why in outcome.discarded)
    discarded = (
        f"<details class=soft><summary>Rounds left out</summary><ul>{left_out}</ul></details>" if left_out else ""
    )
    drawings = "".join(side_by_side(group) if len(group) > 1 else drawn(group) for group in groups)
    body = (
        f"{drawings if pictures_first else ''}{copied(command)}"
        f'<h3>Checks</h3><div class="checks">{"".join(_card(check) for check in outcome.checks)}</div>'
        f"{plain_table(outcome.columns, outcome.rows, ('regulated',)) if outcome.columns else ''}"
        f"{''.join(f'<p class=soft>{escape(note)}</p>' for note in outcome.notes)}{discarded}"
        f"{'' if pictures_first else drawings}"
    )
    return PageSection("node", "On a node", body), [figure for group in groups for figure in group]


def conditions(outcome: Findings) -> str:
    """What it came to and what counted, and on which machine, in a sentence each."""
    where = machine()
    count = sum(check.verdict is CheckVerdict.PASSED for check in outcome.checks)
    verdict = f"{count} of {len(outcome.checks)} checks pass"
    why = f", others are not decided: {outcome.why_not_decided}" if outcome.why_not_decided else ""
    return (
        f"{verdict}{why}. Rounds that count: {outcome.rounds}, left out: {len(outcome.discarded)}, blocks run again: "
        f"{outcome.repeated}. "
        f"Linux {where['kernel']}, {where['cpus']} CPUs. Others used at most {outcome.worst_foreign:.1%} of the "
        "plant's core in a block, "
        f"the hypervisor stole at most {outcome.worst_steal:.1%}."
    )


def shown(check: FigureCheck) -> tuple[str, str, str]:
    """A check's value, its interval and its pass line, as words."""
    if check.measured is None:
        return "not measured", "", _line(check)
    places = 2 if abs(check.measured) < 100 else 0
    interval = "" if check.low is None or check.high is None else f"{check.low:.{places}f}–{check.high:.{places}f}"
    return f"{check.measured:.{places}f}{check.unit}", interval, _line(check)


def _line(check: FigureCheck) -> str:
    return f"{'≥' if check.at_least else '≤'} {check.bound:g}{check.unit}"


_CLASSES = {CheckVerdict.PASSED: "", CheckVerdict.FAILED: " failed", CheckVerdict.NOT_DECIDED: " undecided"}
_WORDS = {CheckVerdict.PASSED: "passes", CheckVerdict.FAILED: "does not pass", CheckVerdict.NOT_DECIDED: "not decided"}


def _card(check: FigureCheck) -> str:
    value, interval, line = shown(check)
    ends = f", 95 % interval {interval}" if interval else ""
    return (
        f'<div class="check{_CLASSES[check.verdict]}"><b>{value}</b>{escape(check.what)}'
        f"<span><em>{_WORDS[check.verdict]}</em>: {line}{ends}</span></div>"
    )


def _figures(index: int, picture: Picture) -> list[Figure]:
    """A figure a panel; the panels of a picture have the same axes."""
    x, y = _axis(picture, picture.x_title, picture.x_log, "x"), _axis(picture, picture.y_title, picture.y_log, "y")
    return [
        Figure(
            f"node-{index}-{k}",
            f"{picture.title}: {title}" if title and len(picture.panels) > 1 else picture.title,
            title if len(picture.panels) == 1 else "",
            Chart(
                x=x,
                y=y,
                lines=tuple(_drawn(curve) for curve in curves),
                height=300,
                is_united=len(picture.panels) > 1,
            ),
        )
        for k, (title, curves) in enumerate(picture.panels)
    ]


def _axis(picture: Picture, title: str, is_log: bool, axis: str) -> Axis:
    """An axis over the values of all panels, y from zero, or a logarithmic one."""
    values = [v for _, curves in picture.panels for curve in curves for v in getattr(curve, axis) if v is not None]
    if not is_log:
        return over(title, values, from_zero=axis == "y")
    positive = [float(v) for v in values if v > 0] or [1.0, 10.0]
    return logarithmic(title, min(positive) / 1.07, max(positive) * 1.07)


def _drawn(curve: Curve) -> ChartLine:
    return ChartLine(
        name=curve.name,
        x=[float(value) for value in curve.x],
        y=[None if value is None else float(value) for value in curve.y],
        colour=curve.colour,
        width=1.0 if curve.is_filled else 2.0,
        dash="dot" if curve.is_dashed else "solid",
        mark="circle" if curve.is_points else "",
        is_filled=curve.is_filled,
    )
