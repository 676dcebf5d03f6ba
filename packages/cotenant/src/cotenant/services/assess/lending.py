"""What could be lent, by our rule and by Koordinator's, of the same nodes at the same moment.

Koordinator's amounts are its formulas with its defaults, as our manager computes them. Ours keep a stated risk, by the
best basis that the copy has: a history of days gives what production pods stay below for the next day; reported
histories of pods give each pod's use at that risk; without either nothing is said, since an amount without a risk would
be a guess.
What a history gives has a range, by how far the same rule was off on the history's earlier days; where that range says
too little of the amount, the amount is not stated, and nothing that follows from it either.
Limits: summed over nodes; a node's own interval is not given. The risk is of a node's production use exceeding what was
kept for it, as a share of time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotenant.engine.manager.active_pods import active_pod
from cotenant.model.arrays import Int
from cotenant.model.assess.figure import AssessedFigure, unknown
from cotenant.model.assess.history import ClusterHistory
from cotenant.model.assess.report import Lendable
from cotenant.model.machine.node_metric import NO_USE, NodeMetric, Use
from cotenant.policy.assess.back_test import origins_of, outcome, past_of
from cotenant.policy.assess.lent_range import COVERAGE_PERCENT, MIN_TRIED_DAYS, LentRange, lent_range
from cotenant.policy.assess.predictor import DAY_S
from cotenant.policy.assess.size_blend import SizeBlend
from cotenant.policy.overcommit.batch import LOW, BatchRules, batch_amounts
from cotenant.policy.overcommit.facts import Amount, NodeFacts, larger
from cotenant.policy.overcommit.mid import MidRules, mid_amounts
from cotenant.policy.overcommit.predicted_use import (
    UNMEASURED,
    PodUseHistory,
    PredictedUseSettings,
    continued,
    predicted_use,
)
from cotenant.services.assess.columns import MAX_AGE_S, MIB, RunningColumns
from cotenant.services.assess.copying import ClusterCopy
from cotenant.services.assess.words import amount

MIN_DAYS = 2  # of a history, for a course of the day
_TRIED_EVERY_S = 43_200.0
_RULE = SizeBlend()  # one amount for all of 24 h: the highest of a course would be too much to keep
_NAMES = ("batch cores", "batch memory", "mid cores", "mid memory")
_UNITS = ("cores", "GiB") * 2
_SCALE = (1e-3, 1.0 / (1 << 30)) * 2


@dataclass(frozen=True, slots=True)
class _Said:
    """What our rule says, and how far each resource may be off where that was tried."""

    by_node: Mapping[str, Use]
    basis: str = ""
    why: str = ""  # there is none
    ranges: tuple[LentRange | None, LentRange | None] = (None, None)
    untried: str = ""  # why there is no range


@dataclass(frozen=True, slots=True)
class LendingAssessment:
    """The report's part, and what is lendable of each node by our rule; empty where that is not known."""

    amounts: tuple[Lendable, ...]
    by_node: Mapping[str, Use]


