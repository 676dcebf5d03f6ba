"""Asks the engine on the copy: why pods wait, what more room would change, and where running pods would go today.

Every question is asked in a simulation, after which the engine is as before.
Limits: running pods are asked one at a time, all others staying where they are, so two of them may name the same room;
of many, evenly spaced ones are asked. A pod that waits is placed without evicting others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt

from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.model.arrays import Int
from cotenant.model.assess.figure import AssessedFigure, unknown
from cotenant.model.assess.report import AssessedPlacement, Elsewhere, PendingPods, WaitCause
from cotenant.model.decisions.answers import PodAnswer, WhatIf
from cotenant.model.decisions.record import CandidateNode
from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, CPU_NAME, LENT_CPU, LENT_MEMORY, MEMORY_NAME, Amounts
from cotenant.services.assess.copying import ClusterCopy
from cotenant.services.assess.driving import ask
from cotenant.services.assess.quotas import held_by_quotas

ASKED = 400  # running pods
SHOWN = 20
_NEAR = 1e-9  # scores that differ by less are equal
_Z95 = 1.96
_ROOM = ("Insufficient", "Too many pods")  # the words of NodeResourcesFit


def waiting(copy: ClusterCopy, lent: Mapping[str, Use]) -> tuple[PendingPods, ...]:
    """Pods that wait, by the reason that the engine gives, the most frequent first, and those that a ResourceQuota
    refuses. `lent`: lendable by node.
    """
    held = [
        held_by(info)
        for info in copy.engine.every_pod()
        if info.state in (SchedulingState.GATED, SchedulingState.BLOCKED)
    ]
    queued = {info.seen.uid for info in copy.engine.every_pod() if info.state is SchedulingState.QUEUED}
    refused = held_by_quotas(copy)
    if not queued and not held:
        return refused
    now, reasons = _placed(copy, {})
    with_lent = _placed(copy, _grown(copy, lent))[0] if lent else None
    pods: Counter[tuple[str, WaitCause]] = Counter(held)
    placed: Counter[tuple[str, WaitCause]] = Counter()
    by_lent: Counter[tuple[str, WaitCause]] = Counter()
    for uid in queued:
        why = "cotenant places them at once" if uid in now else reasons.get(uid, "not judged in the simulation")
        of = why, WaitCause.NOTHING if uid in now else _holder(why)
        pods[of] += 1
        placed[of] += uid in now
        by_lent[of] += with_lent is not None and uid in with_lent
    found = [
        PendingPods(of[0], count, placed[of], None if with_lent is None else by_lent[of], of[1])
        for of, count in pods.items()
    ]
    return tuple(sorted((*found, *refused), key=lambda one: (-one.pods, one.why)))


def held_by(info: PodInfo) -> tuple[str, WaitCause]:
    """Why a pod that cannot be judged waits, and what holds it."""
    if info.seen.gates:
        return f"scheduling gates: {', '.join(sorted(set(info.seen.gates)))}", WaitCause.GATE
    return "; ".join(info.seen.unsupported) or info.last_message or "what it asks for cannot be judged", WaitCause.POD


def _holder(why: str) -> WaitCause:
    """What a pod waits for, by the engine's words."""
    if "quota" in why.lower():
        return WaitCause.QUOTA
    return WaitCause.ROOM if any(word in why for word in _ROOM) else WaitCause.RULES


def _grown(copy: ClusterCopy, lent: Mapping[str, Use]) -> dict[str, Amounts]:
    """What lending adds to each node: lendable room that is neither free nor lent already, for pods that request CPU
    and memory, and batch resources up to the lendable amount for those that request these.
    """
    names, resources, capacity, requested = copy.engine.requested()
    columns = {name: at for at, name in enumerate(resources)}
    rows = {name: row for row, name in enumerate(names)}
    found = {}
    for name, use in lent.items():
        row = rows.get(name)
        if row is None:
            continue

        def of(what: Int, *kinds: str, row: int = row) -> int:
            return sum(int(what[row, columns[kind]]) for kind in kinds if kind in columns)

        more = {}
        for kind, batch, lendings, amount in (
            (CPU_NAME, BATCH_CPU, LENT_CPU, use.cpu_m),
            (MEMORY_NAME, BATCH_MEMORY, LENT_MEMORY, use.memory_bytes),
        ):
            free = max(0, of(capacity, kind) - of(requested, kind))
            more[kind] = max(0, amount - free - of(requested, *lendings))
            more[batch] = max(0, amount - of(capacity, batch))
        found[name] = Amounts.of(more)
    return found


