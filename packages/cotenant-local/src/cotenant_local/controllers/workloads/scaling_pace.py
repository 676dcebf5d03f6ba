"""How fast an autoscaler may change a number of replicas, and which of its late recommendations count.

Source: Kubernetes documentation "Horizontal Pod Autoscaling", configurable scaling behavior.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil

from cotenant_local.controllers.views.autoscaling import Behavior, ScalingRules

DOWN_WINDOW_S = 300.0  # where the rules give none
_MAX_WINDOW_S = 3600.0


@dataclass(frozen=True, slots=True)
class At:
    """A number of replicas at a time: one recommended, or by how many the number changed."""

    at_s: float
    replicas: int


@dataclass(slots=True)
class ScalingHistory:
    """What one autoscaler remembers; a new process begins without."""

    recommended: list[At] = field(default_factory=list)
    changes: list[At] = field(default_factory=list)

    def recommend(self, now_s: float, replicas: int) -> None:
        """Keep a recommendation."""
        self.recommended = [one for one in self.recommended if one.at_s > now_s - _MAX_WINDOW_S]
        self.recommended.append(At(now_s, replicas))

    def changed(self, now_s: float, by: int) -> None:
        """Keep a change."""
        self.changes = [one for one in self.changes if one.at_s > now_s - _MAX_WINDOW_S]
        self.changes.append(At(now_s, by))


@dataclass(frozen=True, slots=True)
class Paced:
    """The number to have now, and what held it back: a condition's reason and sentence."""

    replicas: int
    able: tuple[str, str]
    limited: tuple[str, str]  # an empty reason = it is not


def paced(
    current: int, wanted: int, bounds: tuple[int, int], behavior: Behavior, history: ScalingHistory, now_s: float
) -> Paced:
    """`bounds`: the autoscaler's minimum and maximum. The wanted number is in `history` already."""
    stable = _stable(current, wanted, behavior, history.recommended, now_s)
    able = _READY
    if stable != wanted:
        able = (
            ("ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent "
             "recommendation")
            if wanted >= current
            else ("ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest "
                  "recent recommendation")
        )  # fmt: skip
    least, most = bounds
    if stable > current:
        limit = max(current, _furthest(current, behavior.scale_up, history.changes, now_s, _grown))
        if stable > min(limit, most):
            return Paced(min(limit, most), able, _TOO_MANY if most <= limit else _UP_LIMIT)
    elif stable < current:
        limit = min(current, _furthest(current, behavior.scale_down, history.changes, now_s, _shrunk))
        if stable < max(limit, least):
            return Paced(max(limit, least), able, _TOO_FEW if least >= limit else _DOWN_LIMIT)
    return Paced(stable, able, _FREE)


_READY = ("ReadyForNewScale", "recommended size matches current size")
_FREE = ("", "the desired count is within the acceptable range")
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_UP_LIMIT = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_DOWN_LIMIT = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")


def _stable(current: int, wanted: int, behavior: Behavior, recommended: Sequence[At], now_s: float) -> int:
    """Grow to what every late recommendation of the window asked for, shrink to what none went beyond."""
    up_s = behavior.scale_up.stabilization_window_seconds or 0
    given = behavior.scale_down.stabilization_window_seconds
    down_s = DOWN_WINDOW_S if given is None else given
    up = min((one.replicas for one in recommended if one.at_s > now_s - up_s), default=wanted)
    down = max((one.replicas for one in recommended if one.at_s > now_s - down_s), default=wanted)
    return min(max(current, min(up, wanted)), max(down, wanted))


def _furthest(
    current: int,
    rules: ScalingRules,
    changes: Iterable[At],
    now_s: float,
    after: Callable[[int, str, int], int],
) -> int:
    """The furthest number that the policies of one direction allow now."""
    if rules.select_policy == "Disabled":
        return current
    kept = list(changes)
    limits = []
    for policy in rules.policies:
        before = current - sum(one.replicas for one in kept if one.at_s > now_s - policy.period_seconds)
        limits.append(after(before, policy.type, policy.value))
    if not limits:
        return current
    grows = after is _grown
    return max(limits) if grows == (rules.select_policy == "Max") else min(limits)


def _grown(before: int, kind: str, value: int) -> int:
    return before + value if kind == "Pods" else ceil(before * (100 + value) / 100)


def _shrunk(before: int, kind: str, value: int) -> int:
    return before - value if kind == "Pods" else before * (100 - value) // 100
