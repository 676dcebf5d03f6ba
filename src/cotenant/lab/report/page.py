"""The report: one HTML file that needs no network.

Problem: a result must be mailable, readable, verifiable and reproducible in a year. Choice: tables and sentences are plain
HTML, figures are Plotly's with its library inlined once, colours follow the reader's light or dark setting, and the command
that reproduces the figures is at the top. Limits: about five megabytes, nearly all of it the library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

import msgspec

from cotenant.lab import storage
from cotenant.lab.comparison import LIMIT, Comparison
from cotenant.lab.contract import RunResult, RunSpec
from cotenant.lab.provenance import Provenance
from cotenant.lab.report import load_figures, machines, shape_figures, tables
from cotenant.lab.report.drawing import Drawing, Figure, percent
from cotenant.lab.report.findings import findings
from cotenant.lab.report.palette import styles


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page; `body` is HTML."""

    key: str
    title: str
    body: str


def write_report(path: Path, comparison: Comparison, origin: Provenance) -> None:
    """Write the report, or leave the earlier one. Raises `Permanent`, e.g. on a full disk or if runs are missing."""
    results = {
        policy: [
            storage.load_result(record)
            for record in comparison.records
            if record.spec.policy == policy and record.spec.load == comparison.focus
        ]
        for policy in comparison.policies
    }
    page = render(comparison, origin, results).encode()
    storage.write_atomic(path, lambda file: file.write(page))


def render(comparison: Comparison, origin: Provenance, results: Mapping[str, Sequence[RunResult]]) -> str:
    """The page. `results`: the runs with their arrays at the comparison's focus load, by policy."""
    drawing = Drawing(comparison, styles(comparison.policies, comparison.roles, comparison.ours), results)
    pictures = _pictures(drawing)
    sections = [section for section in _sections(comparison, origin, pictures) if section.body]
    name = comparison.file or comparison.workload
    return document(
        name,
        f"{name}: placement policies compared",
        comparison.summary,
        sections,
        [each for group in pictures for each in group],
        {policy: style.colour for policy, style in drawing.styles.items()},
        origin,
    )


def document(
    name: str,
    title: str,
    lead: str,
    sections: Sequence[Section],
    figures: Sequence[Figure],
    colours: Mapping[str, str],
    origin: Provenance,
) -> str:
    """A page of the house's form. `colours`: of the names that legends and tables share."""
    data = {
        "figures": {each.key: {"data": each.data, "layout": each.layout, "choices": each.choices} for each in figures},
        "colours": colours,
    }
    embedded = msgspec.json.encode(data).decode().replace("</", "<\\/")
    contents = "".join(f'<a href="#{section.key}">{escape(section.title)}</a>' for section in sections)
    body = "".join(
        f'<section id="{section.key}"><h2>{escape(section.title)}</h2>{section.body}</section>' for section in sections
    )
    library = f"<script>{_plotly()}</script>" if figures else ""
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title><style>{_asset("report.css")}</style></head>'
        f"<body><header><p class=brand>cotenant lab</p><h1>{escape(name)}</h1>"
        f"<p class=lead>{escape(lead)}</p><nav>{contents}</nav></header><main>{body}</main>"
        f"<footer>cotenant {escape(origin.cotenant)}, sources {escape(origin.sources)}</footer>"
        f'<script type="application/json" id="report-data">{embedded}</script>{library}'
        f"<script>{_asset('report.js')}</script></body></html>\n"
    )


def _pictures(drawing: Drawing) -> tuple[list[Figure], list[Figure], list[Figure]]:
    """The figures of the load, of the distributions, and of the machines."""
    load = [
        load_figures.sustained(drawing),
        load_figures.against_load(
            drawing,
            "violation",
            "Dotted: 1 %. With 95 % intervals over the seeds. Click a policy in a legend to hide or show it in every picture; twice to see it alone. Drag to zoom, double-click to go back.",
            LIMIT,
        ),
        load_figures.against_load(
            drawing,
            "success",
            f"{drawing.comparison.metrics['success'].definition} With 95 % intervals over the seeds.",
        ),
        load_figures.frontier(drawing),
    ]
    shape = [
        shape_figures.violation_by_class(drawing),
        shape_figures.slowdowns(drawing),
        *shape_figures.over_time(drawing),
        shape_figures.decision_latency(drawing),
    ]
    place = [machines.machine_map(drawing)]
    kept = [[each for each in group if each is not None] for group in (load, shape, place)]
    return kept[0], kept[1], kept[2]


def _sections(
    comparison: Comparison, origin: Provenance, pictures: tuple[list[Figure], list[Figure], list[Figure]]
) -> list[Section]:
    load, shape, place = pictures
    return [
        Section("run", "What was run", _what_was_run(comparison, origin)),
        Section("says", "What these figures say", _says(comparison)),
        Section("summary", "Summary", _summary(comparison)),
        Section("paired", f"Against {comparison.ours}, seed by seed", _paired(comparison)),
        Section("load", "Load", tables_and_pictures(tables.sustained(comparison), load)),
        Section("shape", "Distributions", tables_and_pictures("", shape)),
        Section("machines", "Machines", tables_and_pictures("", place)),
        Section("classes-table", "Further figures", tables.by_class(comparison)),
        Section("policies", "Policies", tables.policies(comparison)),
        Section("definitions", "Definitions", tables.definitions(comparison)),
        Section("notes", "Notes", _notes(comparison)),
    ]


