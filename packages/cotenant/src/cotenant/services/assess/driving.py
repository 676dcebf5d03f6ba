"""Lets an engine place what waits, as a cluster would answer it, without waiting for a clock.

Binds are confirmed at once. Where preemption is carried out, victims lose their place and wait too, in order of
arrival; budgets are the engine's to respect. Simulated time runs only as far as back-offs need it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import nan

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Evict, Instruction, Preempt, Unschedulable
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.cluster.observed import PodPhase

SETTLE_S = 15.0  # longer than the longest back-off
MAX_ROUNDS = 64  # of a question; a what-if asks until nothing moves


@dataclass(slots=True)
class Driven:
    """What came of it, by UID."""

    placed: dict[str, str] = field(default_factory=dict)  # node
    refused: dict[str, str] = field(default_factory=dict)  # why, as the owner is told
    evicted: list[str] = field(default_factory=list)  # in order; a pod may be there twice


def ask(engine: Cluster, now_s: float, rounds: int = MAX_ROUNDS) -> Driven:
    """Which waiting pods are placed without evicting others; a confirmed bind is not seen running."""
    found = Driven()

    def answer(instruction: Instruction, at_s: float) -> None:
        if isinstance(instruction, Bind) and _bound(engine, instruction, at_s):
            found.placed[instruction.uid] = instruction.node

    _drive(engine, now_s, rounds, found, answer, is_extended=False)
    return found


def place_waiting(engine: Cluster, now_s: float) -> Driven:
    """Place all that waits, with evictions, until nothing changes; pods then run on their nodes."""
    found = Driven()
    max_rounds = 64 + 4 * sum(1 for _ in engine.every_pod())

    def answer(instruction: Instruction, at_s: float) -> None:
        if isinstance(instruction, Bind):
            if _bound(engine, instruction, at_s):
                _runs(engine, instruction, at_s)
                found.placed[instruction.uid] = instruction.node
        elif isinstance(instruction, Preempt):
            for victim in instruction.victims:
                _loses_its_place(engine, victim.uid, victim.key, at_s, found)
        elif isinstance(instruction, Evict):
            _loses_its_place(engine, instruction.victim.uid, instruction.victim.key, at_s, found)

    _drive(engine, now_s, max_rounds, found, answer, is_extended=True)
    for uid in found.placed:
        found.refused.pop(uid, None)
    return found


def _drive(
    engine: Cluster,
    now_s: float,
    rounds: int,
    found: Driven,
    answer: Callable[[Instruction, float], None],
    *,
    is_extended: bool,
) -> None:
    """Until nothing is left to decide for `SETTLE_S`, counted from the last bind or eviction where `is_extended`."""
    until_s = now_s + SETTLE_S
    for _ in range(rounds):
        given = engine.decide(now_s)
        for instruction in given:
            if isinstance(instruction, Unschedulable):
                found.refused[instruction.uid] = instruction.message
            else:
                answer(instruction, now_s)
                if is_extended and isinstance(instruction, Bind | Preempt | Evict):
                    until_s = now_s + SETTLE_S
        if not given:
            next_s = engine.next_s()
            if next_s > until_s:
                break
            now_s = max(now_s, next_s)


def _bound(engine: Cluster, bind: Bind, now_s: float) -> bool:
    if not engine.sending(bind.uid, now_s):
        return False
    engine.bound(bind.uid, now_s)
    return True


def _runs(engine: Cluster, bind: Bind, now_s: float) -> None:
    info = engine.find(bind.key)
    if info is not None:
        seen = replace(info.seen, node=bind.node, phase=PodPhase.RUNNING, holds=info.holds, nominated_node="")
        engine.pod_seen(replace(seen, started_s=now_s), now_s)


def _loses_its_place(engine: Cluster, uid: str, key: str, now_s: float, found: Driven) -> None:
    info = engine.find(key)
    if info is None or info.seen.uid != uid:
        return
    seen = info.seen
    engine.pod_gone(uid, now_s)
    found.placed.pop(uid, None)
    found.evicted.append(key)
    if not seen.owned_by:
        return  # nothing makes it again
    again = replace(
        seen, uid=f"{uid}-again", node="", phase=PodPhase.PENDING, holds=NO_HOLDINGS, started_s=nan, nominated_node="",
        ends_s=nan, written=(),
    )  # fmt: skip
    engine.pod_seen(again, now_s)
