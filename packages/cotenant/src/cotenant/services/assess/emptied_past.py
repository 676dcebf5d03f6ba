"""What the cluster's own past says of the plan that empties nodes: by the first half of the history, judged by the
second, beside rules that know as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from cotenant.model.assess.figure import AssessedFigure
from cotenant.model.assess.history import ClusterHistory
from cotenant.model.assess.report import EmptyingTrial, EmptyingTried
from cotenant.model.counted import counted
from cotenant.policy.assess.emptied_judging import MIN_DAYS as MIN_JUDGED_DAYS
from cotenant.policy.assess.emptied_judging import EmptyingOutcome
from cotenant.policy.assess.emptying import MAX_EMPTIED, try_emptying
from cotenant.policy.assess.predictor import DAY_S
from cotenant.policy.assess.recorded_pods import RecordedPods, RecordedUse
from cotenant.services.assess.columns import MIB
from cotenant.services.assess.copying import ClusterCopy

MIN_DAYS = 2  # of pods' use, for a first half of a day
_DEFINITION = (
    "of the second half of the history, the share of pods' time on a node whose use exceeds its CPU or its memory, had "
    "the nodes been emptied by what was known at its beginning"
)


def emptying_trial(copy: ClusterCopy, history: ClusterHistory, risk: float) -> EmptyingTrial | None:
    """Which nodes one would have emptied by the first half of the history, and whether the second still fitted."""
    pods, nodes = history.pods, history.nodes
    rows = [row for row, name in enumerate(nodes.names) if name in copy.managed]
    is_aligned = (pods.use.steps, pods.use.start_s) == (nodes.steps, nodes.start_s)
    if not pods.use.names or len(rows) < 2 or not is_aligned or nodes.steps * nodes.step_s < MIN_DAYS * DAY_S:
        return None
    kept = nodes.of_rows(np.array(rows, np.int64))
    at = {name: row for row, name in enumerate(kept.names)}
    capacity = [copy.managed[name].capacity for name in kept.names]
    cpu_m = np.array([size.cpu_m for size in capacity], np.float64)
    memory_mib = np.array([size.memory_bytes / MIB for size in capacity], np.float64)
    resources = [RecordedUse(kept.cpu_m, pods.use.cpu_m, pods.cpu_request_m.astype(np.float64), cpu_m)]
    if not np.isnan(kept.memory_mib).all():
        asked = pods.memory_request_mib.astype(np.float64)
        resources.append(RecordedUse(kept.memory_mib, pods.use.memory_mib, asked, memory_mib))
    recorded = RecordedPods(
        tuple(resources),
        np.array([at.get(name, -1) for name in pods.node], np.int64),
        np.array([_moves(copy, name) for name in pods.use.names], np.bool_),
        kept.step_s,
    )
    tried = try_emptying(recorded, risk=risk)
    rules = tuple(_told(one, kept.names) for one in tried)
    resource = "CPU and memory of nodes" if len(resources) > 1 else "CPU of nodes"
    return EmptyingTrial(resource, rules, verdict(tried, risk)) if rules else None


def _moves(copy: ClusterCopy, key: str) -> bool:
    """Daemons and static pods stay with their node; of a pod that is gone nothing is known, so it could move."""
    info = copy.engine.find(key)
    return info is None or not (info.seen.pod.is_daemon or copy.notes_of(key).is_static)


def _told(one: EmptyingOutcome, names: Sequence[str]) -> EmptyingTried:
    interval = interval_of(one)
    low, high = (one.low_pct, one.high_pct) if isfinite(one.low_pct) else (None, None)
    key = "".join(letter if letter.isalnum() else "_" for letter in one.rule.lower())
    title = f"Pod time squeezed, nodes emptied by {one.rule}"
    squeezed = AssessedFigure(f"squeezed_{key}", title, one.squeezed_pct, "%", _DEFINITION, interval, low, high)
    return EmptyingTried(
        one.rule,
        tuple(names[row] for row in one.nodes),
        one.moved,
        squeezed,
        one.before_pct,
        one.overflowed,
        one.peak_pct if isfinite(one.peak_pct) else None,
        one.late,
        one.unplaced,
    )


def interval_of(one: EmptyingOutcome) -> str:
    """What the interval is, or why there is none."""
    days = counted(one.days, "whole day")
    if isfinite(one.low_pct):
        return f"95 % by the spread of the {days} of the second half, by Student's law"
    if one.days < MIN_JUDGED_DAYS:
        return f"none: the second half has {days}, and a spread needs {MIN_JUDGED_DAYS}"
    return f"none: nothing was squeezed on any of the {days} of the second half, so there is no spread to go by"


def verdict(tried: Sequence[EmptyingOutcome], risk: float) -> str:
    """What the plan would have done, whether it kept the stated risk, and whether another rule was better."""
    ours, rivals = tried[0], tried[1:]
    best = max(rivals, key=lambda one: _rank(one, risk), default=None)
    is_beaten = best is not None and _rank(best, risk) > _rank(ours, risk)
    if not ours.nodes:
        said = "By the first half of the history the plan would have emptied no node"
    else:
        most = ", which is the most that is tried" if len(ours.nodes) == MAX_EMPTIED else ""
        nodes, pods = counted(len(ours.nodes), "node"), counted(ours.moved, "pod")
        said = f"By the first half of the history the plan would have emptied {nodes}{most}, and moved {pods}"
        said = f"{said}. {_came(ours, risk)}"
    if best is None:
        return f"{said}. There is no other rule to compare with."
    if is_beaten:
        nodes, pods = counted(len(best.nodes), "node"), counted(best.unplaced, "pod")
        what = f"{nodes} emptied, {best.squeezed_pct:.2g} % squeezed, {pods} without a place"
        return f"{said}. The rule {best.rule} was better: {what}."
    return f"{said}. No other rule emptied more nodes at that risk."


def _came(one: EmptyingOutcome, risk: float) -> str:
    between = f" ({one.low_pct:.2g} to {one.high_pct:.2g}, 95 %)" if isfinite(one.low_pct) else ""
    late = "No pod came later"
    if one.late:
        found = f"{one.unplaced:,}" if one.unplaced else "none"
        late = f"Of {counted(one.late, 'pod')} that came later {found} would have found no place"
    if isfinite(one.peak_pct):
        late += f"; the fullest node that took pods in reached {one.peak_pct:.0f} % of its capacity"
    return (
        f"In the second half {one.squeezed_pct:.2g} % of pods' time{between} would have been on a node with more use "
        f"than it has, and {one.before_pct:.2g} % without any move. {late}. The stated risk of {100 * risk:g} % was "
        f"{'kept' if one.keeps(risk) else 'not kept'}"
    )


def _rank(one: EmptyingOutcome, risk: float) -> tuple[bool, float, float]:
    """Rules that kept the risk before those that did not; then more nodes, then less squeezed."""
    added = one.squeezed_pct - one.before_pct
    if one.keeps(risk):
        return True, float(len(one.nodes)), -added
    return False, -added, -float(one.unplaced)