def tables_and_pictures(table: str, pictures: Sequence[Figure]) -> str:
    """Figures first, then the table of the same values, folded."""
    shown = "".join(_picture(each) for each in pictures)
    return f"{shown}<details><summary>as a table</summary>{table}</details>" if table else shown


def _picture(figure: Figure) -> str:
    choice = ""
    if len(figure.choices) > 1:
        options = "".join(f"<option>{escape(name)}</option>" for name in figure.choices)
        choice = f'<label class=choice>policy <select data-for="{figure.key}">{options}</select></label>'
    height = figure.layout.get("height", 440)
    return (
        f"<figure><figcaption><h3>{escape(figure.title)}</h3>{choice}<p>{escape(figure.caption)}</p></figcaption>"
        f'<div class=plot data-figure="{escape(figure.key, quote=True)}" style="height:{height}px"></div></figure>'
    )


def _what_was_run(comparison: Comparison, origin: Provenance) -> str:
    spec = comparison.records[0].spec
    seeds = comparison.seeds
    count = (
        f"{len(seeds)} ({seeds[0]} to {seeds[-1]}), the same for every policy" if len(seeds) > 1 else f"1 ({seeds[0]})"
    )
    facts = [
        ("workload", f"{comparison.workload}{f', changed by {comparison.file}' if comparison.file else ''}"),
        ("provenance", comparison.provenance),
        ("policies", str(len(comparison.policies))),
        ("seeds", count),
        ("loads", ", ".join(percent(load) for load in comparison.loads)),
        ("world", _world(spec) if "violation" in comparison.measured else ""),
        ("knobs set", _knobs(comparison)),
        (
            "runs",
            f"{len(comparison.records)}{f', and {len(comparison.failures)} failed' if comparison.failures else ''}",
        ),
        ("software", ", ".join((f"cotenant {origin.cotenant}", f"Python {origin.python}", *origin.libraries))),
        ("runs made on", origin.cluster),
        ("machine", f"{origin.machine}, {origin.cores} cores, {origin.jobs} runs side by side"),
    ]
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts if value)
    command = (
        f"<div class=command><code>{escape(origin.command)}</code><button type=button data-copy>copy</button></div>"
    )
    return f"<dl>{rows}</dl><p class=again>To reproduce these figures:</p>{command}"


def _world(spec: RunSpec) -> str:
    contention = {0.0: "off", 1.0: "as calibrated"}.get(
        spec.interference, f"{spec.interference:g} times the calibrated"
    )
    hidden = "" if spec.declared_profiles else ", no profiles declared"
    return (
        f"contention {contention}, {spec.pressure_law} law; estimates off by a log-normal of sd {spec.estimate_error:g}{hidden}; "
        f"node QoS {'on' if spec.node_qos else 'off'}; node failures {'on' if spec.failures else 'off'}"
    )


def _knobs(comparison: Comparison) -> str:
    settings = {f"{r.spec.policy}.{knob} = {value:g}" for r in comparison.records for knob, value in r.spec.overrides}
    return ", ".join(sorted(settings))


def _says(comparison: Comparison) -> str:
    items = "".join(f"<li class={each.kind}>{escape(each.text)}</li>" for each in findings(comparison))
    key = "<p class=key><b class=lead>ours leads</b><b class=loss>ours ties or loses</b><b class=caution>caution</b><b class=fact>fact</b></p>"
    return f"{key}<ul class=says>{items}</ul>" if items else ""


def _summary(comparison: Comparison) -> str:
    count = len(comparison.seeds)
    interval = (
        f"± is half of the 95 % interval over {count} seeds (Student's t)."
        if count > 1
        else "One seed, so no intervals."
    )
    words = (
        f"<p>Sorted by {escape(comparison.metrics[comparison.leading].title)}, ours emphasised. {interval} "
        "<b class=best>Best</b> of a column, and <b class=tied>those that paired seeds do not separate from it</b>; bounds do not compete. "
        "▲ higher is better, ▼ lower; no arrow: the figure is not a policy's merit. Point at a heading for its definition.</p>"
    )
    parts = []
    for load in comparison.loads:
        table = tables.summary(comparison, load)
        if len(comparison.loads) == 1:
            parts.append(table)
        else:
            state = " open" if load == comparison.focus else ""
            parts.append(f"<details{state}><summary>load {percent(load)}</summary>{table}</details>")
    return words + "".join(parts)


def _paired(comparison: Comparison) -> str:
    table = tables.paired(comparison)
    if not table:
        return ""
    words = (
        f"<p>Each policy minus {escape(comparison.ours)} on the same seed, mean and 95 % interval, at {percent(comparison.focus)} load. "
        "<b class=worse>Worse than ours</b> and <b class=better>better than ours</b> where the interval excludes zero; plain where it does "
        "not.</p>"
    )
    return words + table


def _notes(comparison: Comparison) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in comparison.notes)
    failed = "".join(f"<li>{escape(line)}</li>" for line in comparison.failures)
    listed = f"<ul>{notes}</ul>" if notes else ""
    return listed + (f"<h3>Runs that failed</h3><ul class=failed>{failed}</ul>" if failed else "")


def _asset(name: str) -> str:
    return (files("cotenant.lab.report") / "assets" / name).read_text(encoding="utf-8")


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
