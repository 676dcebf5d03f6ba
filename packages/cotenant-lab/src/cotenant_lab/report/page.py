"""The report of a comparison: one HTML file that needs no network.

A result must be mailable, readable, verifiable and reproducible in a year. A page of the house (`document`) with the
command that reproduces the figures at the top, then sentences, tables, figures and definitions; the console's view of
the experiment with the runs that the file carries (`runs`).
Limits: a figure shows the comparison's focus load, except those against load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from cotenant.model.pages.document import Heading, PageSection, command, document, drawn
from cotenant.model.pages.figures import Figure
from cotenant_lab import storage
from cotenant_lab.comparison import LIMIT, Comparison
from cotenant_lab.contract import RunResult, RunSpec
from cotenant_lab.provenance import Provenance
from cotenant_lab.report import load_figures, machines, shape_figures, tables
from cotenant_lab.report.drawing import FigureData, percent
from cotenant_lab.report.findings import findings
from cotenant_lab.report.palette import styles
from cotenant_lab.report.run_answers import LAB_VIEW
from cotenant_lab.report.runs import MAX_FRAMES, Carried, carried


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
    drawing = FigureData(comparison, styles(comparison.policies, comparison.roles, comparison.ours), results)
    pictures = _pictures(drawing)
    inside = carried(comparison, results)
    sections = [section for section in _sections(comparison, origin, pictures, inside) if section.body]
    name = comparison.file or comparison.workload
    return document(
        heading(name, f"{name}: placement policies compared", comparison.summary, origin),
        sections,
        [figure for group in pictures for figure in group],
        {policy: style.colour for policy, style in drawing.styles.items()},
        inside.runs,
    )


def heading(name: str, title: str, lead: str, origin: Provenance) -> Heading:
    """The head of a page of the lab."""
    return Heading("cotenant lab", name, title, lead, f"cotenant {origin.cotenant}, sources {origin.sources}")


def _pictures(drawing: FigureData) -> tuple[list[Figure], list[Figure], list[Figure]]:
    """The figures of the load, of the distributions, and of the machines."""
    load = [
        load_figures.sustained(drawing),
        load_figures.against_load(
            drawing,
            "violation",
            "Dotted: 1 %. With 95 % intervals over the seeds. Click a policy in a legend to hide or show it in every "
            "picture; twice to see it alone. Drag to zoom, double-click to go back; the arrow keys read values.",
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
    kept = [[figure for figure in group if figure is not None] for group in (load, shape, place)]
    return kept[0], kept[1], kept[2]


def _sections(
    comparison: Comparison,
    origin: Provenance,
    pictures: tuple[list[Figure], list[Figure], list[Figure]],
    inside: Carried,
) -> list[PageSection]:
    load, shape, place = pictures
    return [
        PageSection("run", "What was run", _what_was_run(comparison, origin)),
        PageSection("says", "What these figures say", _says(comparison)),
        PageSection("summary", "Summary", _summary(comparison)),
        PageSection("paired", f"Against {comparison.ours}, seed by seed", _paired(comparison)),
        PageSection(
            "load", "Load", tables_and_pictures(tables.sustained(comparison), load, "sustained load, as a table")
        ),
        PageSection("shape", "Distributions", drawn(shape)),
        PageSection("machines", "Machines", drawn(place)),
        PageSection("compare", "Any two policies", _any_two(inside), is_plain=True),
        PageSection("classes-table", "Further figures", tables.by_class(comparison)),
        PageSection("policies", "Policies", tables.policies(comparison)),
        PageSection("definitions", "Definitions", tables.definitions(comparison)),
        PageSection("notes", "Notes", _notes(comparison)),
    ]


def tables_and_pictures(table: str, pictures: Sequence[Figure], summary: str) -> str:
    """Figures first, then a table, folded."""
    shown = drawn(pictures)
    return f"{shown}<details><summary>{escape(summary)}</summary>{table}</details>" if table else shown


def _any_two(inside: Carried) -> str:
    """The console's view of the experiment, and what it has no room for."""
    runs = inside.runs
    words = (
        f"<p>The console's view of this experiment. Curves{' and machines over time' if inside.has_machines else ''} "
        f"are those of load {percent(runs.load)}, "
        f"seed {runs.seed}{f', at no more than {MAX_FRAMES} moments' if inside.has_machines else ''}; <code>cotenant "
        "console --results DIR</code> shows every run.</p>"
    )
    if inside.left_out:
        words += (
            "<p class=soft>Their curves and machines are left out of this file for its size: "
            f"{escape(', '.join(inside.left_out))}.</p>"
        )
    return words + LAB_VIEW


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
    return f"<dl>{rows}</dl><p class=again>To reproduce these figures:</p>{command(origin.command)}"


def _world(spec: RunSpec) -> str:
    contention = {0.0: "off", 1.0: "as calibrated"}.get(
        spec.interference, f"{spec.interference:g} times the calibrated"
    )
    hidden = "" if spec.declared_profiles else ", no profiles declared"
    return (
        f"contention {contention}, {spec.pressure_law} law; estimates off by a log-normal of sd "
        f"{spec.estimate_error:g}{hidden}; "
        f"node QoS {'on' if spec.node_qos else 'off'}; node failures {'on' if spec.failures else 'off'}"
    )


def _knobs(comparison: Comparison) -> str:
    settings = {f"{r.spec.policy}.{knob} = {value:g}" for r in comparison.records for knob, value in r.spec.overrides}
    return ", ".join(sorted(settings))


def _says(comparison: Comparison) -> str:
    items = "".join(f"<li class={finding.kind}>{escape(finding.text)}</li>" for finding in findings(comparison))
    key = (
        "<p class=kinds><b class=lead>ours leads</b><b class=loss>ours ties or loses</b><b "
        "class=caution>caution</b><b class=fact>fact</b></p>"
    )
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
        "<b class=best>Best</b> of a column, and <b class=tied>those that paired seeds do not separate from it</b>; "
        "bounds do not compete. "
        "▲ higher is better, ▼ lower; no arrow: the figure is not a policy's merit. Point at a heading for its "
        "definition.</p>"
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
        f"<p>Each policy minus {escape(comparison.ours)} on the same seed, mean and 95 % interval, at "
        f"{percent(comparison.focus)} load. "
        "<b class=worse>Worse than ours</b> and <b class=better>better than ours</b> where the interval excludes "
        "zero; plain where it does "
        "not.</p>"
    )
    return words + table


def _notes(comparison: Comparison) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in comparison.notes)
    failed = "".join(f"<li>{escape(line)}</li>" for line in comparison.failures)
    listed = f"<ul>{notes}</ul>" if notes else ""
    return listed + (f"<h3>Runs that failed</h3><ul class=failed>{failed}</ul>" if failed else "")
