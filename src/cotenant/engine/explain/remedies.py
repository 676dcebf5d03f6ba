"""Changes that would let a pod be placed: lower requests, a label, a toleration, an uncordoned node, a higher priority. Each is computed, none is guessed.

Problem: "0 of 5,000 nodes" does not tell which of a dozen changes would help. Choice: the result of every filter on every node is available, so
nodes that only one filter rejects show which change is needed; what a higher priority would evict comes from the preemption search itself. Limits:
one kind of change at a time (all resources count as one); it is evaluated on the current state, and quotas and gangs may still hold the pod back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from cotenant.engine.cycle.rejections import FIT, Check
from cotenant.engine.explain.what_if import View
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.affinity import NodeSelectorTerm
from cotenant.model.cluster.labels import Operator, Requirement
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.decisions.answers import Help
from cotenant.model.decisions.reasons import NOT_READY
from cotenant.model.resources import PODS_NAME, format_amount

_MAX_COMPARED = 200  # nodes whose labels are compared
_NAMED = 3
_HIGHEST = 2**31  # priority of a pod; above it are stand-ins of reservations, which are never evicted


def helps(view: View, names: list[str]) -> tuple[Help, ...]:
    """What would help besides preemption, sorted by number of nodes. For a pod without a feasible node."""
    found = [*_lower_requests(view, names), *_single_filter(view, names)]
    found.sort(key=lambda each: -each.nodes)
    return tuple(found)


def _lower_requests(view: View, names: list[str]) -> Iterator[Help]:
    """The smallest reduction of requests that would help, on nodes that only NodeResourcesFit rejects."""
    short = [check for check in view.checked.checks if check.plugin == FIT and check.missing is not None]
    others = np.zeros(len(view.checked.here), dtype=np.bool_)
    for check in view.checked.checks:
        if check.plugin != FIT or check.missing is None:
            others |= check.fails
    near = view.checked.here & ~others & (view.checked.misses > 0)
    if len(view.allowed):
        near &= view.allowed
    rows = np.flatnonzero(near)
    if len(rows) == 0:
        return
    left = np.ones(len(rows))  # share of the pod's requests that fits, for the scarcest resource
    rooms: dict[str, Int] = {}
    for check in short:
        missing = np.maximum(0, check.missing[rows]) if check.missing is not None else np.zeros(len(rows), np.int64)
        asked = view.pod.requests.get(check.resource)
        if check.resource == PODS_NAME or asked == 0:
            left[missing > 0] = -1.0  # lower requests would not help
            continue
        rooms[check.resource] = asked - missing
        left = np.minimum(left, rooms[check.resource] / asked)
    best = int(np.argmax(left))
    if left[best] <= 0:
        return
    wanted = {name: int(room[best]) for name, room in rooms.items() if room[best] < view.pod.requests.get(name)}
    enough = left > 0
    for name, most in wanted.items():
        enough &= rooms[name] >= most
    for name, room in rooms.items():
        if name not in wanted:
            enough &= room >= view.pod.requests.get(name)
    text = " and ".join(
        f"{format_amount(name, most)} {name} instead of {format_amount(name, view.pod.requests.get(name))}"
        for name, most in wanted.items()
    )
    fitting = rows[enough]
    yield Help("request", f"ask for {text}: {_nodes(fitting, names)} then", len(fitting))


def _single_filter(view: View, names: list[str]) -> Iterator[Help]:
    """Nodes that only one filter rejects, by what that filter requires; resources are handled by `_lower_requests`."""
    near = view.checked.here & (view.checked.misses == 1)
    if len(view.allowed):
        near &= view.allowed
    for check in view.checked.checks:
        only = near & check.fails
        if (check.plugin == FIT and check.missing is not None) or not only.any():
            continue
        yield from _by_plugin(check, only, view, names)


def _by_plugin(check: Check, only: Mask, view: View, names: list[str]) -> Iterator[Help]:
    rows = np.flatnonzero(only)
    fit = _nodes(rows, names)
    if check.plugin == "NodeAffinity":
        yield from _labels(rows, view, names)
    elif check.plugin == "TaintToleration":
        taint = check.reason.partition(" taint ")[2] or check.reason
        yield Help("taint", f"tolerate the taint {taint}: {fit} then", len(rows))
    elif check.plugin == "NodeUnschedulable":
        yield Help("node", f"uncordon: {fit} then", len(rows))
    elif check.reason == NOT_READY:
        yield Help("node", f"wait for nodes to be ready: {fit} then", len(rows))
    else:
        yield Help("other", f"{fit} but for: {check.reason}", len(rows))


def _labels(rows: Int, view: View, names: list[str]) -> Iterator[Help]:
    """The labels missing most often, on nodes where only labels are missing."""
    if view.pod.pinned is not None:
        yield Help(
            "label", f"its affinity names the node {view.pod.pinned}; {_nodes(rows, names)} otherwise", len(rows)
        )
        return
    wanted: Counter[tuple[str, ...]] = Counter()
    for row in rows[:_MAX_COMPARED].tolist():
        wanted[missing_labels(view.pod, view.encoder.node(row))] += 1
    for labels, times in wanted.most_common(_NAMED):
        some = [
            row for row in rows[:_MAX_COMPARED].tolist() if missing_labels(view.pod, view.encoder.node(row)) == labels
        ]
        cut = " or more" if len(rows) > _MAX_COMPARED else ""
        yield Help("label", f"label {' and '.join(labels)}: {_nodes(np.array(some), names)}{cut} then", times)


def missing_labels(pod: Pod, node: Node) -> tuple[str, ...]:
    """The labels that a node lacks for the pod's selector and the required affinity term with the fewest misses; empty if none."""
    lacking = [f"{key}={value}" for key, value in pod.node_selector if node.labels.get(key) != value]
    affinity = pod.node_affinity
    if affinity is not None and affinity.required is not None and not affinity.required.matches(node.name, node.labels):
        per_term = [_unmet(term, node) for term in affinity.required.terms]
        fewest: list[str] = min(per_term, key=len) if per_term else ["a term in its node affinity"]
        lacking += fewest
    return tuple(lacking)


