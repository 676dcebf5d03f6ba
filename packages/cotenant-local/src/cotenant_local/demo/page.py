"""The demonstration's page: a verdict in a sentence, the node side with its pictures, a neighbour that hurts a service,
one table, four charts; one file that needs no network.

Replicas that have just started miss the windows before their start, so the first minutes have a peak that would set the
scale of the hours that count. The part that is not counted is shaded, and the axis is scaled by the counted part; the
caption says how high the rest goes. Ours is emphasised in the table and drawn last and widest. A day that its cluster
did not keep up with has no curves, for they would describe the machine.
Limits: one day of one seed, as the page says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from cotenant import __version__
from cotenant.model.pages.document import Heading, PageSection, document, drawn
from cotenant.model.pages.figures import BOUND, OURS, Axis, Chart, ChartLine, Figure, ShadedSpan, rival
from cotenant.model.pages.wide import plain_table
from cotenant_lab.experiments import page as node_page
from cotenant_lab.experiments.outcome import CheckVerdict, Findings
from cotenant_local.demo.run import SETTLING_HOURS, ClusterSample, DayOutcome, DemoConfig


@dataclass(frozen=True, slots=True)
class NodeSide:
    """The node part of the demonstration: what was found and the `command` that repeats it, or why it was `skipped`."""

    found: Findings | None = None
    command: str = ""
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A neighbour that hurts a service, by second: p99 with the node's agent and without, the objective, and what
    the agent said when.
    """

    acted_ms: Sequence[float | None]
    alone_ms: Sequence[float | None]
    objective_ms: float
    came_s: float  # when the neighbour came
    events: Sequence[tuple[float, str]]


NOT_YET = NodeSide()
_HEADROOM = 1.08  # of an axis above the largest counted value
_CURVES = (
    ("violation", "Replicas that miss their objective"),
    ("cpu_used", "CPU used, of the nodes"),
    ("batch_pace", "Batch work done, of the nodes' CPU time"),
    ("cpu_requested", "CPU requested, of the nodes"),
)
COLUMNS = (
    "profile",
    "placed",
    "wait p99 ms",
    "CPU req. %",
    "used %",
    "missed %",
    "worst %",
    "batch work %",
    "stages done",
)


def row(outcome: DayOutcome) -> tuple[str, ...]:
    """One line of the table, aligned with `COLUMNS`. A cluster that fell behind the day has counts only."""
    if outcome.behind:
        unknown = ("–",) * (len(COLUMNS) - 3)
        return (
            f"{outcome.profile} *",
            f"{outcome.placed}",
            *unknown,
            f"{outcome.stages_done} of {outcome.stages}",
        )
    return (
        outcome.profile,
        f"{outcome.placed}",
        f"{outcome.wait_p99_ms:.0f}",
        f"{outcome.mean('cpu_requested') * 100:.1f}",
        f"{outcome.mean('cpu_used') * 100:.1f}",
        f"{outcome.mean('violation') * 100:.2f}",
        f"{outcome.worst_violation * 100:.1f}",
        f"{outcome.mean('batch_pace') * 100:.1f}",
        f"{outcome.stages_done} of {outcome.stages}",
    )


def warnings(outcomes: Sequence[DayOutcome]) -> list[str]:
    """A line for each profile whose cluster fell behind the day."""
    return [
        f"* {outcome.profile}: the cluster did not keep up with the day: {outcome.behind}. Its other figures would "
        "describe this machine and are left out; "
        "run again when the machine is less busy, or with a larger --seconds."
        for outcome in outcomes
        if outcome.behind
    ]


