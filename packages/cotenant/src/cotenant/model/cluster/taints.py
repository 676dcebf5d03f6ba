"""Taints on nodes and tolerations of pods.

Whether a taint repels a pod depends on its effect, and an empty key, value or effect in a toleration widens it. Two
values with one function each.
Limits: `tolerationSeconds` only says when a running pod is evicted, which is not placement.
Source: Kubernetes' taint and toleration rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.cluster.labels import UNSCHEDULABLE_TAINT
from cotenant.model.errors import InvalidInput

TAINT_TOLERATION, NODE_UNSCHEDULABLE = "TaintToleration", "NodeUnschedulable"  # the plugins that look at taints

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)


class TaintEffect(StrEnum):
    """The effect of a taint on pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"  # only a lower score
    NO_EXECUTE = "NoExecute"  # rejects new pods and evicts running ones


@dataclass(frozen=True, slots=True)
class Taint:
    """A node taint."""

    key: str
    value: str = ""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE

    def __post_init__(self) -> None:
        if not self.key:
            raise InvalidInput("taint", self.value, "a key")

    @property
    def repels(self) -> bool:
        """Whether it rejects new pods, rather than lowering the node's score."""
        return self.effect is not TaintEffect.PREFER_NO_SCHEDULE

    def __str__(self) -> str:
        return f"{{{self.key}: {self.value}}}"


class Match(StrEnum):
    """How a toleration compares values."""

    EQUAL = "Equal"
    EXISTS = "Exists"
    GT = "Gt"  # the taint's value is a larger whole number
    LT = "Lt"  # the taint's value is a smaller whole number


@dataclass(frozen=True, slots=True)
class Toleration:
    """Lets a pod tolerate taints. No effect means any effect; no key, with Exists, means any taint."""

    key: str = ""
    operator: Match = Match.EQUAL
    value: str = ""
    effect: TaintEffect | None = None

    def __post_init__(self) -> None:
        if not self.key and self.operator is not Match.EXISTS:
            raise InvalidInput("toleration", self.value, "a key, or operator Exists")
        if self.value and self.operator is Match.EXISTS:
            raise InvalidInput(f"toleration {self.key!r}", self.value, "no value with operator Exists")
        if self.operator in (Match.GT, Match.LT) and _whole(self.value) is None:
            raise InvalidInput(f"toleration {self.key!r}", self.value, f"a whole number with operator {self.operator}")

    def tolerates(self, taint: Taint) -> bool:
        """Whether a pod with this toleration tolerates the taint."""
        if self.effect is not None and self.effect is not taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator is Match.EXISTS:
            return True
        if self.operator is Match.EQUAL:
            return self.value == taint.value
        bound, value = _whole(self.value), _whole(taint.value)
        if bound is None or value is None:
            return False
        return value > bound if self.operator is Match.GT else value < bound


def _whole(text: str) -> int | None:
    """A 64-bit number as taints write it, None for other text: `05` and `+5` are none."""
    value = int(text) if _WHOLE.fullmatch(text) else None
    return value if value is not None and -(1 << 63) <= value < 1 << 63 else None


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any of a pod's tolerations covers the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)


def first_repelling(
    taints: Iterable[Taint], tolerations: Iterable[Toleration], unfiltered: frozenset[str] = frozenset()
) -> Taint | None:
    """The first taint, in the node's order, that rejects the pod; the one named in the reason. `unfiltered`: plugins
    that do not filter it.
    """
    kept = tuple(tolerations)
    repelling = (taint for taint in taints if taint.repels and not is_unfiltered(taint, unfiltered))
    return next((taint for taint in repelling if not tolerated(taint, kept)), None)


def is_unfiltered(taint: Taint, unfiltered: frozenset[str]) -> bool:
    """Whether none of the plugins that keep pods off a node with this taint filters. A cordoned node has both: its
    `unschedulable` field, and the taint that its controller adds.
    """
    if TAINT_TOLERATION not in unfiltered:
        return False
    return taint.key != UNSCHEDULABLE_TAINT or NODE_UNSCHEDULABLE in unfiltered