def _unmet(term: NodeSelectorTerm, node: Node) -> list[str]:
    unmet = [_text(each) for each in term.expressions if not each.matches(node.labels)]
    if not unmet:
        unmet = [_text(each) for each in term.fields]
    return unmet or ["what its node affinity asks"]


def _text(requirement: Requirement) -> str:
    values = ", ".join(requirement.values)
    match requirement.operator:
        case Operator.IN:
            return f"{requirement.key}={values}" if len(requirement.values) == 1 else f"{requirement.key} in ({values})"
        case Operator.NOT_IN:
            return f"{requirement.key} not in ({values})"
        case Operator.EXISTS:
            return f"{requirement.key} (any value)"
        case Operator.DOES_NOT_EXIST:
            return f"no {requirement.key}"
    return f"{requirement.key} {requirement.operator} {values}"


def _nodes(rows: Int, names: list[str]) -> str:
    """`node-1 fits`, `3 nodes fit (a, b, c)`."""
    if len(rows) == 1:
        return f"{names[int(rows[0])]} fits"
    some = ", ".join(names[int(row)] for row in rows[:_NAMED])
    return f"{len(rows)} nodes fit ({some}{', ...' if len(rows) > _NAMED else ''})"


def least_priority(above: int, priorities: Int, works: Callable[[int], bool]) -> int | None:
    """The lowest priority above `above` for which `works`, given the priorities of pods that could be evicted; None if there is none. `works` must be monotonic."""
    steps = np.unique(priorities[(priorities >= above) & (priorities < _HIGHEST)]) + 1
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        if works(int(steps[middle])):
            high = middle
        else:
            low = middle + 1
    return int(steps[low]) if low < len(steps) else None