def verdict(outcomes: Sequence[DayOutcome], node: NodeSide = NOT_YET) -> str:
    """What the demonstration came to, in one sentence, ours against each other way: also where ours was worse."""
    kept = [outcome for outcome in outcomes if not outcome.behind]
    ours = next((day_outcome for day_outcome in kept if is_ours(day_outcome.profile)), None)
    others = [day_outcome for day_outcome in kept if day_outcome is not ours]
    if ours is None or not others:
        days = "No two days can be compared: their clusters did not keep up, or only one way was shown"
    else:
        figures: tuple[tuple[str, str, Callable[[DayOutcome], float]], ...] = (
            ("more batch work", "less batch work", lambda day_outcome: -day_outcome.mean("batch_pace")),
            ("fewer missed objectives", "more missed objectives", lambda day_outcome: day_outcome.mean("violation")),
            ("a lower worst instant", "a higher worst instant", lambda day_outcome: day_outcome.worst_violation),
        )
        words = []
        for other in others:
            said = [better if of(ours) < of(other) else worse for better, worse, of in figures if of(ours) != of(other)]
            words.append(f"against {other.profile} {', '.join(said) or 'the same'}")
        days = f"On this day of this seed {ours.profile} had, {'; '.join(words)}"
    if node.found is None:
        return f"{days}."
    passing = sum(check.verdict is CheckVerdict.PASSED for check in node.found.checks)
    return f"{days}; on a real core, {passing} of {len(node.found.checks)} checks pass."


def explanation(config: DemoConfig) -> str:
    """What the figures mean, in a sentence each."""
    return (
        f"{config.workload} at {config.load * 100:g} % of the CPU requested, on {config.nodes} simulated nodes of 32 "
        f"cores, {config.days:g} of a day in {config.seconds:g} s "
        f"each, seed {config.seed}. Means from hour {SETTLING_HOURS:g} on. +usage and +peak: a manager lends what "
        "services leave idle, by Koordinator's formula or by our prediction, and batch "
        "requests what is lent. missed: replicas above their p99 objective; worst: at one instant. batch work: CPU "
        "time that the progress of batch pods is worth alone on a node. wait: "
        "from created to bound, while the services came up. stages: batch jobs' stages completed of those begun."
    )


