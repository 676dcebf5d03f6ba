"""The page of a tuning: the Pareto front as a picture and a table, and the judgement on held-out seeds.

Three objectives do not fit one plane, and a front on tuning seeds is no result. Two planes with the violation on both
vertical axes, every trial drawn, the front as a line; the judgement on held-out seeds is a table of its own, before the
front.
Limits: one front; knobs are columns, so that wide spaces scroll.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import isnan
from pathlib import Path

from cotenant.model.pages.document import PageSection, command, document
from cotenant.model.pages.figures import BOUND, OURS, Chart, ChartLine, Figure, Mark, over, rival
from cotenant.model.pages.wide import Cell, WideRow, cell, head, wide
from cotenant_lab import storage
from cotenant_lab.provenance import Provenance
from cotenant_lab.report.page import heading, tables_and_pictures
from cotenant_lab.statistics import Interval
from cotenant_lab.tuning.held_out import JudgedTrial, Tuned
from cotenant_lab.tuning.objectives import OBJECTIVES, TuningObjective
from cotenant_lab.tuning.search import TuningTrial

_COLOURS = {"trials": BOUND, "front": rival(1), "defaults": rival(0), "selected": OURS}
_VERDICTS = {"better": "better", "worse": "worse", "trade-off": "", "not separated": "", "defaults": ""}


@dataclass(frozen=True, slots=True)
class TuningFacts:
    """What the page says was run."""

    workload: str
    policy: str
    seeds: str
    held_out: str
    load: str
    defaults: tuple[tuple[str, float], ...]  # of the tuned knobs
    origin: Provenance
    is_for_clusters: bool = True  # whether a scheduler takes the policy; False = it fits what no kubelet admits


def write_tuning_page(path: Path, tuned: Tuned, facts: TuningFacts) -> None:
    """Write the page, or leave the earlier one. Raises `Permanent`, e.g. on a full disk."""
    page = render(tuned, facts).encode()
    storage.write_atomic(path, lambda file: file.write(page))


def render(tuned: Tuned, facts: TuningFacts) -> str:
    """The page as text."""
    figures = [_plane(tuned, 0), _plane(tuned, 1)]
    sections = [
        PageSection("run", "What was run", _what_was_run(tuned, facts)),
        PageSection("held-out", "Judged on held-out seeds", _held_out(tuned)),
        PageSection(
            "front",
            "Front on the tuning seeds",
            tables_and_pictures(_front_table(tuned, facts), figures, "the front as a table"),
        ),
        PageSection("choose", "Take a point", _choice(tuned, facts)),
        PageSection("objectives", "Definitions", _definitions()),
    ]
    name = f"{facts.policy} tuned on {facts.workload}"
    return document(heading(name, name, sentence(tuned), facts.origin), sections, figures, _COLOURS)


def sentence(tuned: Tuned) -> str:
    """The result in one sentence."""
    members = len(tuned.front)
    on_front = (
        f"{len(tuned.found.trials)} trials, {members} on the front, "
        f"{'with' if 0 in tuned.front else 'without'} the defaults."
    )
    if tuned.recommended:
        return f"{on_front} Trial {tuned.recommended} is better than the defaults on held-out seeds."
    if tuned.selected:
        return (
            f"{on_front} Trial {tuned.selected}, selected on the tuning seeds, is not shown to be better on "
            "held-out seeds: the defaults stay."
        )
    return f"{on_front} No trial has less violation without being worse elsewhere: the defaults stay."


def shown(objective: TuningObjective, figure: Interval) -> str:
    """A mean with half of its interval, in the objective's display unit."""
    places = 3 if objective.scale == 1.0 else 2
    half = "" if isnan(figure.half_width) else f" ±{figure.half_width * objective.scale:.{places}f}"
    return f"{figure.mean * objective.scale:.{places}f}{half}"


def _plane(tuned: Tuned, across: int) -> Figure:
    x, y = OBJECTIVES[across], OBJECTIVES[-1]
    trials = tuned.found.trials
    by_number = {trial.number: trial for trial in trials}
    members = sorted((by_number[number] for number in tuned.front), key=lambda trial: trial.figures[across])

    def points(name: str, of: Sequence[TuningTrial], size: float, mark: Mark = "circle") -> ChartLine:
        return ChartLine(
            name=name,
            x=[trial.figures[across] * x.scale for trial in of],
            y=[trial.figures[-1] * y.scale for trial in of],
            colour=_COLOURS[name],
            notes=[f"trial {trial.number}" for trial in of],
            mark=mark,
            size=size,
            is_points=True,
        )

    lines = [
        points("trials", trials, 6),
        points("front", members, 9),
        points("defaults", trials[:1], 13, "diamond"),
    ]
    if tuned.selected:
        lines.append(points("selected", [by_number[tuned.selected]], 15, "star"))
    unit = f", {x.unit}" if x.unit else ""
    chart = Chart(
        x=over(f"{x.title}{unit}, more is better", [value for line in lines for value in line.x]),
        y=over(f"{y.title}, {y.unit}, less is better", [value for line in lines for value in line.y], from_zero=True),
        lines=tuple(lines),
    )
    caption = (
        "Means over the tuning seeds. The front has three objectives, so that its members need not lie on a "
        "curve of this plane."
    )
    return Figure(f"plane-{x.name}", f"{y.title} against {x.title.lower()}", caption, chart)


