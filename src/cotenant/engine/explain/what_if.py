"""A cluster's arrays as they would be for a question: one pod more, with other requests perhaps, and without itself.

Problem: "what if it asked for less" must be judged by the same filters on the state as it is, and must leave that state alone to the bit. Choice:
copies of the columns that a seat changes (a few megabytes at ten thousand nodes), read by the same code as the truth: an encoder with
one more shape, a ledger without the pod and without the room kept for less important ones. The counts behind rules between pods are not
copied: a seated pod is taken out of them and put back, with everything that was chosen for it. Limits: what is supposed is requests and priority; a pod's labels,
rules and claims stay its own. Of the devices and CPUs of reservations it is asked whether they would do, not whether they would have to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from cotenant.engine.cycle.rejections import Checked, Rejector
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.reservations.plugin import Reservations
from cotenant.engine.state.assignments import Assignments
from cotenant.engine.state.ledger import Ledger
from cotenant.engine.state.narrowing import EVERYWHERE, Narrowing
from cotenant.model.arrays import Mask
from cotenant.model.cluster.pod import Pod
from cotenant.model.decisions.answers import WhatIf
from cotenant.policy.placement.profiles import PlacementProfile


@dataclass(frozen=True, slots=True)
class View:
    """What a question may read: copies, apart from the narrowing, which answers for `number`."""

    pod: Pod  # as supposed
    number: int  # the pod's own, for the narrowing
    guest: int  # in `encoder`, of the pod as supposed
    shape: int
    encoder: Encoder
    ledger: Ledger
    narrowing: Narrowing
    allowed: Mask  # rows that rules leave to the pod, also beside those that are promised a node
    checked: Checked

    @property
    def passing(self) -> Mask:
        """`bool[N]`: rows that nothing refuses."""
        left = self.checked.here & (self.checked.misses == 0)
        return left if len(self.allowed) == 0 else left & self.allowed


@contextmanager
def viewed(
    assignments: Assignments, entry: PodInfo, supposed: WhatIf, profile: PlacementProfile, reservations: Reservations
) -> Iterator[View]:
    """The cluster for a question about this pod. The arrays are brought up to date first; afterwards they are as they were."""
    assignments.write()
    pod = apply(entry.seen.pod, supposed)
    encoder, guest = assignments.encoder.with_extra_pod(entry.number, pod.shape())
    ledger = assignments.ledger.copy(encoder.nodes(), encoder.shapes())
    waits_beside = _lifted(assignments, entry, pod.priority, ledger)
    drawn = _draw(entry, pod, ledger, encoder, reservations)
    narrowing = assignments.narrowing
    with ExitStack() as stack:
        for number in (entry.number, *(each for each in drawn if narrowing.node_rules_of(each))):
            stack.enter_context(narrowing.without(number))
        stack.enter_context(narrowing.simulating(entry.number, pod, entry.seen.demands))
        allowed = narrowing.allowed_with(entry.number, waits_beside) if waits_beside else EVERYWHERE
        checked = Rejector(encoder, narrowing, profile).check(encoder.shape_of(guest), entry.number)
        yield View(pod, entry.number, guest, encoder.shape_of(guest), encoder, ledger, narrowing, allowed, checked)


def apply(pod: Pod, supposed: WhatIf) -> Pod:
    """The pod as supposed."""
    return replace(
        pod,
        requests=pod.requests.replaced(supposed.requests),
        priority=pod.priority if supposed.priority is None else supposed.priority,
    )


def _draw(entry: PodInfo, pod: Pod, ledger: Ledger, encoder: Encoder, reservations: Reservations) -> list[int]:
    """Let the copied ledger not see what stands for reservations from which the pod may draw: their numbers."""
    as_supposed = copy(entry)
    as_supposed.seen = replace(entry.seen, pod=pod)
    numbers = [
        number for number in reservations.would_lift(as_supposed, ledger.nodes, encoder.axis) if ledger.row[number] >= 0
    ]
    if numbers:
        ledger.remove(np.array(sorted(numbers), dtype=np.int64))
    return numbers


def _lifted(assignments: Assignments, entry: PodInfo, priority: int, ledger: Ledger) -> tuple[tuple[int, int], ...]:
    """Take out of the copied ledger what this pod's judgement would not see; who is promised a node beside it: number, row."""
    away = {entry.number} if entry.row >= 0 else set()  # seated, or room is kept for it
    beside = []
    for other in assignments.reserved.values():
        if other is entry:
            continue
        if other.seen.pod.priority < priority:
            away.add(other.number)
        else:
            beside.append((other.number, other.row))
    if away:
        ledger.remove(np.array(sorted(away), dtype=np.int64))
    return tuple(beside)