def write(
    path: Path,
    config: DemoConfig,
    outcomes: Sequence[DayOutcome],
    node: NodeSide = NOT_YET,
    neighbour: Neighbour | None = None,
) -> None:
    """Write the page atomically."""
    kept = [outcome for outcome in outcomes if not outcome.behind]
    figures = [_figure(name, title, kept) for name, title in _CURVES] if kept else []
    rows = [row(outcome) for outcome in outcomes]
    lines = "".join(f'<p class="note stale">{escape(line)}</p>' for line in warnings(outcomes))
    table = plain_table(COLUMNS, rows, [cells[0] for cells in rows if is_ours(cells[0])])
    about = (
        f"<p class=soft>{escape(explanation(config))}</p><p class=soft>One day of one seed is a demonstration: "
        "another seed may order the ways differently, and in its worst instant ours "
        "is sometimes above the others. Comparisons with intervals: <code>cotenant lab compare</code>.</p>"
    )
    sections = [PageSection("days", "The days", lines + table + about)]
    if figures:
        sections.append(PageSection("curves", "Hour by hour", drawn(figures)))
    if neighbour is not None:
        section, figure = _neighbour(neighbour)
        sections.insert(0, section)
        figures.append(figure)
    if node.found is not None:
        section, more = node_page.part(node.found, node.command, pictures_first=True)
        body = (
            f"<p>{escape(node.found.title)}</p>{section.body}<p "
            f"class=soft>{escape(node_page.conditions(node.found))}</p>"
        )
        sections.insert(0, PageSection(section.key, section.title, body))
        figures += more
    elif node.skipped:
        sections.append(PageSection("node", "On a node", f"<p>Not shown on this machine: {escape(node.skipped)}</p>"))
    heading = Heading(
        "cotenant demo",
        "One day, several judgements",
        "cotenant demo",
        verdict(outcomes, node),
        f"cotenant {__version__}",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    temporary.write_text(document(heading, sections, figures, _colours(kept)))
    temporary.replace(path)


def is_ours(profile: str) -> bool:
    """Whether a profile, as written in the configuration or in a row, is ours."""
    return profile.startswith("cotenant")


def _colours(outcomes: Sequence[DayOutcome]) -> dict[str, str]:
    """A colour for each profile: ours, then the others in their order."""
    others = [outcome.profile for outcome in outcomes if not is_ours(outcome.profile)]
    colours = {name: rival(k) for k, name in enumerate(others)}
    return {outcome.profile: colours.get(outcome.profile, OURS) for outcome in outcomes}


def _neighbour(seen: Neighbour) -> tuple[PageSection, Figure]:
    """The section about the neighbour, and its picture."""
    seconds = [float(at + 1) for at in range(len(seen.acted_ms))]
    most = max((value for run in (seen.acted_ms, seen.alone_ms) for value in run if value is not None), default=1.0)
    chart = Chart(
        x=Axis(title="seconds", low=0.0, high=max(seconds, default=1.0)),
        y=Axis(title="", low=0.0, high=max(most, seen.objective_ms) * _HEADROOM, unit=" ms"),
        lines=(
            ChartLine(name="without an agent", x=seconds, y=list(seen.alone_ms), colour=rival(0)),
            ChartLine(
                name="objective",
                x=[0.0, *seconds],
                y=[seen.objective_ms] * (len(seconds) + 1),
                colour=BOUND,
                dash="dash",
            ),
            ChartLine(name="with the agent", x=seconds, y=list(seen.acted_ms), colour=OURS, width=3.5),
        ),
        spans=(ShadedSpan(0.0, seen.came_s, "alone"),),
        height=300,
    )
    figure = Figure(
        "neighbour",
        "p99 of the service",
        f"At {seen.came_s:g} s a job comes that requests half a core and uses ten.",
        chart,
    )
    told = "".join(f"<li>{at:.0f} s: {escape(text)}</li>" for at, text in seen.events)
    words = (
        "A job beside a service presses on caches more than it says, and the service misses its objective. The agent "
        "of its node names the job, holds best-effort work, compares before and after, and says what it brought. "
        "Where another service of the node is slowed first, the agent tells of that one: the same hold helps both. "
        "One simulated node in virtual time with the engine of the real agent; live, with spans and a scheduler: "
        "<code>cotenant up --nodes 10 --workload colocation</code>."
    )
    return PageSection(
        "neighbour", "When a neighbour hurts a service", f"<p>{words}</p>{drawn([figure])}<ol>{told}</ol>"
    ), figure


def _figure(name: str, title: str, outcomes: Sequence[DayOutcome]) -> Figure:
    """One field of the samples over the day, in percent; the axis ends above the largest counted value."""
    colours = _colours(outcomes)

    def percents(samples: Sequence[ClusterSample]) -> list[float]:
        return [round(getattr(sample, name) * 100, 3) for sample in samples]

    counted = max((max(percents(outcome.settled), default=0.0) for outcome in outcomes), default=0.0)
    early = max((max(percents(outcome.samples), default=0.0) for outcome in outcomes), default=0.0)
    is_cut = 0.0 < counted * _HEADROOM < early
    caption = f"Shaded: the first {SETTLING_HOURS:g} hours, which are not counted."
    if is_cut:
        caption += (
            " Replicas that have just started miss the windows before their start: the curves reach "
            f"{early:.3g} % there, and the axis is scaled by the counted part."
        )
    lines = [
        ChartLine(
            name=day_outcome.profile,
            x=[round(sample.hours, 3) for sample in day_outcome.samples],
            y=list(percents(day_outcome.samples)),
            colour=colours[day_outcome.profile],
            width=3.5 if is_ours(day_outcome.profile) else 1.8,
        )
        for day_outcome in sorted(outcomes, key=lambda outcome: is_ours(outcome.profile))
    ]
    end = max((sample.hours for outcome in outcomes for sample in outcome.samples), default=SETTLING_HOURS)
    chart = Chart(
        x=Axis(title="hour of the simulated day", low=0.0, high=max(end, SETTLING_HOURS)),
        y=Axis(title="", low=0.0, high=(counted or early or 1.0) * _HEADROOM, unit=" %"),
        lines=tuple(lines),
        spans=(ShadedSpan(0.0, SETTLING_HOURS, "not counted"),),
        height=300,
        is_united=True,
    )
    return Figure(name, title, caption, chart)