def lending(copy: ClusterCopy, pods: RunningColumns, history: ClusterHistory, risk: float) -> LendingAssessment:
    """Both rules over every node whose capacity is known."""
    facts = _facts(copy, pods)
    theirs = _koordinator(facts)
    said = _ours(copy, facts, history, risk)
    held = Use(
        sum(amount.cpu_m for amount in said.by_node.values()),
        sum(amount.memory_bytes for amount in said.by_node.values()),
    )
    low = _low_now(copy, facts, history, tuple(said.by_node))
    found = []
    for at, (name, unit, scale) in enumerate(zip(_NAMES, _UNITS, _SCALE, strict=True)):
        key = f"lend_{name.replace(' ', '_')}"
        definition = _DEFINITIONS[at // 2].format(risk=risk * 100)
        if at >= 2:
            ours = unknown(
                key, name, unit, definition, "mid is Koordinator's class: our rule lends one amount, to batch"
            )
        elif said.by_node:
            definition = f"{definition}; {said.basis}"
            if low is not None:
                definition += f"; batch and free pods use {amount(low[at] * scale)} {unit} of it now"
            ours = _stated(unknown(key, name, unit, definition, said.why or "?"), said, at, float(held[at]), scale)
        else:
            ours = unknown(key, name, unit, definition, said.why)
        in_use = low[at] * scale if low is not None and at < 2 else None
        found.append(Lendable(name, unit, ours, _theirs(theirs, at, name, unit, scale), in_use))
    is_stated = all(one.ours.value is not None for one in found[:2])
    return LendingAssessment(tuple(found), said.by_node if is_stated else {})


def _stated(of: AssessedFigure, said: _Said, at: int, held: float, scale: float) -> AssessedFigure:
    """The amount with its range, or why this history does not carry it."""
    tried = said.ranges[at]
    if tried is None:
        return replace(of, value=held * scale, why="", interval=said.untried or _NO_INTERVAL)
    low, high = tried.low * scale, tried.high * scale
    if not tried.is_carried(held):
        told = f"{amount(held * scale)} {of.unit} by the rule, and {amount(low)} to {amount(high)} by its misses"
        why = f"cannot be said from this history, because on its {tried.days:.1f} tried days the rule was too far off"
        return replace(of, why=f"{why}: {told}")
    interval = (
        f"{COVERAGE_PERCENT} % of what would keep the risk exactly on the next day, by how far the same rule was off "
        f"on {tried.days:.1f} earlier days"
    )
    return replace(of, value=held * scale, why="", interval=interval, low=low, high=high)


_DEFINITIONS = (
    "capacity less what system and production pods stay below but for {risk:g} % of the time, summed over nodes",
    "what production pods request and will not use, summed over nodes",
)
_NO_INTERVAL = "the risk is its interval: use may exceed what is kept for it in that share of the time"


def _facts(copy: ClusterCopy, pods: RunningColumns) -> dict[str, NodeFacts]:
    """What both rules read of each node."""
    on: dict[str, list[int]] = {}
    for at, info in enumerate(pods.entries):
        on.setdefault(info.node or info.seen.node, []).append(at)
    found = {}
    for name, node in copy.managed.items():
        metric = _fresh(copy.metrics.get(name))
        found[name] = NodeFacts(
            capacity=node.capacity,
            allocatable=node.allocatable,
            pods=tuple(active_pod(pods.entries[at].seen) for at in on.get(name, ())),
            annotated_reservation=node.reservation,
            usage=metric.use if metric is not None else None,
            system=(metric.system if metric is not None else None) or NO_USE,
            measured=(metric.pods if metric is not None else None) or {},
            host_applications=metric.applications if metric is not None else (),
            prod_reclaimable=metric.prod_reclaimable if metric is not None else None,
        )
    return found


def _fresh(metric: NodeMetric | None) -> NodeMetric | None:
    return metric if metric is not None and metric.age_s <= MAX_AGE_S else None


def _koordinator(facts: Mapping[str, NodeFacts]) -> tuple[Sequence[Amount], ...]:
    """Its four amounts, by node, of the nodes that are measured."""
    rules, mid = BatchRules(), MidRules()
    amounts = [
        (*batch_amounts(node, rules), *mid_amounts(node, mid)) for node in facts.values() if node.usage is not None
    ]
    return tuple(zip(*amounts, strict=True)) if amounts else ((), (), (), ())


def _theirs(amounts: tuple[Sequence[Amount], ...], at: int, name: str, unit: str, scale: float) -> AssessedFigure:
    key = f"koordinator_{name.replace(' ', '_')}"
    definition = (
        "Koordinator's formula with its defaults (60 % of CPU, 65 % of memory, policy usage), summed over nodes"
    )
    if not amounts[at]:
        return unknown(
            key,
            name,
            unit,
            definition,
            "its formula needs current use of nodes, which neither NodeMetrics nor a history have",
        )
    value = sum(amount.value for amount in amounts[at]) * scale
    return AssessedFigure(key, name, value, unit, definition, f"none: by one measurement of {len(amounts[at]):,} nodes")


def _ours(copy: ClusterCopy, facts: Mapping[str, NodeFacts], history: ClusterHistory, risk: float) -> _Said:
    days = history.nodes.steps * history.nodes.step_s / DAY_S
    if days >= MIN_DAYS:
        found = _by_history(copy, facts, history, risk)
        if found is not None:
            return found
    by_node = _by_reports(facts, risk)
    if by_node:
        return _Said(by_node, "by what agents report of each pod's use, until the next report")
    why = f"a risk needs use over time: {MIN_DAYS} days of history, or agents that report pods' histories"
    return _Said({}, why=why)


def _by_history(
    copy: ClusterCopy, facts: Mapping[str, NodeFacts], history: ClusterHistory, risk: float
) -> _Said | None:
    """Capacity less one amount that use stays below in the next 24 h."""
    nodes = history.nodes
    rows = [row for row, name in enumerate(nodes.names) if name in facts]
    if not rows:
        return None
    kept = nodes.of_rows(np.array(rows, np.int64))
    capacity = [facts[name].capacity for name in kept.names]
    lent = _low_use(copy, history, kept.names)
    amounts: list[Int] = []
    ranges: list[LentRange | None] = []
    for resource, scale in (("cpu", 1.0), ("memory", float(MIB))):
        size = np.array([use.cpu_m if resource == "cpu" else use.memory_bytes / MIB for use in capacity], np.float64)
        past = past_of(kept, resource, np.full(len(rows), np.nan), size)
        past = past._replace(use=np.maximum(0.0, past.use - lent[resource]).astype(np.float32))
        horizon, now = past.steps_a_day, past.use.shape[1]
        origins = (*origins_of(past, horizon, _TRIED_EVERY_S), now)
        *tried, (_, below) = zip(origins, _RULE.below_each(past, origins, horizon, risk), strict=True)
        known = np.isfinite(below).any(axis=1)
        highest = np.where(known, np.nanmax(np.where(np.isfinite(below), below, -np.inf), axis=1), np.inf)
        beside = np.array([_reserved(facts[name], resource) for name in kept.names]) / scale
        free = np.where(known, size - np.maximum(highest, beside), 0.0)
        amounts.append((np.maximum(0.0, free) * scale).astype(np.int64))
        outcomes = [outcome(past, said, origin, kept.start_s, risk) for origin, said in tried]
        found = lent_range(outcomes, float(np.maximum(0.0, free).sum()), float(size[known].sum()))
        ranges.append(found and LentRange(found.low * scale, found.high * scale, found.days))
    days = nodes.steps * nodes.step_s / DAY_S
    by_node = {
        name: Use(cpu_m, memory_bytes)
        for name, cpu_m, memory_bytes in zip(kept.names, amounts[0].tolist(), amounts[1].tolist(), strict=True)
    }
    basis = f"held for 24 h, by {days:.1f} days of history"
    untried = f"none: {days:.1f} days of history are too few to try the rule on {MIN_TRIED_DAYS:g} earlier days"
    return _Said(by_node, basis, ranges=(ranges[0], ranges[1]), untried=untried)


def _reserved(node: NodeFacts, resource: str) -> int:
    return node.reserved.cpu_m if resource == "cpu" else node.reserved.memory_bytes


def _low_use(copy: ClusterCopy, history: ClusterHistory, names: Sequence[str]) -> dict[str, np.ndarray]:
    """What batch pods used on each of these nodes: it is lent already and is not production's."""
    pods = history.pods
    low = np.array([_is_low(copy, key) for key in pods.use.names], np.bool_)
    shape = (len(names), history.nodes.steps)
    if not low.any() or pods.use.steps != history.nodes.steps:
        return {"cpu": np.zeros(shape, np.float32), "memory": np.zeros(shape, np.float32)}
    used = pods.by_node(low)
    at = used.rows(names)
    found = {}
    for resource, values in (("cpu", used.cpu_m), ("memory", used.memory_mib)):
        rows = np.zeros(shape, np.float32)
        rows[at >= 0] = np.nan_to_num(values[at[at >= 0]])
        found[resource] = rows
    return found


def _low_now(
    copy: ClusterCopy, facts: Mapping[str, NodeFacts], history: ClusterHistory, names: Sequence[str]
) -> Use | None:
    """What batch and free pods of these nodes used last, by the agents' reports or else by the history."""
    if any(facts[name].measured for name in names):
        uses = [
            facts[name].measured[pod.key].use
            for name in names
            for pod in facts[name].pods
            if pod.priority_class in LOW and pod.key in facts[name].measured
        ]
        return Use(sum(use.cpu_m for use in uses), sum(use.memory_bytes for use in uses))
    if not names or history.pods.use.steps != history.nodes.steps or not history.nodes.steps:
        return None
    used = _low_use(copy, history, names)
    return Use(round(float(used["cpu"][:, -1].sum())), round(float(used["memory"][:, -1].sum()) * MIB))


def _is_low(copy: ClusterCopy, key: str) -> bool:
    info = copy.engine.find(key)
    return info is not None and active_pod(info.seen).priority_class in LOW


def _by_reports(facts: Mapping[str, NodeFacts], risk: float) -> dict[str, Use]:
    """Capacity less each production pod's predicted use, of nodes whose agents report histories of pods."""
    settings = PredictedUseSettings(risk=risk)
    found = {}
    for name, node in facts.items():
        if not any(pod.history is not None for pod in node.measured.values()):
            continue
        kept = larger(node.system, node.reserved)
        for pod in node.pods:
            if pod.priority_class in LOW:
                continue
            measured = node.measured.get(pod.key)
            history: PodUseHistory = UNMEASURED
            if measured is not None and measured.history is not None:
                history = continued(measured.history, measured.use, 0.0)
            kept = kept.plus(predicted_use(pod.request, history, True, settings))
        found[name] = node.capacity.beyond(kept)
    return found
