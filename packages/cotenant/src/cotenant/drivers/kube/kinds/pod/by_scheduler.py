"""What pods have by their `spec.schedulerName`: settings of that scheduler's profile, applied where pods are read.

Source: kube-scheduler's arguments of NodeAffinity (addedAffinity: required terms must hold besides the pod's own,
preferred ones are added), PodTopologySpread (defaultConstraints) and NodeResourcesFit (ignoredResources).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm, SpreadConstraint
from cotenant.model.resources import Amounts


@dataclass(frozen=True, slots=True)
class IgnoredResources:
    """Extended resources that are not looked at: by name, or by what stands before the slash."""

    names: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def without(self, amounts: Amounts) -> Amounts:
        """The other amounts."""
        if not (self.names or self.groups):
            return amounts
        kept = {name: amount for name, amount in amounts if not self._has(name)}
        return amounts if len(kept) == len(amounts.names()) else Amounts.of(kept)

    def among(self, amounts: Amounts) -> tuple[str, ...]:
        """Which of these are ignored."""
        return tuple(name for name, _ in amounts if self._has(name)) if self.names or self.groups else ()

    def _has(self, name: str) -> bool:
        group, slash, _ = name.partition("/")
        return bool(slash) and (name in self.names or group in self.groups)


@dataclass(frozen=True, slots=True)
class PodsOfScheduler:
    """How the pods of a scheduler name are placed: `scored_by` as `Pod` has it; whether replicas are spread by
    default, or by which constraints instead; affinity that each pod has besides its own; resources that are not looked
    at; whether pods preempt; plugins that do not filter them.
    """

    scored_by: str = ""
    spread_replicas: bool = False
    constraints: tuple[SpreadConstraint, ...] = ()  # without selectors, for pods without constraints
    added_affinity: NodeAffinity | None = None
    ignored: IgnoredResources | None = None
    preempts: bool = True  # where the pod's own policy allows it
    unfiltered: frozenset[str] = frozenset()  # as `Pod` has it
    is_spread: bool = field(init=False)  # whether pods without constraints are spread by what selects them

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_spread", self.spread_replicas or bool(self.constraints))


def with_added(own: NodeAffinity | None, added: NodeAffinity | None) -> NodeAffinity | None:
    """A pod's affinity with what its scheduler adds: of the required terms one of each must hold."""
    if added is None:
        return own
    if own is None:
        return added
    required = own.required if added.required is None else added.required
    if own.required is not None and added.required is not None:
        pairs = product(own.required.terms, added.required.terms)
        required = NodeSelector(tuple(both for left, right in pairs if (both := _both(left, right)) is not None))
    return NodeAffinity(required, (*own.preferred, *added.preferred))


def _both(left: NodeSelectorTerm, right: NodeSelectorTerm) -> NodeSelectorTerm | None:
    """A term that holds where both do; None where one is empty, which matches no node."""
    if not (left.expressions or left.fields) or not (right.expressions or right.fields):
        return None
    return NodeSelectorTerm((*left.expressions, *right.expressions), (*left.fields, *right.fields))
