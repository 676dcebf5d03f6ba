"""A report as text of at most a hundred columns."""

from __future__ import annotations

from cotenant.cli.assess.what_if_tables import show_emptying, show_sizes, show_what_ifs
from cotenant.cli.tables import print_folded, print_line, print_words
from cotenant.model.assess.report import AssessmentReport, WorkloadUse
from cotenant.services.assess import words

_ROWS = 10
_SHORT = 44  # characters of a name


def show(report: AssessmentReport) -> None:
    """Print all of it."""
    print_folded(words.headline(report))
    print_folded(f"Use: {report.source.use}.")
    for line in report.source.lacking:
        print_folded(f"  not read: {line}")
    for line in report.source.notes:
        print_folded(f"  {line}")
    _figures(report)
    _workloads(report)
    _lendable(report)
    _waiting(report)
    _elsewhere(report)
    _consolidation(report)
    _shapes(report)
    _cards(report)
    _moves(report)
    _back_test(report)
    if report.sizes is not None:
        show_sizes(report.sizes)
    if report.emptying is not None:
        show_emptying(report.emptying)
    _money(report)
    _energy(report)
    if report.what_ifs is not None:
        show_what_ifs(report.what_ifs)
    _steps(report)


def _title(text: str) -> None:
    print()
    print_line(text, strong=True)


def _figures(report: AssessmentReport) -> None:
    _title("Allocated, used, idle")
    known = [figure for figure in report.figures if figure.value is not None]
    print_words(("figure", "value"), [(figure.title, words.figure(figure)) for figure in known])
    missing = [figure for figure in report.figures if figure.value is None]
    for why in dict.fromkeys(figure.why for figure in missing):
        count = sum(figure.why == why for figure in missing)
        print_folded(f"  {words.count(count, 'figure')} not given: {why}")
    print_folded("  Definitions and intervals: --json, or --html.")


def _workloads(report: AssessmentReport) -> None:
    _title("The ten workloads that hold most idle")
    if not report.idle:
        print_folded(f"Not known: {report.source.use}.")
        return
    heads = ("workload", "pods", "cores requested", "used p99", "peak hours UTC", "cores idle", "GiB idle")
    print_words(heads, [_workload(workload) for workload in report.idle], right=heads[1:])


def _workload(workload: WorkloadUse) -> tuple[str, ...]:
    return (
        _short(workload.name),
        f"{workload.pods:,}",
        words.cores(workload.cpu_request_m),
        words.cores(workload.cpu_p99_m),
        words.hours(workload),
        words.cores(workload.idle_cpu_m),
        words.gib(workload.idle_memory_mib),
    )


def _lendable(report: AssessmentReport) -> None:
    _title(f"What could be lent, at {report.risk * 100:g} % risk, and by Koordinator's formula")
    rows = [(one.name, words.lent(one.ours), words.figure(one.koordinator)) for one in report.lendable]
    print_words(("class and resource", "ours", "Koordinator"), rows, right=("ours", "Koordinator"))
    whys = [one.ours.why for one in report.lendable] + [one.koordinator.why for one in report.lendable]
    for why in dict.fromkeys(why for why in whys if why):
        print_folded(f"  not given: {why}")


def _waiting(report: AssessmentReport) -> None:
    _title("Pods that wait")
    if not report.waiting:
        print("None.")
        return
    print_folded(words.held(report))
    heads = ("why", "waits for", "pods", "cotenant places now", "with what could be lent")
    rows = [
        (
            one.why,
            one.holder.value,
            f"{one.pods:,}",
            f"{one.placed_now:,}",
            words.UNKNOWN if one.placed_lent is None else f"{one.placed_lent:,}",
        )
        for one in report.waiting[:_ROWS]
    ]
    print_words(heads, rows, right=heads[2:])


def _elsewhere(report: AssessmentReport) -> None:
    _title("Placed elsewhere")
    placed = report.placement
    print_folded(f"{words.figure(placed.share)}: {placed.share.definition}.")
    rows = [
        (_short(one.pod), _short(one.node), f"{one.place:,} of {one.of:,}" if one.place else "rejected", one.better)
        for one in placed.elsewhere[:5]
    ]
    if rows:
        print_words(("pod", "node", "its place", "better"), rows)


