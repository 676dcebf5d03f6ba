"""The HTML report of an experiment: checks, table, plots; one self-contained file.

Problem: results must be viewable, shareable and reproducible. Choice: plain HTML with Plotly's library inlined once; the command that reproduces
it is at the top, every check beside its pass line, failures as visibly as passes. Limits: about five megabytes, nearly all the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from pathlib import Path

from cotenant.services.experiments.outcome import Check, Curve, Findings, Picture, machine

_STYLE = """
:root{color-scheme:light}
body{font:15px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif;color:#22262e;background:#fff;max-width:1120px;margin:2rem auto;padding:0 1.25rem}
h1{font-size:1.6rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}
code{background:#f3f4f6;padding:.1rem .35rem;border-radius:4px;font-size:.9em}
.lead{color:#5b6270;margin:.1rem 0 1.25rem}
.checks{display:grid;grid-template-columns:repeat(auto-fit,minmax(220px,1fr));gap:.8rem;margin:1rem 0}
.check{border:1px solid #e3e6eb;border-left:5px solid #2e8b57;border-radius:8px;padding:.7rem .9rem}
.check.failed{border-left-color:#c0392b}
.check .value{font-size:1.7rem;font-weight:650;font-variant-numeric:tabular-nums}
.check .what{color:#3c4250}.check .line{color:#6b7280;font-size:.87rem}
.check .verdict{font-weight:650;color:#2e8b57}.check.failed .verdict{color:#c0392b}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{padding:.4rem .6rem;text-align:right;border-bottom:1px solid #e3e6eb}th{color:#5b6270;font-weight:600}
td:first-child,th:first-child{text-align:left}
.note{color:#5b6270;font-size:.92rem;margin:.4rem 0}
"""


def write(path: Path, outcome: Findings, command: str) -> None:
    """Write the page atomically."""
    from plotly.offline import get_plotlyjs

    pictures = "".join(_drawn(picture) for picture in outcome.pictures)
    where = machine()
    left_out = "".join(f"<li>Round {n}: {escape(why)}</li>" for n, why in outcome.discarded)
    discarded = (
        f'<details class="note"><summary>Rounds left out</summary><ul>{left_out}</ul></details>' if left_out else ""
    )
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>cotenant: {escape(outcome.experiment)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(outcome.title)}</h1>"
        f'<p class="lead">{"Passed" if outcome.passed else "Not passed"}: rounds that count: {outcome.rounds}, left out: {len(outcome.discarded)}, blocks run again: {outcome.repeated}. Made by '
        f"<code>{escape(command)}</code> on Linux {escape(str(where['kernel']))}, {where['cpus']} CPUs. Others used at most "
        f"{outcome.worst_foreign:.1%} of the plant's core in a block, the hypervisor stole at most {outcome.worst_steal:.1%}.</p>"
        f'<div class="checks">{"".join(_card(check) for check in outcome.checks)}</div>'
        f"{_table(outcome.columns, outcome.rows)}"
        f"{''.join(f'<p class=note>{escape(note)}</p>' for note in outcome.notes)}{discarded}"
        f"<script>{get_plotlyjs()}</script>{pictures}</body></html>\n"
    )
    temporary = path.with_suffix(".part")
    temporary.write_text(page)
    temporary.replace(path)


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
        f'<div class="check{"" if check.passed else " failed"}"><div class="value">{value}</div><div class="what">{escape(check.what)}</div>'
        f'<div class="line"><span class="verdict">{verdict}</span>: {line}{ends}</div></div>'
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not columns:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _drawn(picture: Picture) -> str:
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=1,
        cols=len(picture.panels),
        shared_yaxes=True,
        subplot_titles=[title for title, _ in picture.panels],
        horizontal_spacing=0.03,
    )
    named: set[str] = set()
    for column, (_, curves) in enumerate(picture.panels, start=1):
        for curve in curves:
            figure.add_scatter(
                x=list(curve.x), y=list(curve.y), row=1, col=column, **_look(curve, curve.name not in named)
            )
            named.add(curve.name)
        figure.update_xaxes(
            title_text=picture.x_title, showgrid=False, row=1, col=column, **_scale(picture, picture.x_log, "x")
        )
    figure.update_yaxes(gridcolor="#eceef2", zeroline=False, **_scale(picture, picture.y_log, "y"))
    figure.update_yaxes(title_text=picture.y_title, row=1, col=1)
    figure.update_layout(
        height=420,
        margin={"l": 60, "r": 20, "t": 60, "b": 90},
        legend={"orientation": "h", "y": -0.25, "x": 0},
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#22262e"},
        hovermode="x unified" if len(picture.panels) > 1 else "closest",
    )
    return f"<h2>{escape(picture.title)}</h2>" + str(
        figure.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False})
    )


def _scale(picture: Picture, is_log: bool, axis: str) -> dict[str, object]:
    """An axis from zero, or a logarithmic one with 1, 2 and 5 of each power of ten as its marks."""
    if not is_log:
        return {"type": "linear", "rangemode": "tozero"}
    values = [
        v for _, curves in picture.panels for curve in curves for v in getattr(curve, axis) if v is not None and v > 0
    ]
    low, high = (log10(min(values)), log10(max(values))) if values else (0.0, 1.0)
    marks = [step * 10.0**power for power in range(floor(low), ceil(high) + 1) for step in (1, 2, 5)]
    return {
        "type": "log",
        "tickvals": marks,
        "ticktext": [f"{mark:g}" for mark in marks],
        "range": [low - 0.03, high + 0.03],
    }


def _look(curve: Curve, is_first: bool) -> dict[str, object]:
    look: dict[str, object] = {
        "name": curve.name,
        "legendgroup": curve.name,
        "showlegend": is_first,
        "mode": "lines+markers" if curve.is_points else "lines",
        "line": {
            "color": curve.colour,
            "width": 1 if curve.is_filled else 2,
            "dash": "dot" if curve.is_dashed else "solid",
        },
    }
    if curve.is_filled:
        look["fill"] = "tozeroy"
    return look
