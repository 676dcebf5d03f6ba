"""What came of one case under one seed: the report's own figures on the changed copy, and which pods have no place.

The changed copy is read by a new engine, which places what waits, with evictions, as it would in a cluster. Where a
case changes nothing, nothing is placed, and the figures are those of the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.model.assess.figure import AssessedFigure, counted, unknown
from cotenant.model.assess.history import ClusterHistory
from cotenant.model.assess.prices import PriceTable
from cotenant.model.assess.report import Consolidation
from cotenant.model.assess.what_if import NoOvercommit, WhatIfChanges
from cotenant.policy.assess.predictor import DAY_S
from cotenant.services.assess import columns
from cotenant.services.assess.asking import held_by, without_counts
from cotenant.services.assess.copying import PROFILE, ClusterCopy, copied
from cotenant.services.assess.driving import Driven, place_waiting
from cotenant.services.assess.energy import energy_figures
from cotenant.services.assess.lending import lending
from cotenant.services.assess.spending import spending
from cotenant.services.assess.totals import totals
from cotenant.services.assess.what_ifs.altering import Altered, altered
from cotenant.services.assess.what_ifs.moved import moved

HOT_PERCENT = 80.0
GONE = "evicted for a pod of higher priority, and nothing makes it again"
_NOTHING_EMPTIED = Consolidation((), 0, (), (), 0, 0)
_SHOWN = (
    "nodes", "pods", "cpu_allocatable", "cpu_allocated", "cpu_lent", "memory_allocatable", "memory_allocated",
    "cpu_used_p99_day", "cpu_used_last", "memory_used_p99_day",
)  # fmt: skip


class CaseInputs(NamedTuple):
    """What all cases have in common."""

    snapshot: ClusterSnapshot
    history: ClusterHistory | None
    risk: float
    prices: PriceTable | None


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """Of one case and seed; `unplaced`: pods that had a place, or are new, by namespace/name, with the reason."""

    figures: tuple[AssessedFigure, ...]
    unplaced: Mapping[str, str]
    running: Mapping[str, str]  # node by namespace/name
    use: ClusterHistory
    capacity: Mapping[str, int]  # milli-CPU of nodes
    notes: tuple[str, ...] = ()


def as_it_is(given: CaseInputs, copy: ClusterCopy | None = None) -> CaseOutcome:
    """The copy without a change; `copy`: its engine, where it is built already, which is read and not changed."""
    copy = copy or copied(given.snapshot)
    pods = columns.pod_columns(copy)
    history = given.history
    known = history is not None and history.nodes.steps
    use = columns.joined(history, pods) if history is not None and known else columns.moment(copy, pods)
    figures = _figures(copy, use, given, lends=True)
    return CaseOutcome((*figures, *_counts(copy, use, {}, 0, 0, 0)), {}, _running(copy), use, _capacity(copy))


def outcome(given: CaseInputs, before: CaseOutcome, what_if: WhatIfChanges, seed: int) -> CaseOutcome:
    """Of one case. Raises `InvalidInput` where a change names what is not there."""
    changed = altered(given.snapshot, what_if, seed)
    copy = copied(changed.snapshot, changed.profile or PROFILE)
    waited = {info.seen.pod.key for info in copy.engine.every_pod() if not info.node} - changed.anew
    driven = place_waiting(copy.engine, copy.now_s) if changed.is_changed else Driven()
    running = _running(copy)
    nodes = {node.name for node in copy.engine.nodes()}
    use = before.use
    if changed.is_changed:
        use = moved(before.use, before.running, running, changed.source, nodes)
    unplaced = _unplaced(copy, before, changed, driven, running)
    lends = not any(isinstance(change, NoOvercommit) for change in what_if.changes)
    anew = sum(key in running for key in changed.anew)
    figures = (
        *_figures(copy, use, given, lends),
        *_counts(copy, use, unplaced, anew, sum(key in running for key in waited), len(set(driven.evicted))),
    )
    return CaseOutcome(figures, unplaced, running, use, _capacity(copy), changed.notes)


def _running(copy: ClusterCopy) -> dict[str, str]:
    return {
        info.seen.pod.key: info.node or info.seen.node
        for info in copy.engine.every_pod()
        if info.seen.occupies and not info.seen.reservation
    }


def _capacity(copy: ClusterCopy) -> dict[str, int]:
    return {node.name: node.allocatable.get("cpu") for node in copy.engine.nodes()}


def _unplaced(
    copy: ClusterCopy, before: CaseOutcome, changed: Altered, driven: Driven, running: Mapping[str, str]
) -> dict[str, str]:
    evicted = set(driven.evicted)
    found = dict(changed.lost)
    for key in sorted({*before.running, *changed.anew} - set(running)):
        info = copy.engine.find(key)
        if info is not None:
            told = (
                held_by(info)[0]
                if info.state in (SchedulingState.GATED, SchedulingState.BLOCKED)
                else _told(driven, info.seen.uid)
            )
            found[key] = told or info.last_message or "not judged: the engine was still busy with others"
        elif key in evicted:
            found[key] = GONE
    return found


def _told(driven: Driven, uid: str) -> str:
    return without_counts(driven.refused[uid]).partition(". ")[0] if uid in driven.refused else ""


def _figures(copy: ClusterCopy, use: ClusterHistory, given: CaseInputs, lends: bool) -> tuple[AssessedFigure, ...]:
    """The report's."""
    nodes, pods = columns.node_columns(copy), columns.pod_columns(copy)
    by_key = {figure.key: figure for figure in totals(nodes, pods, use, ())}
    lent = lending(copy, pods, use, given.risk)
    definition = "batch and mid resources that pods request, beside what is allocated"
    by_key.setdefault("cpu_lent", counted("cpu_lent", "Cores, lent and requested", 0.0, "cores", definition))
    found = [by_key[key] for key in _SHOWN]  # in one order, whatever a case has
    for one in lent.amounts[:2]:
        figure = one.ours
        if not lends:
            figure = counted(figure.key, figure.title, 0.0, figure.unit, "overcommit is off: nothing is lent")
        found.append(figure)
    if given.history is not None and given.history.meters.energy.pods:
        found.append(energy_figures(use)[0])
    if given.prices is not None:
        money = spending(given.prices, copy, nodes, pods, use, lent, _NOTHING_EMPTIED)
        unit = money.currency or "a month"
        of_nodes = "a month of all nodes that have a price"
        idle = "of a month, what pods pay for and do not use"
        found.append(counted("money_nodes", "Nodes, a month", money.nodes, unit, of_nodes))
        found.append(counted("money_idle", "Idle of it", money.pods.idle, unit, idle))
    return tuple(found)