def _placed(copy: ClusterCopy, more: Mapping[str, Amounts]) -> tuple[set[str], dict[str, str]]:
    """UIDs of waiting pods that the engine places with so much more on each node, and why it does not place others."""
    engine, now_s = copy.engine, copy.now_s
    with engine.tentative(now_s):
        for node in engine.nodes():
            added = more.get(node.name)
            if added is not None:
                engine.node_seen(replace(node, allocatable=node.allocatable + added))
        found = ask(engine, now_s)
    return set(found.placed), {uid: without_counts(message) for uid, message in found.refused.items()}


def without_counts(message: str) -> str:
    """The engine's words for why no node fits, without the counts, which differ from pod to pod."""
    head, colon, rest = message.partition(": ")
    if not colon or "nodes are available" not in head:
        return message
    causes = rest.partition(". preemption:")[0].rstrip(".").split(", ")
    return ", ".join(sorted({cause.lstrip("0123456789 ") for cause in causes}))


def placement(copy: ClusterCopy, running: Sequence[PodInfo]) -> AssessedPlacement:
    """Where running pods would be placed today."""
    known = [info for info in running if copy.engine.node(info.node) is not None]
    movable = [info for info in known if not info.seen.pod.is_daemon and not info.seen.terminating]
    step = max(1, -(-len(movable) // ASKED))
    asked = 0
    found: list[Elsewhere] = []
    for info in movable[::step]:
        answer = copy.engine.why.pod(info.seen.pod.key, copy.now_s, WhatIf(node=info.node))
        if answer is None or answer.asked_about is None or not answer.candidates:
            continue
        asked += 1
        better = _better(answer)
        if better is not None:
            found.append(better)
    found.sort(key=lambda one: (one.place > 0, -one.place / max(1, one.of), one.pod))
    rejected = sum(not one.place for one in found)
    return AssessedPlacement(
        asked, rejected, len(found) - rejected, tuple(found[:SHOWN]), _share(asked, len(found), len(movable))
    )


def _better(answer: PodAnswer) -> Elsewhere | None:
    """Where it would go, if its own node rejects it or is in the worse half of those that fit."""
    about = answer.asked_about
    assert about is not None
    best, own = answer.candidates[0], about.candidate
    if own is None:
        why = "; ".join(refusal.reason for refusal in about.refusals) or "its node is full"
        return Elsewhere(answer.pod, about.node, best.node, 0, about.of, why)
    if 2 * about.place <= about.of or best.score - own.score <= _NEAR * max(1.0, abs(best.score)):
        return None
    return Elsewhere(answer.pod, about.node, best.node, about.place, about.of, _difference(best, own))


def _difference(best: CandidateNode, own: CandidateNode) -> str:
    """The term of the score in which the better node gains most."""
    before = {part.name: part.value for part in own.parts}
    gains = {part.name: part.value - before.get(part.name, 0.0) for part in best.parts}
    if not gains:
        return f"score {best.score:.1f} against {own.score:.1f}"
    name = max(gains, key=lambda part: gains[part])
    return f"{name}: {gains[name]:+.1f} of {best.score - own.score:+.1f}"


def _share(asked: int, elsewhere: int, pods: int) -> AssessedFigure:
    key, title, unit = "placed_elsewhere", "Pods that would be placed elsewhere today", "%"
    definition = (
        f"of {asked:,} running pods asked one at a time (of {pods:,}, no DaemonSet's), those whose own node "
        "rejects them or is in the worse half, by the score of cotenant's profile, of the nodes that fit; by "
        "chance it would be half of them"
    )
    if not asked:
        return unknown(key, title, unit, definition, "no running pod could be asked")
    share = elsewhere / asked
    middle = (share + _Z95**2 / (2 * asked)) / (1 + _Z95**2 / asked)  # Wilson's interval
    half = _Z95 / (1 + _Z95**2 / asked) * sqrt(share * (1 - share) / asked + _Z95**2 / (4 * asked**2))
    low, high = max(0.0, middle - half) * 100, min(1.0, middle + half) * 100
    if asked >= pods:
        return AssessedFigure(key, title, share * 100, unit, definition, "every pod was asked: there is no interval")
    return AssessedFigure(key, title, share * 100, unit, definition, "95 % by Wilson, of the pods asked", low, high)
