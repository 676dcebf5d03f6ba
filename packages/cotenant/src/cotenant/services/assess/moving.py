"""What the rebalancer's planner would do on the copy: nodes that could be emptied, and the moves of a first hour.

The planner, its policies and its filters are those of `cotenant rebalancer`; a plan is simulated and nothing moves.
Where use of two days is known, a node stays where what its pods will use would not fit (`used_room`).
Limits: a node is emptied only where everything on it may move and fits elsewhere by requests, now; budgets are those of
the copy's moment. A round looks at the least requested nodes first, and stops after `MAX_EMPTIED` of them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace

from cotenant.engine.rebalancer.plan import KeptPod, MovePlan
from cotenant.engine.rebalancer.planner import Planner
from cotenant.engine.rebalancer.room import PACKING
from cotenant.engine.rebalancer.settings import MoveKinds, MoveLimits, Packing, RebalancerSettings
from cotenant.model.assess.history import ClusterHistory
from cotenant.model.assess.report import AdvisedMove, Consolidation, EmptiedNode, RefusedNodes
from cotenant.model.machine.use_targets import BEST_EFFORT_TARGET_PERCENT, OVERLOAD_BAND_PERCENT
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.policy.rebalance.loads.pools import DEFAULT_POOL, NodePool
from cotenant.policy.rebalance.loads.thresholds import Percentages
from cotenant.policy.rebalance.migration.evictable import EvictionFilter, EvictionGate
from cotenant.services.assess.asking import without_counts
from cotenant.services.assess.columns import MAX_AGE_S, MIB
from cotenant.services.assess.copying import ClusterCopy
from cotenant.services.assess.used_room import EmptyingMove, is_judged, overfull

UNDERUSED_PERCENT = 50.0  # of requests, of CPU and of memory: more than that fits nowhere in one piece
MAX_EMPTIED = 100
SHOWN = 20
_POOL = NodePool(
    DEFAULT_POOL,
    Percentages(
        {CPU_NAME: 45.0, MEMORY_NAME: 60.0},
        {CPU_NAME: float(BEST_EFFORT_TARGET_PERCENT + OVERLOAD_BAND_PERCENT), MEMORY_NAME: 85.0},
    ),
    anomaly=None,
)  # the rebalancer's defaults; one look counts no rounds
_TRIED = re.compile(r"on (\S+) (.*?); ")
_FROM_TO = re.compile(r" from [0-9.]+ to [0-9.]+$")
_NO_LIMITS = MoveLimits(per_node=None)
_OVER_ROUNDS = EvictionFilter(
    skip=frozenset({EvictionGate.MAX_MOVING, EvictionGate.MAX_UNAVAILABLE})
)  # these only spread moves in time


def consolidation(copy: ClusterCopy, history: ClusterHistory | None = None, risk: float = 0.01) -> Consolidation:
    """Nodes that could be emptied, under budgets, spread and whatever else keeps pods where they are."""
    thresholds = {CPU_NAME: UNDERUSED_PERCENT, MEMORY_NAME: UNDERUSED_PERCENT}
    most = min(MAX_EMPTIED, max(1, len(copy.engine.nodes()) - 1))
    kinds = MoveKinds(packing=Packing(thresholds, most=most))
    plan = _plan(copy, RebalancerSettings((), limits=_NO_LIMITS, filter=_OVER_ROUNDS, kinds=kinds))
    packed = next((kind for kind in plan.kinds if kind.trigger == PACKING), None)
    targets: dict[str, set[str]] = defaultdict(set)
    pods: Counter[str] = Counter()
    moves = [EmptyingMove(move.pod, move.about, move.target) for move in plan.moves if move.trigger == PACKING]
    basis, full = "by requests alone, as use over two days is not known", dict[str, tuple[str, str]]()
    if history is not None and is_judged(history):
        basis = f"by requests, and by what use will stay below on the next day but for {100 * risk:g} % of the time"
        full = overfull(copy, history, risk, moves)
    for move in moves:
        if move.node not in full:
            pods[move.node] += 1
            targets[move.node].add(move.target)
    later = {kept.node for kept in plan.kept if kept.trigger == PACKING and kept.node in pods}
    emptied = tuple(EmptiedNode(node, pods[node], len(targets[node])) for node in pods)
    nodes = [node for node in map(copy.engine.node, pods) if node is not None]
    kept = [kept for kept in plan.kept if kept.trigger == PACKING and kept.node not in {*pods, *full}]
    kept += [KeptPod(pod, node, why, PACKING) for node, (why, pod) in full.items()]
    empty = tuple(sorted(node.name for node in copy.engine.nodes() if _is_empty(copy, node.name)))
    considered = max(0, packed.considered - len(empty)) if packed is not None else 0
    notes = [*(packed.notes if packed is not None else ())]
    if later:
        notes.append(f"{len(later)} of them in several rounds, as budgets allow")
    taking = considered - len(emptied) - len({pod.node for pod in kept})
    if emptied and taking > 0 and len(emptied) < most:
        notes.append(f"{taking:,} others took pods in")
    if packed is not None and packed.solved >= most:
        notes.append(f"stopped after {most} nodes")
    return Consolidation(
        empty,
        considered,
        emptied,
        _refused(kept),
        sum(node.allocatable.get(CPU_NAME) for node in nodes),
        sum(node.allocatable.get(MEMORY_NAME) for node in nodes) // MIB,
        "; ".join(notes),
        basis,
    )


def _is_empty(copy: ClusterCopy, node: str) -> bool:
    """Whether nothing on it would have to move: no pods but those of DaemonSets and static ones."""
    pods = [info.seen for info in copy.engine.pods_on(node)]
    return all(seen.pod.is_daemon or copy.notes_of(seen.pod.key).is_static for seen in pods)


def _refused(kept: list[KeptPod]) -> tuple[RefusedNodes, ...]:
    by_reason: dict[str, list[KeptPod]] = defaultdict(list)
    for pod in kept:
        by_reason[_alike(pod.reason)].append(pod)
    found = [RefusedNodes(why, len({pod.node for pod in pods}), pods[0].pod) for why, pods in by_reason.items()]
    return tuple(sorted(found, key=lambda refused: (-refused.nodes, refused.why))[:SHOWN])


def _alike(reason: str) -> str:
    """A reason without what differs from pod to pod: nodes that were tried, and counts."""
    head, colon, rest = reason.partition(": ")
    if colon and "nodes are available" in rest:
        return f"{head}: {without_counts(rest)}"
    tried = _TRIED.findall(f"{reason}; ")
    if tried and "".join(f"on {node} {why}; " for node, why in tried) == f"{reason}; ":
        return "; ".join(sorted({f"where it was tried, {_FROM_TO.sub('', why)}" for _, why in tried}))
    return reason


def first_hour(copy: ClusterCopy) -> tuple[tuple[AdvisedMove, ...], str]:
    """The moves of a rebalancer's first round by load, and why there are none or what was left out."""
    if not copy.metrics:
        return (
            (),
            "the current load of nodes is not known, neither by NodeMetrics nor by a history: no move is proposed",
        )
    plan = _plan(copy, RebalancerSettings((_POOL,), expires_s=MAX_AGE_S))
    moves = tuple(AdvisedMove(move.pod, move.node, move.target, move.reason) for move in plan.moves)
    overloaded = sum(len(pool.overloaded) for pool in plan.pools)
    note = (
        f"{overloaded:,} of {plan.nodes:,} nodes are overloaded; {len(plan.unmeasured):,} have no current measurement"
    )
    return moves[:SHOWN], note


def _plan(copy: ClusterCopy, settings: RebalancerSettings) -> MovePlan:
    planner = Planner(copy.engine, replace(settings, not_applied=()), copy.notes_of)
    for uid, controller in copy.controllers.items():
        planner.workload_seen(uid, controller.replicas)
    for uid, replicas in copy.workloads.items():
        planner.workload_seen(uid, replicas)
    for metric in copy.metrics.values():
        planner.metric_seen(metric, copy.now_s)
    return planner.plan_beside(copy.now_s)