def _what_was_run(tuned: Tuned, facts: TuningFacts) -> str:
    said = [
        ("workload", facts.workload),
        ("policy", facts.policy),
        ("load", facts.load),
        ("tuning seeds", facts.seeds),
        ("held-out seeds", facts.held_out),
        ("defaults", ", ".join(f"{name} {value:g}" for name, value in facts.defaults)),
        ("search", f"{len(tuned.found.trials)} trials, Optuna {tuned.found.optuna}, multi-objective TPE"),
        (
            "software",
            ", ".join((f"cotenant {facts.origin.cotenant}", f"Python {facts.origin.python}", *facts.origin.libraries)),
        ),
        ("runs made on", facts.origin.cluster),
        ("machine", f"{facts.origin.machine}, {facts.origin.cores} cores, {facts.origin.jobs} runs side by side"),
    ]
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in said if value)
    return f"<dl>{rows}</dl><p class=again>To reproduce these figures:</p>{command(facts.origin.command)}"


def _held_out(tuned: Tuned) -> str:
    words = (
        "<p>Means with half of the 95 % interval; in brackets the paired difference from the defaults. <b "
        "class=better>Better</b>: no objective is worse and at least one is better, "
        "with an interval that excludes zero. Only the selected trial was chosen before these seeds were run; "
        "verdicts on the others are several comparisons at once.</p>"
    )
    heads = [head("trial", "name"), *(head(o.title, unit=o.unit) for o in OBJECTIVES), head("verdict", "words")]
    return words + wide(heads, [_held_out_row(tuned, judged) for judged in tuned.judged])


def _held_out_row(tuned: Tuned, judged: JudgedTrial) -> WideRow:
    cells = [
        cell(f"{shown(o, mean)}{'' if judged.verdict == 'defaults' else f' ({shown(o, difference)})'}")
        for o, mean, difference in zip(OBJECTIVES, judged.means, judged.differences, strict=True)
    ]
    colour = _VERDICTS[judged.verdict]
    verdict = f"<b class={colour}>{judged.verdict}</b>" if colour else judged.verdict
    return WideRow([cell(label(tuned, judged.trial), "name"), *cells, Cell(verdict, "words")])


def label(tuned: Tuned, trial: TuningTrial) -> str:
    """A trial's name in tables."""
    if not trial.number:
        return "defaults"
    return f"trial {trial.number}{', selected' if trial.number == tuned.selected else ''}"


def _front_table(tuned: Tuned, facts: TuningFacts) -> str:
    names = [name for name, _ in facts.defaults]
    heads = [head("trial", "name"), *(head(o.title) for o in OBJECTIVES), *(head(name) for name in names)]
    by_number = {entry.number: entry for entry in tuned.found.trials}
    rows = []
    for number in dict.fromkeys((0, *tuned.front)):
        if number not in by_number:
            continue
        trial = by_number[number]
        knobs = dict(facts.defaults) | dict(trial.knobs)
        figures = [
            cell(f"{value * o.scale:.{3 if o.scale == 1.0 else 2}f}")
            for o, value in zip(OBJECTIVES, trial.figures, strict=True)
        ]
        rows.append(
            WideRow([cell(label(tuned, trial), "name"), *figures, *(cell(f"{knobs[name]:g}") for name in names)])
        )
    return wide(heads, rows, is_sortable=True)


def _choice(tuned: Tuned, facts: TuningFacts) -> str:
    """A command for each point, in the order of the first objective."""
    words = (
        "<p>Each point is a file beside this page. Figures are means over the tuning seeds, on which a point of the "
        "front is the best of its kind; the verdict is that of the held-out seeds.</p>"
    )
    if not facts.is_for_clusters:
        words += (
            f"<p>A scheduler refuses these files: {escape(facts.policy)} fits batch by predicted use, which kubelets "
            "do not admit.</p>"
        )
    verdicts = {judged.trial.number: judged.verdict for judged in tuned.judged}
    members = choices(tuned)
    if not members:
        return f"{words}<p>No other point than the defaults is on the front.</p>"
    rows = []
    for trial in sorted(members, key=lambda entry: -entry.figures[0]):
        figures = ", ".join(
            f"{o.title.lower()} {value * o.scale:.{3 if o.scale == 1.0 else 2}f}{f' {o.unit}' if o.unit else ''}"
            for o, value in zip(OBJECTIVES, trial.figures, strict=True)
        )
        verdict = verdicts.get(trial.number, "not judged on held-out seeds")
        file = profile_file(trial.number)
        take = command(f"cotenant scheduler --profile {file}") if facts.is_for_clusters else f"<p>{escape(file)}</p>"
        rows.append(f"<dt>{escape(label(tuned, trial))}</dt><dd>{escape(f'{figures}: {verdict}')}{take}</dd>")
    return f"{words}<dl>{''.join(rows)}</dl>"


def choices(tuned: Tuned) -> tuple[TuningTrial, ...]:
    """The points that may be taken: the front and what was judged, without the defaults."""
    by_number = {entry.number: entry for entry in tuned.found.trials}
    judged = (entry.trial.number for entry in tuned.judged)
    return tuple(by_number[number] for number in sorted({*tuned.front, *judged}) if number and number in by_number)


def profile_file(number: int) -> str:
    """Where a trial's profile is, from the page's folder."""
    return f"profiles/trial-{number}.yaml"


def _definitions() -> str:
    rows = "".join(
        f"<dt>{escape(o.title)}</dt><dd>{escape(o.definition)} {'More' if o.sign > 0 else 'Less'} is better; "
        f"differences below {o.resolution * o.scale:g}{f' {o.unit}' if o.unit else ''} count as none on the front.</dd>"
        for o in OBJECTIVES
    )
    return f"<dl>{rows}</dl>"
