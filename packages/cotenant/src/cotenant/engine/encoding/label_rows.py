"""Which rows of nodes satisfy a selector, by the values of their labels.

One pod may have ten thousand node affinity terms, and evaluating each on every node takes a minute. For each label key
the rows of each value are one integer with a bit for each row, made when a selector first names the key and kept until
a node changes; an expression is a few operations on such integers, whatever the number of nodes.
Limits: Gt and Lt look at every distinct value of the key, once for each bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from cotenant.model.cluster.affinity import NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import Labels, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node

_MAX_BOUNDS, _MANY_KEYS = 4096, 32
_NO_ROWS: Mapping[str, int] = MappingProxyType({})


class LabelRows:
    """Rows by label value. `nodes` by row, None = no node; call `changed` when one of them changes."""

    def __init__(self, nodes: Sequence[Node | None]) -> None:
        self._nodes = nodes
        self._by_key: dict[str, dict[str, int]] = {}
        self._keys: set[str] = set()  # of all nodes, once many keys were named
        self._with_key: dict[str, int] = {}
        self._bounds: dict[Requirement, int] = {}
        self._by_name: dict[str, int] = {}
        self._every = -1  # all rows with a node; -1 = not known

    def changed(self) -> None:
        """Forget all that is kept."""
        if self._every >= 0:
            self._by_key.clear()
            self._keys.clear()
            self._with_key.clear()
            self._bounds.clear()
            self._by_name.clear()
            self._every = -1

    def satisfying(self, selector: Labels | NodeSelector | NodeSelectorTerm) -> list[int]:
        """The rows of the nodes that satisfy it, ascending."""
        if self._every < 0:
            self._every = sum(1 << row for row, node in enumerate(self._nodes) if node is not None)
        match selector:
            case Labels():
                found = self._every
                for key, value in selector:
                    found &= self._rows_of(key).get(value, 0)
                    if not found:
                        break
            case NodeSelectorTerm():
                found = self._of_term(selector)
            case NodeSelector():
                found = 0
                for term in selector.terms:
                    found |= self._of_term(term)
                    if found == self._every:
                        break
        return [row for row, bit in enumerate(reversed(f"{found:b}")) if bit == "1"]

    def _of_term(self, term: NodeSelectorTerm) -> int:
        if not (term.expressions or term.fields):
            return 0
        found = self._every
        for field in term.fields:
            named = self._named(field.values)
            found &= named if field.operator is SelectorOperator.IN else ~named
        for expression in term.expressions:
            if not found:
                break
            found &= self._of_expression(expression)
        return found

    def _of_expression(self, expression: Requirement) -> int:
        by_value = self._rows_of(expression.key)
        match expression.operator:
            case SelectorOperator.EXISTS:
                return self._with_key.get(expression.key, 0)
            case SelectorOperator.DOES_NOT_EXIST:
                return ~self._with_key.get(expression.key, 0)
            case SelectorOperator.IN | SelectorOperator.NOT_IN:
                found = _union(by_value, expression.values)
                return found if expression.operator is SelectorOperator.IN else ~found
        known = self._bounds.get(expression)
        if known is None:
            if len(self._bounds) >= _MAX_BOUNDS:
                self._bounds.clear()
            known = _union(by_value, (value for value in by_value if expression.holds_for(value)))
            self._bounds[expression] = known
        return known

    def _rows_of(self, key: str) -> Mapping[str, int]:
        found = self._by_key.get(key)
        if found is None:
            if len(self._by_key) >= _MANY_KEYS:  # a pod may name ten thousand that no node has
                if not self._keys:
                    self._keys = {label for node in self._nodes if node is not None for label, _ in node.labels}
                if key not in self._keys:
                    return _NO_ROWS
            lists: dict[str, list[int]] = {}
            for row, node in enumerate(self._nodes):
                value = node.labels.get(key) if node is not None else None
                if value is not None:
                    lists.setdefault(value, []).append(row)
            found = {value: sum(1 << row for row in rows) for value, rows in lists.items()}
            self._by_key[key] = found
            self._with_key[key] = _union(found, found)
        return found

    def _named(self, names: Iterable[str]) -> int:
        if not self._by_name:
            self._by_name = {node.name: 1 << row for row, node in enumerate(self._nodes) if node is not None}
        return _union(self._by_name, names)


def _union(rows: Mapping[str, int], values: Iterable[str]) -> int:
    found = 0
    for value in values:
        found |= rows.get(value, 0)
    return found
