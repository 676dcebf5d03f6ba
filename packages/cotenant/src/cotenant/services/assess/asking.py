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

from cotenant.engine.framework.pod_state import PodInfo, State
from cotenant.model.assess.figure import Figure, unknown
from cotenant.model.assess.report import Elsewhere, Placement, Waiting
from cotenant.model.decisions.answers import PodAnswer, WhatIf
from cotenant.model.decisions.record import Candidate
from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, Amounts
from cotenant.services.assess.copying import ClusterCopy
from cotenant.services.assess.driving import ask

ASKED = 400  # running pods
SHOWN = 20
_NEAR = 1e-9  # scores that differ by less are equal
_Z95 = 1.96


def waiting(copy: ClusterCopy, lent: Mapping[str, Use]) -> tuple[Waiting, ...]:
    """Pods that wait, by the reason that the engine gives, the most frequent first. `lent`: lendable by node."""
    held = {
        info.seen.uid: held_by(info) for info in copy.engine.every_pod() if info.state in (State.GATED, State.BLOCKED)
    }
    queued = {info.seen.uid for info in copy.engine.every_pod() if info.state is State.QUEUED}
    if not queued and not held:
        return ()
    now, reasons = _placed(copy, {})
    with_lent = _placed(copy, lent)[0] if lent else None
    pods: Counter[str] = Counter()
    placed: Counter[str] = Counter()
    by_lent: Counter[str] = Counter()
    for uid in queued:
        why = "cotenant places them at once" if uid in now else reasons.get(uid, "not judged in the simulation")
        pods[why] += 1
        placed[why] += uid in now
        by_lent[why] += with_lent is not None and uid in with_lent
    for why in held.values():
        pods[why] += 1
    return tuple(
        Waiting(why, count, placed[why], None if with_lent is None else by_lent[why])
        for why, count in sorted(pods.items(), key=lambda found: (-found[1], found[0]))
    )


def held_by(info: PodInfo) -> str:
    """Why a pod that cannot be judged waits."""
    if info.seen.gates:
        return f"scheduling gates: {', '.join(sorted(set(info.seen.gates)))}"
    return "; ".join(info.seen.unsupported) or info.last_message or "what it asks for cannot be judged"


def _placed(copy: ClusterCopy, more: Mapping[str, Use]) -> tuple[set[str], dict[str, str]]:
    """UIDs of waiting pods that the engine places with so much more on each node, and why it does not place others."""
    engine, now_s = copy.engine, copy.now_s
    with engine.tentative(now_s):
        for node in engine.nodes():
            added = more.get(node.name)
            if added is not None and any(added):
                grown = Amounts.of({CPU_NAME: added.cpu_m, MEMORY_NAME: added.memory_bytes})
                engine.node_seen(replace(node, allocatable=node.allocatable + grown))
        found = ask(engine, now_s)
    return set(found.placed), {uid: reason_of(message) for uid, message in found.refused.items()}


def reason_of(message: str) -> str:
    """What the engine says of a pod without the counts, which differ from pod to pod."""
    head, colon, rest = message.partition(": ")
    if not colon or "nodes are available" not in head:
        return message
    causes = rest.partition(". preemption:")[0].rstrip(".").split(", ")
    return ", ".join(sorted({cause.lstrip("0123456789 ") for cause in causes}))


def placement(copy: ClusterCopy, running: Sequence[PodInfo]) -> Placement:
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
    return Placement(
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


def _difference(best: Candidate, own: Candidate) -> str:
    """The term of the score in which the better node gains most."""
    before = {part.name: part.value for part in own.parts}
    gains = {part.name: part.value - before.get(part.name, 0.0) for part in best.parts}
    if not gains:
        return f"score {best.score:.1f} against {own.score:.1f}"
    name = max(gains, key=lambda part: gains[part])
    return f"{name}: {gains[name]:+.1f} of {best.score - own.score:+.1f}"


def _share(asked: int, elsewhere: int, pods: int) -> Figure:
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
        return Figure(key, title, share * 100, unit, definition, "every pod was asked: there is no interval")
    return Figure(key, title, share * 100, unit, definition, "95 % by Wilson, of the pods asked", low, high)
