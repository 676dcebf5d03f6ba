"""Labels and label selectors.

Node affinity, anti-affinity and spread all select by labels, with small differences in the meaning of an absent key or
an empty selector. `Labels` is an immutable sorted list of pairs, `Requirement` one expression with every Kubernetes
operator, validated on construction.
Limits: keys and values are not checked against Kubernetes' name syntax; the API server does that.

Sources: Kubernetes API reference (LabelSelector, NodeSelectorRequirement); label names of Koordinator's protocol.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.errors import InvalidInput

# Labels of Koordinator's co-location protocol.
QOS_CLASS = "koordinator.sh/qosClass"
PRIORITY_CLASS = "koordinator.sh/priority-class"
SUB_PRIORITY = "koordinator.sh/priority"
# Labels and taints of Kubernetes itself.
HOSTNAME = "kubernetes.io/hostname"
PART_OF = "app.kubernetes.io/part-of"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"

_FEW = 16  # labels or values that are looked through rather than looked up

_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64 = range(-(2**63), 2**63)


def lookup(values: tuple[str, ...]) -> Container[str]:
    """The same values, to be asked whether they contain one."""
    return values if len(values) <= _FEW else frozenset(values)


@dataclass(frozen=True, slots=True)
class Labels:
    """Label pairs, sorted by key, each key once."""

    items: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for pair in self.items:
            if not all(isinstance(text, str) for text in pair):
                raise InvalidInput("labels", pair, "text as key and value", "quote numbers and true/false in YAML")
        keys = [key for key, _ in self.items]
        if keys != sorted(keys):
            object.__setattr__(self, "items", tuple(sorted(self.items)))
        if len(set(keys)) < len(keys):
            raise InvalidInput("labels", ", ".join(sorted(keys)), "each key once")

    @classmethod
    def of(cls, pairs: Mapping[str, str] | Iterable[tuple[str, str]]) -> Labels:
        """From a mapping, as in a manifest."""
        return cls(tuple(pairs.items() if isinstance(pairs, Mapping) else pairs))

    def get(self, key: str) -> str | None:
        """The value of a key, None where it is absent."""
        if len(self.items) > _FEW:
            at = bisect_left(self.items, (key,))
            return self.items[at][1] if at < len(self.items) and self.items[at][0] == key else None
        for other, value in self.items:
            if other == key:
                return value
        return None

    def contains(self, others: Labels) -> bool:
        """Whether all pairs of `others` are among these, as a nodeSelector requires."""
        if len(others.items) > len(self.items):
            return False
        return set(others.items) <= set(self.items)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.items)

    def __bool__(self) -> bool:
        return bool(self.items)


NO_LABELS = Labels()


class SelectorOperator(StrEnum):
    """Comparison of an expression. Gt and Lt are for nodes only."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression over one key. NotIn and DoesNotExist also hold where the key is absent."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()
    _among: Container[str] = field(init=False, repr=False, compare=False, default=())  # the values, to be looked up

    def __post_init__(self) -> None:
        name = f"expression on {self.key!r}"
        if not self.key:
            raise InvalidInput("expression", "", "a key")
        if not all(isinstance(value, str) for value in self.values):
            raise InvalidInput(name, self.values, "text values", "quote numbers and true/false in YAML")
        object.__setattr__(self, "_among", lookup(self.values))
        match self.operator:
            case SelectorOperator.IN | SelectorOperator.NOT_IN if not self.values:
                raise InvalidInput(name, self.operator.value, "at least one value")
            case SelectorOperator.EXISTS | SelectorOperator.DOES_NOT_EXIST if self.values:
                raise InvalidInput(name, ", ".join(self.values), f"no values with {self.operator.value}")
            case SelectorOperator.GT | SelectorOperator.LT if len(self.values) != 1 or _integer(self.values[0]) is None:
                raise InvalidInput(name, ", ".join(self.values), f"exactly one integer with {self.operator.value}")
            case _:
                pass

    def holds_for(self, value: str | None) -> bool:
        """Whether the expression holds for this value of the key; None = the key is absent."""
        match self.operator:
            case SelectorOperator.IN:
                return value in self._among
            case SelectorOperator.NOT_IN:
                return value not in self._among
            case SelectorOperator.EXISTS:
                return value is not None
            case SelectorOperator.DOES_NOT_EXIST:
                return value is None
        number, bound = _integer(value), _integer(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator is SelectorOperator.GT else number < bound

    def matches(self, labels: Labels) -> bool:
        """Whether the expression holds for these labels."""
        return self.holds_for(labels.get(self.key))


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Selects pods; all expressions must hold. An empty selector selects every pod."""

    requirements: tuple[Requirement, ...] = ()

    def __post_init__(self) -> None:
        for requirement in self.requirements:
            if requirement.operator in (SelectorOperator.GT, SelectorOperator.LT):
                raise InvalidInput("labelSelector", requirement.operator.value, "In, NotIn, Exists or DoesNotExist")

    @classmethod
    def of(cls, pairs: Mapping[str, str], requirements: Iterable[Requirement] = ()) -> LabelSelector:
        """From matchLabels and matchExpressions."""
        equal = (Requirement(key, SelectorOperator.IN, (value,)) for key, value in sorted(pairs.items()))
        return cls((*equal, *requirements))

    def matches(self, labels: Labels) -> bool:
        """Whether a pod with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)


def _integer(text: str | None) -> int | None:
    if text is None or not _INTEGER.fullmatch(text) or len(text) > 20:
        return None
    number = int(text)
    return number if number in _INT64 else None
