"""Joins the figures of a copy to one report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot, KindReading
from cotenant.engine.cluster import Cluster
from cotenant.model.assess.history import ClusterHistory
from cotenant.model.assess.prices import PriceTable
from cotenant.model.assess.report import AssessmentReport, ReportSource
from cotenant.model.machine.node_metric import Use
from cotenant.policy.assess.shapes import rooms_for, shapes_of, stranded
from cotenant.policy.assess.workloads import by_workload, most_idle
from cotenant.services.assess import columns
from cotenant.services.assess.asking import placement, waiting
from cotenant.services.assess.cards import cards
from cotenant.services.assess.copying import ClusterCopy, copied
from cotenant.services.assess.emptied_past import emptying_trial
from cotenant.services.assess.energy import energy_figures, energy_groups
from cotenant.services.assess.lending import lending
from cotenant.services.assess.measured import with_measured
from cotenant.services.assess.moving import consolidation, first_hour
from cotenant.services.assess.past import past_trial, size_trial
from cotenant.services.assess.spending import spending
from cotenant.services.assess.steps import next_steps
from cotenant.services.assess.totals import totals

SHOWN_SHAPES = 8
SHOWN_WORKLOADS = 200

Stage = Callable[[str], None]
"""What is being worked out."""


def assess(
    snapshot: ClusterSnapshot,
    history: ClusterHistory | None,
    risk: float,
    stage: Stage = lambda words: None,
    prices: PriceTable | None = None,
    copy: ClusterCopy | None = None,
) -> AssessmentReport:
    """Everything that is said of a cluster. `copy`: its engine, where it is built already; it is as before afterwards.
    Raises `CotenantError`.
    """
    if copy is None:
        stage("building the engine")
        copy = copied(snapshot)
    nodes, pods = columns.node_columns(copy), columns.pod_columns(copy)
    use = _use(history, copy, pods)
    if history is not None:
        copy = replace(copy, metrics=with_measured(copy, pods, use))
    stage("lendable amounts")
    lent = lending(copy, pods, use, risk)
    stage("workloads")
    of_workloads = use.pods.by_workload() if use.pods.use.steps else None
    workloads = by_workload(columns.by_workload(pods), of_workloads)
    rooms = rooms_for(nodes.rooms, *shapes_of(pods.cpu_m, pods.memory_mib))
    stage("pods that wait")
    waits = waiting(copy, lent.by_node)
    stage("running pods")
    placed = placement(copy, pods.entries)
    stage("nodes that could be emptied")
    emptied = consolidation(copy, use, risk)
    stage("moves of a first hour")
    moves, moves_note = first_hour(copy)
    stage("trying predictions on the past")
    trial = past_trial(copy, use, risk)
    return AssessmentReport(
        _source(snapshot, copy, use),
        len(nodes.names),
        len(pods.entries),
        (*totals(nodes, pods, use, workloads), *stranded(rooms, nodes.rooms), *energy_figures(use)),
        rooms[:SHOWN_SHAPES],
        workloads[:SHOWN_WORKLOADS],
        most_idle(workloads),
        lent.amounts,
        waits,
        placed,
        emptied,
        cards(copy, pods, use.meters.cards),
        moves,
        moves_note,
        trial,
        next_steps(_calmest(copy.engine, lent.by_node)),
        None if prices is None else spending(prices, copy, nodes, pods, use, lent, emptied),
        energy_groups(use, pods),
        risk,
        emptying=emptying_trial(copy, use, risk),
        sizes=size_trial(use, workloads, risk),
    )


def _use(history: ClusterHistory | None, copy: ClusterCopy, pods: columns.RunningColumns) -> ClusterHistory:
    """The history where it has anything, else the last measurements, with what went wrong with the history."""
    if history is None:
        return columns.moment(copy, pods)
    if history.nodes.steps:
        return columns.joined(history, pods)
    last = columns.moment(copy, pods)
    said = dict.fromkeys((*history.faults, history.pods.use.source))
    return replace(last, faults=(*last.faults, *(text for text in said if text)))


def _calmest(engine: Cluster, lent: Mapping[str, Use]) -> list[str]:
    """The nodes that take pods and could lend most of themselves."""
    shares = {
        name: amount.cpu_m / max(1, node.allocatable.get("cpu"))
        for name, amount in lent.items()
        if (node := engine.node(name)) is not None and node.takes_pods
    }
    return sorted(shares, key=lambda name: (-shares[name], name))


def _said(use: ClusterHistory) -> str:
    """Where use is from: of pods, and of whole nodes where that is another source."""
    sources = dict.fromkeys(source.rstrip(".") for source in (use.pods.use.source, use.nodes.source) if source)
    return ". ".join(sources)


def _source(snapshot: ClusterSnapshot, copy: ClusterCopy, use: ClusterHistory) -> ReportSource:
    lacking = [f"{kind.key.rpartition('/')[2]}: {kind.lack}" for kind in snapshot.lacking]
    lacking += [f"{words}, not readable and not counted" for words in copy.unusable]
    unasked = [kind.key.rpartition("/")[2] for kind in snapshot.kinds if kind.reading is KindReading.UNASKED]
    notes = [*snapshot.notes, *use.faults]
    if unasked and len(unasked) < len(snapshot.kinds):
        notes.append(f"not in the files, and taken as none: {', '.join(dict.fromkeys(unasked))}")
    notes += [f"not counted: {why}" for why in list(copy.engine.why.unusable_nodes.values())[:5]]
    return ReportSource(
        datetime.fromtimestamp(snapshot.taken_s, UTC).isoformat(timespec="seconds"),
        snapshot.source,
        snapshot.server,
        _said(use),
        snapshot.is_anonymised,
        tuple(lacking),
        tuple(notes),
    )
