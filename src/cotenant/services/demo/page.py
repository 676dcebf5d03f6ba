"""The demonstration's page: one table, four curves, one file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from cotenant.services.demo.run import SETTLING_HOURS, DayOutcome, DemoConfig

_COLOURS = ("#8a8f98", "#c2703d", "#2f6fde", "#3d8f5f", "#8d5bbf")
_CURVES = (
    ("violation", "Replicas that miss their objective, %"),
    ("cpu_used", "CPU used, % of the nodes"),
    ("batch_pace", "Batch work done, % of the nodes' CPU time"),
    ("cpu_requested", "CPU requested, % of the nodes"),
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
        f"* {each.profile}: the cluster did not keep up with the day: {each.behind}. Its other figures would describe this machine and are left out; "
        "run again when the machine is less busy, or with a larger --seconds."
        for each in outcomes
        if each.behind
    ]


def explanation(config: DemoConfig) -> str:
    """What the figures mean, in a sentence each."""
    return (
        f"{config.workload} at {config.load * 100:g} % of the CPU requested, on {config.nodes} simulated nodes of 32 cores, {config.days:g} of a day in {config.seconds:g} s "
        f"each, seed {config.seed}. Means from hour {SETTLING_HOURS:g} on. +usage and +peak: a manager lends what services leave idle, by Koordinator's formula or by our prediction, and batch "
        "requests what is lent. missed: replicas above their p99 objective; worst: at one instant. batch work: CPU time that the progress of batch pods is worth alone on a node. wait: "
        "from created to bound, while the services came up. stages: batch jobs' stages completed of those begun."
    )


def write(path: Path, config: DemoConfig, outcomes: Sequence[DayOutcome]) -> None:
    """Write the page atomically."""
    import plotly.graph_objects as go
    from plotly.offline import get_plotlyjs

    head = "".join(f"<th>{escape(name)}</th>" for name in COLUMNS)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row(each)) + "</tr>" for each in outcomes)
    pictures = []
    for name, title in _CURVES:
        figure = go.Figure()
        for outcome, colour in zip(outcomes, _COLOURS * len(outcomes), strict=False):
            figure.add_scatter(
                x=[round(sample.hours, 3) for sample in outcome.samples],
                y=[round(getattr(sample, name) * 100, 3) for sample in outcome.samples],
                name=outcome.profile,
                line={"color": colour, "width": 2},
            )
        figure.update_layout(
            title=title,
            height=340,
            margin={"l": 60, "r": 20, "t": 50, "b": 50},
            xaxis_title="hour of the simulated day",
            yaxis={"rangemode": "tozero"},
            legend={"orientation": "h", "y": -0.25},
            template="plotly_white",
        )
        pictures.append(figure.to_html(full_html=False, include_plotlyjs=False))
    notes = "".join(f"<p><strong>{escape(line)}</strong></p>" for line in warnings(outcomes))
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>cotenant demo</title><style>'
        "body{font:16px/1.5 system-ui,sans-serif;max-width:960px;margin:2rem auto;padding:0 1rem}"
        "table{border-collapse:collapse;width:100%}td,th{padding:.3rem .6rem;text-align:right;border-bottom:1px solid #ddd}"
        "td:first-child,th:first-child{text-align:left}</style></head><body><h1>One day, several judgements</h1>"
        f"<p>{escape(explanation(config))}</p>{notes}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"<script>{get_plotlyjs()}</script>{''.join(pictures)}"
        "<p>One day of one seed is a demonstration. Comparisons with intervals: <code>cotenant lab compare</code>.</p></body></html>\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    temporary.write_text(page)
    temporary.replace(path)