def _counts(
    copy: ClusterCopy, use: ClusterHistory, unplaced: Mapping[str, str], anew: int, waited: int, evicted: int
) -> tuple[AssessedFigure, ...]:
    """What only a what-if has."""
    broken = 0
    for budget in copy.engine.budgets():
        missing = sum(budget.covers(info.seen.pod) for info in map(copy.engine.find, unplaced) if info is not None)
        broken += missing > budget.allowed
    return (
        counted("placed_anew", "Pods placed anew", anew, "pods", "pods that lost their node or are new, and have one"),
        counted("unplaced", "Pods without a place", len(unplaced), "pods", "pods that had a node or are new"),
        counted("waited_placed", "Pods that waited, placed", waited, "pods", "pods that waited before the changes"),
        counted("evicted", "Pods evicted for others", evicted, "pods", "victims of preemption, placed again or not"),
        counted(
            "budgets_broken", "Disruption budgets broken", broken, "budgets",
            "budgets of which more pods have no place than may be disrupted",
        ),
        _hot(copy, use),
    )  # fmt: skip


def _hot(copy: ClusterCopy, use: ClusterHistory) -> AssessedFigure:
    title, unit = f"Nodes above {HOT_PERCENT:g} % of CPU", "nodes"
    definition = f"nodes whose use is above {HOT_PERCENT:g} % of allocatable in more than 1 % of the last day's steps"
    names = [name for name in use.nodes.names if copy.engine.node(name) is not None]
    if not names or not use.nodes.steps:
        return unknown("nodes_hot", title, unit, definition, use.nodes.source or "use of nodes is not known")
    values = use.nodes.of_rows(use.nodes.rows(names)).cpu_m[:, -max(1, round(DAY_S / use.nodes.step_s)) :]
    size = np.array([node.allocatable.get("cpu") for node in map(copy.engine.node, names) if node is not None])
    above = (values > HOT_PERCENT / 100 * size[:, None]).sum(axis=1)
    hot = above > 0.01 * np.isfinite(values).sum(axis=1)
    return counted("nodes_hot", title, float(hot.sum()), unit, definition)
