"""A view of a cluster's arrays for a what-if question: one pod more, possibly with other requests or another node
selector, and without the original pod.

"what if it requested less" must be evaluated by the same filters on the current state, without changing a bit of that
state. Copies of the columns that an assignment changes (a few megabytes at ten thousand nodes), read by the same code
as the originals: an encoder with one more shape, a ledger without the pod and without resources reserved for pods of
lower priority. The counts behind rules between pods are not copied: an assigned pod is removed from them and added
back, with all its allocations.
Limits: only requests, priority and node selector can differ; a pod's labels, rules and claims stay the same. For
devices and CPUs of reservations, the view tests whether they would suffice, not whether they would be required.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from cotenant.engine.cycle.rejections import FilterChecks, Rejector
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.reservations.plugin import Reservations
from cotenant.engine.state.assignments import Assignments
from cotenant.engine.state.ledger import Ledger
from cotenant.engine.state.narrowing import EVERYWHERE, Narrowing
from cotenant.model.arrays import Mask
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.pod import Pod
from cotenant.model.decisions.answers import WhatIf
from cotenant.policy.placement.profiles import PlacementProfile


@dataclass(frozen=True, slots=True)
class WhatIfView:
    """What a question may read: copies, except for the narrowing, which is queried for `number`."""

    pod: Pod  # as in the question
    number: int  # the pod's own, for the narrowing
    stand_in: int  # number in `encoder` of the pod as in the question
    shape: int
    encoder: Encoder
    ledger: Ledger
    narrowing: Narrowing
    allowed: Mask  # rows that satisfy the rules, also with nominated pods assigned
    checked: FilterChecks

    @property
    def passing(self) -> Mask:
        """`bool[N]`: feasible rows."""
        left = self.checked.here & (self.checked.misses == 0)
        return left if len(self.allowed) == 0 else left & self.allowed


@contextmanager
def viewed(
    assignments: Assignments, entry: PodInfo, what_if: WhatIf, profile: PlacementProfile, reservations: Reservations
) -> Iterator[WhatIfView]:
    """The view for a question about this pod. Pending changes are written to the arrays first; on exit they are as
    before.
    """
    assignments.write()
    pod = apply(entry.seen.pod, what_if)
    encoder, stand_in = assignments.encoder.with_extra_pod(entry.number, pod.shape(entry.violation_surcharge))
    ledger = assignments.ledger.copy(encoder.nodes(), encoder.shapes())
    nominated = _exclude(assignments, entry, pod.priority, ledger)
    drawn = _exclude_reservations(entry, pod, ledger, encoder, reservations)
    narrowing = assignments.narrowing
    with ExitStack() as stack:
        for number in (entry.number, *(element for element in drawn if narrowing.node_rules_of(element))):
            stack.enter_context(narrowing.without(number))
        stack.enter_context(narrowing.simulating(entry.number, pod, entry.seen.demands))
        allowed = narrowing.allowed_with(entry.number, nominated) if nominated else EVERYWHERE
        checked = Rejector(encoder, narrowing, profile).check(encoder.shape_of(stand_in), entry.number)
        yield WhatIfView(
            pod, entry.number, stand_in, encoder.shape_of(stand_in), encoder, ledger, narrowing, allowed, checked
        )


def apply(pod: Pod, what_if: WhatIf) -> Pod:
    """The pod with the requests, priority and node selector of the question."""
    selector = dict(pod.node_selector)
    for key, value in what_if.selector:
        selector.pop(key, None)
        if value is not None:
            selector[key] = value
    return replace(
        pod,
        requests=pod.requests.replaced(what_if.requests),
        priority=pod.priority if what_if.priority is None else what_if.priority,
        node_selector=Labels.of(selector) if what_if.selector else pod.node_selector,
    )


def _exclude_reservations(
    entry: PodInfo, pod: Pod, ledger: Ledger, encoder: Encoder, reservations: Reservations
) -> list[int]:
    """Remove the stand-ins of reservations that the pod may use from the copied ledger; returns their numbers."""
    changed = copy(entry)
    changed.seen = replace(entry.seen, pod=pod)
    numbers = [
        number for number in reservations.would_hide(changed, ledger.nodes, encoder.axis) if ledger.row[number] >= 0
    ]
    if numbers:
        ledger.remove(np.array(sorted(numbers), dtype=np.int64))
    return numbers


def _exclude(assignments: Assignments, entry: PodInfo, priority: int, ledger: Ledger) -> tuple[tuple[int, int], ...]:
    """Remove pods that scheduling would ignore for this pod from the copied ledger. Returns the nominated pods that
    count: number, row.
    """
    ignored = {entry.number} if entry.row >= 0 else set()  # assigned, or nominated
    counting = []
    for other in assignments.reserved.values():
        if other is entry:
            continue
        if other.seen.pod.priority < priority:
            ignored.add(other.number)
        else:
            counting.append((other.number, other.row))
    if ignored:
        ledger.remove(np.array(sorted(ignored), dtype=np.int64))
    return tuple(counting)
