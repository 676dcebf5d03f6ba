"""How a report's amounts are written, in a terminal and on the page."""

from __future__ import annotations

from collections import Counter

from cotenant.model.assess.figure import AssessedFigure
from cotenant.model.assess.report import (
    AssessmentReport,
    EmptyingTrial,
    EnergyGroups,
    EnergyOf,
    Money,
    SizeTrial,
    Spending,
    WaitCause,
    WorkloadUse,
)
from cotenant.model.assess.what_if import UnplacedPods, WhatIfs
from cotenant.policy.assess.use import ranges

UNKNOWN = "?"


def amount(value: float) -> str:
    """Three digits or all of a whole part: 0.52, 31.4, 1,920."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def figure(given: AssessedFigure) -> str:
    """The value with its interval and unit; `UNKNOWN` where there is none."""
    if given.value is None:
        return UNKNOWN
    between = (
        f" ({amount(given.low)} to {amount(given.high)})" if given.low is not None and given.high is not None else ""
    )
    return f"{amount(given.value)}{between} {given.unit}"


def lent(given: AssessedFigure) -> str:
    """As `figure`; where the amount is beside its range, what the range is of."""
    is_beside = given.value is not None and given.low is not None and given.high is not None
    if not is_beside or (given.low or 0.0) <= (given.value or 0.0) <= (given.high or 0.0):
        return figure(given)
    between = f"{amount(given.low or 0.0)} to {amount(given.high or 0.0)} would just keep the risk"
    return f"{amount(given.value or 0.0)} ({between}) {given.unit}"


def cores(milli: float | None) -> str:
    """Cores of milli-CPU."""
    return UNKNOWN if milli is None else amount(milli / 1000.0)


def gib(mib: float | None) -> str:
    """GiB of MiB."""
    return UNKNOWN if mib is None else amount(mib / 1024.0)


def count(number: int, one: str) -> str:
    """1 node, 2 nodes."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def hours(workload: WorkloadUse) -> str:
    """The hours that set the peak."""
    return ranges(workload.peak_hours) or UNKNOWN


def headline(report: AssessmentReport) -> str:
    """The first sentence."""
    by_key = {given.key: given for given in report.figures}
    size, asked, idle = by_key["cpu_allocatable"], by_key["cpu_allocated"], by_key["cpu_idle"]
    text = f"{count(report.nodes, 'node')} with {figure(size)}, of which {figure(asked)} are allocated"
    if idle.value is not None:
        text += f"; {figure(idle)} are requested and not used"
    batch = report.lendable[0] if report.lendable else None
    if batch is not None and batch.ours.value is not None:
        text += f"; {lent(batch.ours)} could be lent at {report.risk * 100:g} % risk"
        if batch.in_use:
            text += f", {amount(batch.in_use)} of which batch work uses already"
    waiting = sum(entry.pods for entry in report.waiting)
    if waiting:
        text += f"; {count(waiting, 'pod')} {'waits' if waiting == 1 else 'wait'}"
    return f"{text}."


def held(report: AssessmentReport) -> str:
    """What the pods that wait, wait for, and how many of them lending would hold."""
    by_holder: Counter[WaitCause] = Counter()
    for group in report.waiting:
        by_holder[group.holder] += group.pods
    text = f"{count(by_holder[WaitCause.ROOM], 'pod')} {'lacks' if by_holder[WaitCause.ROOM] == 1 else 'lack'} room"
    others = [
        f"{by_holder[holder]:,} {'waits' if by_holder[holder] == 1 else 'wait'} for {holder.value}"
        for holder in (WaitCause.RULES, WaitCause.QUOTA, WaitCause.GATE, WaitCause.POD)
        if by_holder[holder]
    ]
    if by_holder[WaitCause.NOTHING]:
        others.insert(0, f"{by_holder[WaitCause.NOTHING]:,} cotenant would place now")
    text += f"; {', '.join(others)}" if others else ""
    lent = [group.placed_lent for group in report.waiting if group.holder is WaitCause.ROOM]
    if lent and None not in lent:
        fit = sum(number for number in lent if number is not None)
        text += f". With what could be lent {fit:,} of those that lack room would be placed"
    elif lent:
        text += ". How many of them lending would hold is not known, as the lendable amount is not"
    return f"{text}."


def saving(money: Money, shown: int) -> tuple[tuple[str, str, str], ...]:
    """Step of the plan, what it saves in a month, and how: the dearest `shown`, and the others in one."""
    steps = sorted(money.savings, key=lambda step: -step.month)
    rows = [(step.step, amount(step.month), step.how) for step in steps[:shown]]
    others = steps[shown:]
    if others:
        rows.append((f"{len(others):,} further steps", amount(sum(step.month for step in others)), "alike"))
    return tuple(rows)


def energy_groups(energy: EnergyGroups) -> tuple[tuple[str, tuple[EnergyOf, ...]], ...]:
    """What pods are grouped by, and the groups; without what nothing is known of."""
    by = (("tenant", energy.tenants), ("namespace", energy.namespaces), ("workload", energy.workloads))
    return tuple((name, groups) for name, groups in by if groups)


MONEY_HEADS = ("pods", "paid", "used", "idle", "of it lendable")


