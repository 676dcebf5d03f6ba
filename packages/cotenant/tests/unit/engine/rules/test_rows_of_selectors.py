"""The rows of node selectors, against a look at every node."""

from __future__ import annotations

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.rules.claims.rows import RowsOfSelectors
from cotenant.model.cluster.affinity import NAME_FIELD, NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import Labels, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.resources import Amounts

SIZE = Amounts.of({"cpu": 1, "memory": 1})


def node(i: int, zone: str) -> Node:
    return Node(f"n{i}", SIZE, Labels.of({"zone": zone}))


def named(*names: str, operator: SelectorOperator = SelectorOperator.IN) -> Requirement:
    return Requirement(NAME_FIELD, operator, names)


IN_A = Requirement("zone", SelectorOperator.IN, ("a",))
SELECTORS = [
    NodeSelector(tuple(terms))
    for terms in (
        [NodeSelectorTerm(fields=(named("n1"),))],
        [NodeSelectorTerm(fields=(named("n9"),))],
        [NodeSelectorTerm(fields=(named("n1", operator=SelectorOperator.NOT_IN),))],
        [NodeSelectorTerm((IN_A,), (named("n1"),))],
        [NodeSelectorTerm((IN_A,), (named("n2"),))],
        [NodeSelectorTerm((IN_A,))],
        [NodeSelectorTerm(fields=(named("n1"),)), NodeSelectorTerm(fields=(named("n3"),))],
        [NodeSelectorTerm((IN_A,)), NodeSelectorTerm(fields=(named("n3"),))],
    )
]


def check(rows: RowsOfSelectors, encoder: Encoder) -> None:
    for selector in SELECTORS:
        for _ in range(2):  # the second answer is remembered
            found = rows.of(selector)
            expected = [False] * encoder.all_rows
            for name, row in encoder.node_rows.items():
                expected[row] = selector.matches(name, encoder.node(row).labels)
            assert found.tolist() == expected, selector


def test_the_rows_are_those_of_the_nodes_that_match_now() -> None:
    rows, encoder = RowsOfSelectors(), Encoder(1.0)
    for i in range(4):
        encoder.add_node(node(i, "ab"[i % 2]))
    rows.attach(encoder)
    check(rows, encoder)
    encoder.update_node(node(1, "a"))
    check(rows, encoder)
    encoder.remove_node("n2")
    check(rows, encoder)
    encoder.add_node(node(9, "a"))
    check(rows, encoder)
    other = Encoder(1.0)
    other.add_node(node(3, "a"))
    other.add_node(node(1, "b"))
    rows.attach(other)
    check(rows, other)


def test_many_selectors_are_not_remembered_for_ever() -> None:
    rows, encoder = RowsOfSelectors(), Encoder(1.0)
    encoder.add_node(node(0, "z5"))
    rows.attach(encoder)
    for i in range(600):
        selector = NodeSelector((NodeSelectorTerm((Requirement("zone", SelectorOperator.IN, (f"z{i}",)),)),))
        assert np.array_equal(rows.of(selector), [i == 5])
    assert len(rows._known) <= 257
