"""The report as one HTML file: every figure with its definition and interval, tables, and two charts.

A page of the house (`model/pages`): it needs no network, is light or dark as its reader wishes, and reads on a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from cotenant.model.assess.figure import AssessedFigure
from cotenant.model.assess.report import AssessmentReport, EnergyGroups, Money, WorkloadUse
from cotenant.model.pages.document import Heading, PageSection, command, document, drawn
from cotenant.model.pages.figures import BOUND, OURS, Axis, Figure, IntervalReading, IntervalReadings, ReadingRow, rival
from cotenant.model.pages.wide import WideRow, cell, head, wide
from cotenant.services.assess import words
from cotenant.services.assess.what_ifs.drawing import what_if_section

_COLOURS = {"allocatable": BOUND, "allocated": rival(0), "used": rival(1), "ours": OURS, "Koordinator": rival(2)}
_SHOWN = 15
_NAMES = 30  # of nodes in a sentence


def page(report: AssessmentReport, written_by: str) -> str:
    """The page as text."""
    charts = [chart for chart in (_resources(report), _lendable_chart(report)) if chart is not None]
    resources, lendable = charts[:1], charts[1:]
    sections = [
        PageSection("amounts", "Allocated, used, idle", drawn(resources) + _numbers(report.figures)),
        PageSection("idle", "The ten workloads that hold most idle", _idle(report)),
        PageSection("lendable", "What could be lent", drawn(lendable) + _lendable(report)),
        PageSection("waiting", "Pods that wait", _waiting(report)),
        PageSection("elsewhere", "Placed elsewhere", _elsewhere(report)),
        PageSection("consolidation", "Nodes that could be emptied", _consolidation(report)),
        PageSection("shapes", "Room by shape", _shapes(report)),
        *([PageSection("cards", "Devices", _cards(report))] if report.cards else []),
        *([PageSection("past", "Tried on the cluster's own past", _past(report))] if report.back_test else []),
        *([PageSection("money", "What a month costs", _money(report.money))] if report.money else []),
        *([PageSection("energy", "Energy", _energy(report.energy))] if report.energy else []),
        *([PageSection("what-if", "What if", what_if_section(report.what_ifs))] if report.what_ifs else []),
        PageSection("moves", "A rebalancer's first hour", _moves(report)),
        PageSection("workloads", "Requests against use", _workloads(report.workloads[:_SHOWN], report)),
        PageSection("steps", "Three next steps", _steps(report)),
        PageSection("source", "What was read", _source(report)),
    ]
    heading = Heading(
        "cotenant assess", "What this cluster could do", "cotenant assess", words.headline(report), written_by
    )
    return document(heading, sections, charts, {})


def _money(money: Money) -> str:
    parts = [f"<p>{escape(words.spent(money))}</p>", *(f"<p>{escape(line)}</p>" for line in money.left_out)]
    for name, groups in (("tenant", money.tenants), ("namespace", money.namespaces), ("workload", money.workloads)):
        if groups:
            rows = [(group.name, *words.money_row(group)) for group in groups]
            parts.append(f"<h3>By {name}</h3>{_table((name, *words.MONEY_HEADS), rows)}")
    if money.savings:
        heads = ("step of the plan", f"saves a month, {money.currency}".rstrip(" ,"), "how")
        parts.append(f"<h3>Saved by each step</h3>{_table(heads, words.saving(money, _SHOWN), prose=(2,))}")
    return "".join(parts)


def _energy(energy: EnergyGroups) -> str:
    parts = []
    for name, groups in words.energy_groups(energy):
        rows = [(group.name, words.amount(group.kwh_a_day)) for group in groups]
        parts.append(f"<h3>By {name}</h3>{_table((name, 'kWh a day'), rows)}")
    return "".join(parts)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], prose: Sequence[int] = ()) -> str:
    """A table of texts; the columns numbered in `prose` are sentences."""
    kinds = ["name" if not at else "words" if at in prose else "" for at in range(len(columns))]
    heads = [head(name, kind) for name, kind in zip(columns, kinds, strict=True)]
    return wide(heads, [WideRow([cell(text, kind) for text, kind in zip(row, kinds, strict=True)]) for row in rows])


def _resources(report: AssessmentReport) -> Figure | None:
    by_key = {number.key: number for number in report.figures}
    rows = []
    for name, key in (("cores", "cpu"), ("memory", "memory")):
        whole = by_key[f"{key}_allocatable"].value or 0.0
        if whole <= 0:
            continue
        p99 = by_key[f"{key}_used_p99_day"]
        used = p99 if p99.value is not None else by_key[f"{key}_used_last"]
        readings = [_reading(by_key[f"{key}_allocated"], whole, rival(0))]
        if used.value is not None:
            readings.append(_reading(used, whole, rival(1)))
        rows.append(ReadingRow(name, False, tuple(readings)))
    if not rows:
        return None
    drawing = IntervalReadings(
        axis=Axis(title="percent of allocatable", low=0.0, high=_high(rows), unit=" %"),
        rows=tuple(rows),
        series=(("allocated", rival(0)), ("used", rival(1))),
        limit=100.0,
    )
    caption = "Used: the p99 of the last day where the history has one, else the last measurement."
    return Figure("resources", "Of what there is", caption, drawing)


def _high(rows: Sequence[ReadingRow]) -> float:
    values = [value for row in rows for reading in row.readings for value in (reading.value, reading.high) if value]
    return max(105.0, *(1.05 * value for value in values))


def _reading(number: AssessedFigure, whole: float, colour: str) -> IntervalReading:
    assert number.value is not None

    def share(value: float | None) -> float | None:
        return None if value is None else value * 100.0 / whole

    shown = f"{words.amount(number.value)} {number.unit}"
    return IntervalReading(number.value * 100.0 / whole, share(number.low), share(number.high), shown, colour)


def _lendable_chart(report: AssessmentReport) -> Figure | None:
    rows = []
    for lendable in report.lendable:
        readings = [
            IntervalReading(number.value, number.low, number.high, words.figure(number), colour)
            for number, colour in ((lendable.ours, OURS), (lendable.koordinator, rival(2)))
            if number.value is not None
        ]
        if readings and lendable.unit == "cores":
            rows.append(ReadingRow(lendable.name, False, tuple(readings)))
    if not rows:
        return None
    high = max(reading.value for row in rows for reading in row.readings)
    drawing = IntervalReadings(
        axis=Axis(title="cores", low=0.0, high=max(1.0, 1.1 * high)),
        rows=tuple(rows),
        series=(("ours", OURS), ("Koordinator's formula", rival(2))),
    )
    return Figure("lent", "Lendable cores", "The same nodes at the same moment, by both rules.", drawing)


def _numbers(numbers: Sequence[AssessedFigure]) -> str:
    known = [number for number in numbers if number.value is not None]
    rows = [(number.title, words.figure(number), number.definition, number.interval) for number in known]
    table = _table(("figure", "value", "definition", "interval"), rows, prose=(2, 3))
    missing = [(number.title, number.why) for number in numbers if number.value is None]
    if not missing:
        return table
    folded = _table(("figure", "why it is not given"), missing, prose=(1,))
    return (
        f"{table}<details><summary>{words.count(len(missing), 'figure')} not given, and why</summary>{folded}</details>"
    )


def _idle(report: AssessmentReport) -> str:
    if not report.idle:
        return f"<p>Not known: {escape(report.source.use)}.</p>"
    return _workloads(report.idle, report)


def _workloads(workloads: Sequence[WorkloadUse], report: AssessmentReport) -> str:
    rows = [
        (
            workload.name,
            f"{workload.pods:,}",
            words.cores(workload.cpu_request_m),
            words.cores(workload.cpu_p50_m),
            words.cores(workload.cpu_p99_m),
            words.hours(workload),
            words.cores(workload.idle_cpu_m),
            words.gib(workload.memory_request_mib),
            words.gib(workload.idle_memory_mib),
        )
        for workload in workloads
    ]
    heads = (
        "workload", "pods", "cores requested", "used, p50", "used, p99", "peak hours, UTC", "cores idle",
        "GiB requested", "GiB idle",
    )  # fmt: skip
    if not rows:
        return "<p>No pod runs.</p>"
    kept = [at for at in range(len(heads)) if any(row[at] != words.UNKNOWN for row in rows)]
    note = "Idle is requested beyond the p99 of the workload's total use, or beyond its last measurement."
    if len(kept) < len(heads):
        left = ", ".join(head for at, head in enumerate(heads) if at not in kept)
        note += f" Not known of any: {left}; {report.source.use}".rstrip(".") + "."
    table = _table([heads[at] for at in kept], [[row[at] for at in kept] for row in rows])
    return f"{table}<p class=soft>{escape(note)}</p>"


def _lendable(report: AssessmentReport) -> str:
    rows = [
        (
            lendable.name,
            words.lent(lendable.ours),
            _how(lendable.ours),
            words.figure(lendable.koordinator),
            _how(lendable.koordinator),
        )
        for lendable in report.lendable
    ]
    return _table(
        ("class and resource", f"ours, {report.risk * 100:g} % risk", "how", "Koordinator", "how"), rows, prose=(2, 4)
    )


def _how(number: AssessedFigure) -> str:
    return number.why or f"{number.definition}. Interval: {number.interval}."


def _waiting(report: AssessmentReport) -> str:
    if not report.waiting:
        return "<p>No pod waits.</p>"
    rows = [
        (
            group.why,
            group.holder.value,
            f"{group.pods:,}",
            f"{group.placed_now:,}",
            words.UNKNOWN if group.placed_lent is None else f"{group.placed_lent:,}",
        )
        for group in report.waiting
    ]
    heads = ("why", "waits for", "pods", "cotenant places now", "with what could be lent")
    return f"<p>{escape(words.held(report))}</p>{_table(heads, rows, prose=(1,))}"


def _elsewhere(report: AssessmentReport) -> str:
    placed = report.placement
    text = f"<p>{escape(words.figure(placed.share))}: {escape(placed.share.definition)}. Interval: "
    text += f"{escape(placed.share.interval)}.</p>"
    rows = [
        (one.pod, one.node, f"{one.place:,} of {one.of:,}" if one.place else "rejected", one.better, one.why)
        for one in placed.elsewhere[:_SHOWN]
    ]
    note = "<p class=soft>By: the term of the score in which the better node gains most, and all that it gains.</p>"
    table = _table(("pod", "node", "its place", "better", "by"), rows, prose=(1, 3, 4))
    return text + (f"{table}{note}" if rows else "")


def _consolidation(report: AssessmentReport) -> str:
    found = report.consolidation
    text = f"<p>{escape(words.consolidated(report))}</p>"
    emptied = [(node.node, f"{node.pods:,}", f"{node.targets:,}") for node in found.emptied[:_SHOWN]]
    if emptied:
        text += _table(("node", "pods that move", "to nodes"), emptied)
    refused = [(refused.why, f"{refused.nodes:,}", refused.example) for refused in found.refused]
    if refused:
        text += f"<h3>Refused</h3>{_table(('why', 'nodes', 'for example'), refused, prose=(2,))}"
    return text


def _shapes(report: AssessmentReport) -> str:
    rows = [
        (
            f"{words.cores(room.cpu_m)} cores, {words.gib(room.memory_mib)} GiB",
            f"{room.pods:,}",
            f"{room.more:,}",
            words.cores(room.stranded_cpu_m),
            words.gib(room.stranded_memory_mib),
        )
        for room in report.shapes
    ]
    note = "Stranded: free on nodes where not one more pod of the shape fits."
    heads = ("a pod requests", "pods", "more would fit", "cores stranded", "GiB stranded")
    return f"{_table(heads, rows)}<p class=soft>{note}</p>" if rows else "<p>No pod runs.</p>"


def _cards(report: AssessmentReport) -> str:
    rows = [
        (
            cards.kind,
            f"{cards.cards:,}",
            words.amount(cards.allocated),
            f"{cards.shared:,}",
            cards.used.why or words.figure(cards.used),
            cards.shareable.why or words.figure(cards.shareable),
        )
        for cards in report.cards
    ]
    return _table(("kind", "cards", "allocated", "in parts", "used", "shareable"), rows, prose=(4, 5))


def _moves(report: AssessmentReport) -> str:
    rows = [(move.pod, move.node, move.target, move.reason) for move in report.moves]
    text = f"<p>{escape(report.moves_note[:1].upper() + report.moves_note[1:])}.</p>"
    return text + (_table(("pod", "from", "to", "why"), rows, prose=(3,)) if rows else "")


def _past(report: AssessmentReport) -> str:
    tried = report.back_test
    assert tried is not None
    rows = [
        (one.name, *map(_percent, (one.risk_pct, one.pinball_pct, one.lent_pct, one.squeezed_pct)))
        for one in tried.scores
    ]
    heads = ("rule", "time above what was predicted, %", "pinball loss, %", "lent, %", "lent and squeezed, %")
    text = f"<p>{escape(tried.verdict)}</p><p>{escape(tried.told)}</p>{_table(heads, rows)}"
    if report.sizes is not None:
        text += f"<h3>Sizes of workloads</h3><p>{escape(report.sizes.verdict)}</p>"
        text += _table(words.SIZES_HEADS, words.sizes_rows(report.sizes))
    if report.emptying is not None:
        text += f"<h3>Nodes that one would have emptied</h3><p>{escape(report.emptying.verdict)}</p>"
        text += _table(words.EMPTYING_HEADS, words.emptying_rows(report.emptying))
        of_ours = report.emptying.rules[0].squeezed
        note = f"Squeezed: {of_ours.definition}. Interval: {of_ours.interval}."
        which = words.emptied_by(report.emptying, _NAMES)
        note += f" The nodes of the plan: {which}." if which else ""
        text += f"<p class=soft>{escape(note)}</p>"
    return text


def _percent(value: float | None) -> str:
    return words.UNKNOWN if value is None else f"{value:.2f}"


def _steps(report: AssessmentReport) -> str:
    return "".join(
        f"<h3>{number}. {escape(step.title)}</h3>{command(step.command)}<p>Risk: {escape(step.risk)}.</p>"
        f"<p>The way back: {escape(step.back)}.</p>{command(step.back_command) if step.back_command else ''}"
        for number, step in enumerate(report.steps, 1)
    )


def _source(report: AssessmentReport) -> str:
    source = report.source
    said = [
        ("read from", f"{source.cluster}{f', {source.server}' if source.server else ''}"),
        ("at", source.taken),
        ("use", source.use),
        ("names", "replaced by words" if source.is_anonymised else "as they are"),
        *(("not read", line) for line in source.lacking),
        *(("note", line) for line in source.notes),
    ]
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in said)
    return f"<dl>{rows}</dl>"
