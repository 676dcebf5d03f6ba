"""Facts behind rejections that their reasons do not name: which reservation holds the room, which affinity rule and
pod, which resource no node has.

"Insufficient cpu" hides that a reservation holds the CPU, and "didn't match pod anti-affinity rules" names neither the
rule nor a pod. A few sentences, each read from the state at the moment of the question.
Limits: a few nodes and pods are named, not all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from cotenant.engine.cycle.rejections import FIT, FilterCheck
from cotenant.engine.explain.what_if import WhatIfView
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.state.assignments import Assignments
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import HOSTNAME, NO_LABELS, Labels, LabelSelector, SelectorOperator
from cotenant.model.cluster.observed import NamespaceFacts
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import LENT_CPU, LENT_MEMORY, PODS_NAME, format_amount
from cotenant.policy.placement.topology import pod_affinity as affinity_pods
from cotenant.policy.placement.topology import pod_antiaffinity as antiaffinity_pods

_MAX_NOTES = 3  # of each kind
_MAX_NODES = 64  # looked at for an example
_DEVICES = "DeviceShare"


def notes(view: WhatIfView, assignments: Assignments, namespaces: Iterable[NamespaceFacts]) -> tuple[str, ...]:
    """What the rejections of this pod do not say."""
    labels = {facts.name: facts.labels for facts in namespaces}
    return (*_absent(view), *_reserved(view, assignments), *_affinity(view, assignments, labels), *_pinned(view))


def _absent(view: WhatIfView) -> Iterator[str]:
    """Resources that no node has."""
    for check in view.checked.checks:
        if check.plugin == FIT and check.missing is not None and check.resource != PODS_NAME:
            column = view.encoder.axis.column(check.resource)
            if not (view.encoder.nodes().capacity[view.checked.here, column] > 0).any():
                is_lent = check.resource in (*LENT_CPU, *LENT_MEMORY)
                why = ": lending is off, or nodes have none to lend (`cotenant explain node NAME`)" if is_lent else ""
                yield f"no node has {check.resource}{why}"


def _pinned(view: WhatIfView) -> Iterator[str]:
    if view.pod.pinned is not None:
        is_there = view.pod.pinned in view.encoder.node_rows
        yield f"its node affinity is for the node {view.pod.pinned} only" + (
            "" if is_there else ", which does not exist"
        )


# ---- reservations


def _reserved(view: WhatIfView, assignments: Assignments) -> Iterator[str]:
    """Nodes that would have room but for a reservation: the sums that are lacking are held by it."""
    short = [check for check in view.checked.checks if check.plugin == FIT and check.missing is not None]
    if not short:
        return
    others = np.zeros(len(view.checked.here), dtype=np.bool_)
    failing = np.zeros(len(view.checked.here), dtype=np.bool_)
    for check in view.checked.checks:
        if check.plugin == FIT and check.missing is not None:
            failing |= check.fails
        elif check.plugin != _DEVICES:
            others |= check.fails
        else:
            failing |= check.fails
    found = 0
    for row in np.flatnonzero(view.checked.here & failing & ~others).tolist():
        name = assignments.names[row]
        for entry in assignments.residents.get(name, {}).values():
            words = _held(entry, row, short, view) if entry.seen.reservation else ""
            if words:
                yield f"{name}: {words} is held by reservation {entry.seen.reservation}"
                found += 1
                if found == _MAX_NOTES:
                    return


def _held(entry: PodInfo, row: int, short: list[FilterCheck], view: WhatIfView) -> str:
    """What a reservation holds of the resources that a row lacks."""
    held = entry.seen.pod.requests
    if view.ledger.row[entry.number] < 0:
        return ""  # the pod may draw from it: it is not in its way
    lacking = [check.resource for check in short if check.fails[row] and held.get(check.resource)]
    devices = [element for element in view.checked.checks if element.plugin == _DEVICES and element.fails[row]]
    if devices:
        lacking += [name for name, _ in view.pod.requests if held.get(name) and name not in lacking and "/" in name]
    return ", ".join(f"{format_amount(name, held.get(name))} {name}" for name in dict.fromkeys(lacking))


# ---- affinity between pods


def _affinity(view: WhatIfView, assignments: Assignments, labels: dict[str, Labels]) -> Iterator[str]:
    """An example of each kind of rejection by affinity between pods."""
    seen: set[str] = set()
    for check in view.checked.checks:
        rows = np.flatnonzero(view.checked.here & check.fails)[:_MAX_NODES].tolist()
        if rows and check.reason not in seen:
            seen.add(check.reason)
            yield from _example(check.reason, rows, view, assignments, labels)


def affinity_note(
    check: FilterCheck, row: int, view: WhatIfView, assignments: Assignments, namespaces: Iterable[NamespaceFacts]
) -> str:
    """The rule between pods, and a pod, by which a check rejects one row; empty for a check of another kind."""
    labels = {facts.name: facts.labels for facts in namespaces}
    return "; ".join(_example(check.reason, [row], view, assignments, labels))


def _example(
    reason: str, rows: list[int], view: WhatIfView, assignments: Assignments, labels: dict[str, Labels]
) -> Iterator[str]:
    """The rule, a pod, and a node."""
    if reason == antiaffinity_pods.REASON:
        yield from _against(view.pod, rows, view, assignments, labels)
    elif reason == antiaffinity_pods.REASON_RESIDENTS:
        yield from _refused_by(view.pod, rows, view, assignments, labels)
    elif reason == affinity_pods.REASON:
        yield from _missing(view.pod, assignments, labels)


def _against(
    pod: Pod, rows: list[int], view: WhatIfView, assignments: Assignments, labels: dict[str, Labels]
) -> Iterator[str]:
    for row in rows:
        for term in _required(pod.anti_affinity):
            other = next(_selected(pod, term, _domain(term.topology_key, row, view, assignments), view, labels), None)
            if other is not None:
                yield (
                    f"its anti-affinity {_words(term)} excludes {assignments.names[row]}: {other.seen.pod.key} is "
                    f"on {other.node}"
                )
                return


def _refused_by(
    pod: Pod, rows: list[int], view: WhatIfView, assignments: Assignments, labels: dict[str, Labels]
) -> Iterator[str]:
    keys = {
        term.topology_key
        for here in assignments.residents.values()
        for other in here.values()
        for term in other.seen.pod.anti_affinity
        if term.weight is None
    }
    for row in rows:
        for key in sorted(keys):
            for other in _domain(key, row, view, assignments):
                if other.number == view.number:
                    continue
                for term in _required(other.seen.pod.anti_affinity):
                    own = other.seen.pod
                    about = term.topology_key == key and term.selects(
                        own.namespace, pod.namespace, pod.labels, labels.get(pod.namespace, NO_LABELS)
                    )
                    if about:
                        yield (
                            f"the anti-affinity {_words(term)} of {own.key}, on {other.node}, excludes this pod "
                            f"from {assignments.names[row]}"
                        )
                        return


def _missing(pod: Pod, assignments: Assignments, labels: dict[str, Labels]) -> Iterator[str]:
    for term in _required(pod.affinity)[:_MAX_NOTES]:
        everywhere = (entry for here in assignments.residents.values() for entry in here.values())
        other = next(
            (entry for entry in everywhere if _selects(pod, term, entry.seen.pod, labels) and entry.node), None
        )
        where = f"{other.seen.pod.key} is on {other.node}" if other is not None else "no pod on a node matches"
        yield f"its affinity {_words(term)}: {where}"


def _required(terms: tuple[PodTerm, ...]) -> list[PodTerm]:
    return [term for term in terms if term.weight is None]


def _domain(key: str, row: int, view: WhatIfView, assignments: Assignments) -> Iterator[PodInfo]:
    """The pods in the topology domain of a row."""
    value = view.encoder.node(row).labels.get(key)
    if value is None:
        return
    if key == HOSTNAME:
        yield from assignments.residents.get(assignments.names[row], {}).values()
        return
    for name, other in view.encoder.node_rows.items():
        if view.encoder.node(other).labels.get(key) == value:
            yield from assignments.residents.get(name, {}).values()


def _selected(
    pod: Pod, term: PodTerm, among: Iterable[PodInfo], view: WhatIfView, labels: dict[str, Labels]
) -> Iterator[PodInfo]:
    return (
        pod_info
        for pod_info in among
        if pod_info.number != view.number and _selects(pod, term, pod_info.seen.pod, labels)
    )


def _selects(pod: Pod, term: PodTerm, other: Pod, labels: dict[str, Labels]) -> bool:
    return term.selects(pod.namespace, other.namespace, other.labels, labels.get(other.namespace, NO_LABELS))


def _words(term: PodTerm) -> str:
    return f"({_selector(term.selector)} per {term.topology_key})"


def _selector(selector: LabelSelector | None) -> str:
    if selector is None:
        return "no pod"
    parts = []
    for requirement in selector.requirements:
        values = ", ".join(requirement.values)
        match requirement.operator:
            case SelectorOperator.IN if len(requirement.values) == 1:
                parts.append(f"{requirement.key}={values}")
            case SelectorOperator.EXISTS:
                parts.append(requirement.key)
            case SelectorOperator.DOES_NOT_EXIST:
                parts.append(f"no {requirement.key}")
            case _:
                parts.append(
                    f"{requirement.key} {'in' if requirement.operator is SelectorOperator.IN else 'not in'} ({values})"
                )
    return " and ".join(parts) or "every pod"