def _consolidation(report: AssessmentReport) -> None:
    _title("Nodes that could be emptied")
    print_folded(words.consolidated(report))
    rows = [(one.why, f"{one.nodes:,}", _short(one.example)) for one in report.consolidation.refused[:_ROWS]]
    if rows:
        print_words(("refused because", "nodes", "for example"), rows, right=("nodes",))


def _shapes(report: AssessmentReport) -> None:
    _title("Room by shape")
    heads = ("cores", "GiB", "pods", "more would fit", "cores stranded", "GiB stranded")
    rows = [
        (
            words.cores(room.cpu_m),
            words.gib(room.memory_mib),
            f"{room.pods:,}",
            f"{room.more:,}",
            words.cores(room.stranded_cpu_m),
            words.gib(room.stranded_memory_mib),
        )
        for room in report.shapes
    ]
    print_words(heads, rows, right=heads)


def _cards(report: AssessmentReport) -> None:
    if not report.cards:
        return
    _title("Devices")
    rows = [(one.kind, f"{one.cards:,}", words.amount(one.allocated), f"{one.shared:,}") for one in report.cards]
    print_words(("kind", "cards", "allocated", "in parts"), rows, right=("cards", "allocated", "in parts"))
    for one in report.cards:
        if one.used.value is None:
            print_folded(f"  {one.kind}, used and shareable: {one.used.why}")
        else:
            print_folded(f"  {one.kind}: {words.figure(one.used)} used, {words.figure(one.shareable)} could be shared")


def _moves(report: AssessmentReport) -> None:
    _title("A rebalancer's first hour")
    print_folded(f"{report.moves_note[:1].upper()}{report.moves_note[1:]}.")
    rows = [(_short(move.pod), _short(move.node), _short(move.target)) for move in report.moves[:_ROWS]]
    if rows:
        print_words(("pod", "from", "to"), rows)


def _back_test(report: AssessmentReport) -> None:
    if report.back_test is None:
        return
    _title("Tried on the cluster's own past")
    print_folded(report.back_test.verdict)
    if report.back_test.told:
        print_folded(report.back_test.told)
    heads = ("rule", "realised risk, %", "pinball loss, %", "lent, %", "squeezed, %")
    rows = [
        (score.name, *map(_percent, (score.risk_pct, score.pinball_pct, score.lent_pct, score.squeezed_pct)))
        for score in report.back_test.scores
    ]
    print_words(heads, rows, right=heads[1:])


def _money(report: AssessmentReport) -> None:
    money = report.money
    if money is None:
        return
    _title("What a month costs")
    print_folded(words.spent(money))
    for line in money.left_out:
        print_folded(f"  {line}")
    for name, groups in (("tenant", money.tenants), ("namespace", money.namespaces), ("workload", money.workloads)):
        if groups:
            rows = [(_short(group.name), *words.money_row(group)) for group in groups]
            print_words((name, *words.MONEY_HEADS), rows, right=words.MONEY_HEADS)
    savings = words.saving(money, _ROWS)
    if savings:
        print_words(("step of the plan", "saves a month", "how"), savings, right=("saves a month",))


def _energy(report: AssessmentReport) -> None:
    if report.energy is None:
        return
    _title("Energy")
    for name, groups in words.energy_groups(report.energy):
        rows = [(_short(group.name), words.amount(group.kwh_a_day)) for group in groups]
        print_words((name, "kWh a day"), rows, right=("kWh a day",))


def _percent(value: float | None) -> str:
    return words.UNKNOWN if value is None else f"{value:.2f}"


def _steps(report: AssessmentReport) -> None:
    _title("Three next steps")
    for number, step in enumerate(report.steps, 1):
        print_folded(f"{number}. {step.title}. Risk: {step.risk}.")
        print(f"     {step.command}")
        print_folded(f"   The way back: {step.back}.")
        if step.back_command:
            print(f"     {step.back_command}")


def _short(name: str) -> str:
    return name if len(name) <= _SHORT else f"{name[: _SHORT - 1]}…"
