"""Runs the scheduling cycle in a copy of the engine, and says what became of one pod.

A sentence such as "tolerate this taint: node-1 fits then" is true only if the scheduler then places the pod. The change
is made in a copy (copying.py), the copy decides until it has nothing to do, every bind and eviction succeeds at once,
and the outcome is read from the instructions.
Limits: the copy runs for a few seconds of its own time; evicted pods are not created anew by their owners.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.engine.explain.copying import Captured, Engine
from cotenant.engine.framework.instructions import Bind, Evict, Preempt, Unschedulable
from cotenant.engine.plugins.quotas.revocation import REASON as REVOKED
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod

_MAX_ROUNDS = 64
_WITHIN_S = 15.0  # longer than the longest back-off
_NO_PODS: Mapping[str, ObservedPod] = {}
_NO_NODES: Mapping[str, Node] = {}


@dataclass(frozen=True, slots=True)
class TrialChange:
    """Pods (by UID) and nodes (by name) as they would be."""

    pods: Mapping[str, ObservedPod] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)

    def and_then(self, other: TrialChange) -> TrialChange:
        """Both; where both change an object, `other` counts."""
        return TrialChange({**self.pods, **other.pods}, {**self.nodes, **other.nodes})


NO_CHANGE = TrialChange()


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What became of the pod in the copy."""

    node: str = ""  # where it was placed; empty = nowhere
    preempted: tuple[str, ...] = ()  # namespace/name of pods evicted from `nominated` for it or its gang
    mates: tuple[str, ...] = ()  # pods on other nodes that go with them, because their gang goes whole
    nominated: tuple[str, ...] = ()  # the nodes that it, or its gang, is nominated for
    beyond_budgets: int = 0  # of `preempted`
    terminated: tuple[str, ...] = ()  # pods on those nodes that were terminating before
    evicted: tuple[str, ...] = ()  # evicted within a quota for a more important pod
    message: str = ""  # why it waits, as last reported

    @property
    def is_plain(self) -> bool:
        """Whether it was placed and no pod was evicted."""
        return bool(self.node) and not self.nominated and not self.evicted


def run(
    captured: Captured, uid: str, change: TrialChange = NO_CHANGE, without: frozenset[str] = frozenset()
) -> TrialOutcome:
    """Build a copy with this change and run it until the pod is placed or nothing more happens."""
    engine = captured.build(change.pods, change.nodes, without)
    preempted: list[str] = []
    nominated: list[str] = []
    evicted: list[str] = []
    terminated: list[str] = []
    node, message, beyond = "", "", 0
    now_s = captured.now_s
    for _ in range(_MAX_ROUNDS):
        given = engine.decide(now_s)
        for instruction in given:
            if isinstance(instruction, Bind):
                _carry_out(engine, instruction.uid, now_s)
                node = instruction.node if instruction.uid == uid else node
            elif isinstance(instruction, Preempt):
                if instruction.uid in captured.own:
                    preempted += [victim.key for victim in instruction.victims]
                    nominated.append(instruction.node)
                    beyond += instruction.breaks_budgets
                    for seen in captured.placed:  # those that are terminating already are gone by then as well
                        if seen.terminating and seen.node == instruction.node:
                            terminated.append(seen.pod.key)
                            engine.pod_gone(seen.uid, now_s)
                for victim in instruction.victims:
                    engine.pod_gone(victim.uid, now_s)
            elif isinstance(instruction, Evict):
                if instruction.reason != REVOKED:
                    evicted.append(instruction.victim.key)
                engine.pod_gone(instruction.victim.uid, now_s)
            elif isinstance(instruction, Unschedulable) and instruction.uid == uid:
                message = instruction.message
        if node:
            break
        if not given:
            next_s = engine.next_s()
            if next_s > captured.now_s + _WITHIN_S:
                break
            now_s = max(now_s, next_s)
    at = {seen.pod.key: seen.node for seen in captured.placed} if preempted else {}
    return TrialOutcome(
        node,
        tuple(key for key in _once(preempted) if at.get(key, "") in nominated),
        tuple(key for key in _once(preempted) if at.get(key, "") not in nominated),
        _once(nominated),
        beyond,
        _once(terminated),
        _once(evicted),
        message,
    )


def evictions_until(captured: Captured, until_s: float) -> tuple[str, ...]:
    """The pods that plugins evict from now until then if nothing else changes, namespace/name."""
    engine = captured.build(_NO_PODS, _NO_NODES)
    found: list[str] = []
    now_s = captured.now_s
    for _ in range(4 * _MAX_ROUNDS):
        given = engine.decide(now_s)
        for instruction in given:
            if isinstance(instruction, Bind):
                _carry_out(engine, instruction.uid, now_s)
            elif isinstance(instruction, Evict):
                found.append(instruction.victim.key)
        if not given:
            next_s = engine.next_s()
            if next_s > until_s:
                break
            now_s = max(now_s, next_s)
    return tuple(dict.fromkeys(found))


def _once(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _carry_out(engine: Engine, uid: str, now_s: float) -> None:
    if engine.sending(uid, now_s):
        engine.bound(uid, now_s)