def money_row(group: Spending) -> tuple[str, ...]:
    """Under `MONEY_HEADS`, in a currency."""
    return (f"{group.pods:,}", *map(amount, (group.paid, group.used, group.idle, group.lent)))


def spent(money: Money) -> str:
    """What a month costs."""
    unit, pods = f" {money.currency}".rstrip(), money.pods
    text = (
        f"Nodes cost {amount(money.nodes)}{unit} a month. Pods pay {amount(pods.paid)}{unit} of it, by request or use, "
        f"whichever is more; {amount(pods.idle)}{unit} of that is idle, of which {amount(pods.lent)}{unit} could be "
        f"lent. {amount(money.free)}{unit} is for what nobody asked for, of which {amount(money.free_lent)}{unit} "
        f"could be lent. The nodes that could be emptied cost {amount(money.emptied)}{unit}."
    )
    if money.unpriced_nodes:
        text += f" {count(money.unpriced_nodes, 'node')} without a price, with {count(pods.unpriced, 'pod')}, left out."
    if pods.unmeasured:
        text += f" {count(pods.unmeasured, 'pod')} whose use is unknown count as wholly used."
    return text


def consolidated(report: AssessmentReport) -> str:
    """What a consolidation would empty."""
    found = report.consolidation
    empty = len(found.empty_nodes)
    already = f"{count(empty, 'node')} {'has' if empty == 1 else 'have'} no pods to move already. "
    text = already if empty else ""
    if not found.considered:
        return f"{text}No {'other ' if empty else ''}node has requests of at most half of its CPU and memory."
    tail, other = f" ({found.note})" if found.note else "", "other node" if empty else "node"
    return (
        f"{text}Of {count(found.considered, other)} at most half requested, {len(found.emptied):,} could be "
        f"emptied one by one: {cores(found.cpu_m)} cores and {gib(found.memory_mib)} GiB{tail}. Their pods fit "
        f"elsewhere {found.basis}."
    )


def case_marks(what_ifs: WhatIfs) -> tuple[str, ...]:
    """A, B, ... of the cases."""
    return tuple("ABCDEFGH"[at] for at in range(len(what_ifs.cases)))


def what_if_rows(what_ifs: WhatIfs) -> list[tuple[str, ...]]:
    """A row a figure that is known as it is or in a case; with the difference where two cases are compared."""
    rows = []
    for row in what_ifs.rows:
        if all(one.value is None for one in (row.base, *row.cases)):
            continue
        cells = [_plain(one) for one in (row.base, *row.cases)]
        if row.between is not None:
            cells.append(_signed(row.between))
        rows.append((f"{row.title}, {row.unit}", *cells))
    return rows


def over_seeds(what_ifs: WhatIfs) -> str:
    """What the amounts in brackets are."""
    count_of = count(len(what_ifs.seeds), "seed")
    return (
        f"Medians of {count_of}, in brackets the smallest and the largest where they differ. Latency is not in a copy: "
        "nothing is said of it. Contention: `cotenant lab what-if`, of the package cotenant-lab."
    )


def pods_of(unplaced: UnplacedPods) -> str:
    """3 pods."""
    return f"{amount(unplaced.pods)} pod{'' if unplaced.pods == 1 else 's'}"


def _plain(given: AssessedFigure) -> str:
    if given.value is None:
        return UNKNOWN
    if given.low is None or given.high is None or given.low == given.high:
        return amount(given.value)
    return f"{amount(given.value)} ({amount(given.low)} to {amount(given.high)})"


def _signed(given: AssessedFigure) -> str:
    return f"+{_plain(given)}" if given.value is not None and given.value > 0 else _plain(given)


EMPTYING_HEADS = (
    "rule",
    "nodes emptied",
    "pods moved",
    "pod time squeezed, %",
    "without a move, %",
    "nodes overfull",
    "fullest, %",
    "no place, later pods",
)


def emptying_rows(trial: EmptyingTrial) -> list[tuple[str, ...]]:
    """Under `EMPTYING_HEADS`."""
    return [
        (
            one.rule,
            f"{len(one.nodes):,}",
            f"{one.moved:,}",
            _squeezed(one.squeezed),
            f"{one.before_pct:.2f}",
            f"{one.overflowed:,}",
            UNKNOWN if one.peak_pct is None else f"{one.peak_pct:.0f}",
            f"{one.unplaced:,} of {one.late:,}",
        )
        for one in trial.rules
    ]


def emptied_by(trial: EmptyingTrial, shown: int) -> str:
    """Which nodes the plan would have emptied; "" = none."""
    names = trial.rules[0].nodes
    if not names:
        return ""
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return f"{', '.join(names[:shown])}{more}"


def _squeezed(given: AssessedFigure) -> str:
    between = f" ({given.low:.2f} to {given.high:.2f})" if given.low is not None and given.high is not None else ""
    return UNKNOWN if given.value is None else f"{given.value:.2f}{between}"


SIZES_HEADS = ("rule", "sizes too small, %", "beyond the peaks, %", "loss, %")


def sizes_rows(trial: SizeTrial) -> list[tuple[str, ...]]:
    """Under `SIZES_HEADS`."""

    def percent(value: float | None) -> str:
        return UNKNOWN if value is None else f"{value:.3g}"

    return [(one.rule, percent(one.short_pct), percent(one.over_pct), percent(one.loss_pct)) for one in trial.rules]
