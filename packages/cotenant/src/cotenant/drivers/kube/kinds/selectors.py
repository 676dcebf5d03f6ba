"""Selectors over labels and over nodes: as the API writes them, and read as the model's values.

The API's lists have empty and absent cases that mean different things, and values that a mistaken client may have
written. One function each; anything that the API does not allow raises `InvalidInput` with the field's path.
Source: Kubernetes API reference (LabelSelector, NodeSelector).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

from cotenant.drivers.kube.kinds.kind import ApiStruct, Strings
from cotenant.model.cluster import affinity
from cotenant.model.cluster.labels import LabelSelector, Requirement, SelectorOperator
from cotenant.model.errors import InvalidInput


class SelectorExpression(ApiStruct, frozen=True):
    """One expression over a label or a field."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class Selector(ApiStruct, frozen=True):
    """LabelSelector."""

    match_labels: Strings = None
    match_expressions: tuple[SelectorExpression, ...] | None = None


class SelectorTerm(ApiStruct, frozen=True):
    """NodeSelectorTerm."""

    match_expressions: tuple[SelectorExpression, ...] | None = None
    match_fields: tuple[SelectorExpression, ...] | None = None


class ApiNodeSelector(ApiStruct, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[SelectorTerm, ...] | None = None


E = TypeVar("E", bound=Enum)


def one_of(form: type[E], text: str, field: str) -> E:
    """The member of an enumeration with this value."""
    found: E | None = form._value2member_map_.get(text)  # type: ignore[assignment]  # a third of the time of a call
    if found is None:
        raise InvalidInput(field, text, " or ".join(str(member.value) for member in form))
    return found


def read_expressions(written: Iterable[SelectorExpression] | None, field: str) -> tuple[Requirement, ...]:
    """matchExpressions or matchFields."""
    return tuple(
        Requirement(e.key, one_of(SelectorOperator, e.operator, f"{field}[{i}].operator"), e.values or ())
        for i, e in enumerate(written or ())
    )


def read_label_selector(written: Selector | None, field: str) -> LabelSelector | None:
    """An absent selector selects nothing (None), an empty one everything."""
    if written is None:
        return None
    return LabelSelector.of(
        written.match_labels or {}, read_expressions(written.match_expressions, f"{field}.matchExpressions")
    )


def read_selector_term(written: SelectorTerm, field: str) -> affinity.NodeSelectorTerm:
    """One term over a node's labels and name."""
    return affinity.NodeSelectorTerm(
        read_expressions(written.match_expressions, f"{field}.matchExpressions"),
        read_expressions(written.match_fields, f"{field}.matchFields"),
    )


def read_node_selector(written: ApiNodeSelector, field: str) -> affinity.NodeSelector:
    """Terms of which one must hold."""
    terms = written.node_selector_terms or ()
    return affinity.NodeSelector(
        tuple(read_selector_term(term, f"{field}.nodeSelectorTerms[{i}]") for i, term in enumerate(terms))
    )
