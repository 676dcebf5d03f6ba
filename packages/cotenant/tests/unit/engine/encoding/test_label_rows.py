"""Rows by label value, against each node asked one by one."""

from __future__ import annotations

from random import Random

import pytest

from cotenant.engine.encoding import label_rows
from cotenant.engine.encoding.label_rows import LabelRows
from cotenant.model.cluster.affinity import NAME_FIELD, NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import Labels, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.resources import Amounts

SIZE = Amounts.of({"cpu": 1000, "memory": 1 << 30})
KEYS = ("zone", "disk", "cores", "nowhere")
VALUES = ("a", "b", "3", "12", "007", "")


def node(name: str, **labels: str) -> Node:
    return Node(name, SIZE, Labels.of(labels))


def term(*expressions: Requirement, name: str = "", but: bool = False) -> NodeSelectorTerm:
    operator = SelectorOperator.NOT_IN if but else SelectorOperator.IN
    return NodeSelectorTerm(expressions, (Requirement(NAME_FIELD, operator, (name,)),) if name else ())


def where(key: str, operator: SelectorOperator, *values: str) -> Requirement:
    return Requirement(key, operator, values)


NODES = [
    node("n0", zone="a", cores="8"),
    None,
    node("n2", zone="b", cores="16", disk="ssd"),
    node("n3", zone="a", disk=""),
    node("n4"),
]
IN_A = where("zone", SelectorOperator.IN, "a")
SSD = where("disk", SelectorOperator.IN, "ssd")


@pytest.mark.parametrize(
    ("selector", "rows"),
    [
        (Labels.of({}), [0, 2, 3, 4]),
        (Labels.of({"zone": "a"}), [0, 3]),
        (Labels.of({"zone": "a", "disk": ""}), [3]),
        (Labels.of({"zone": "b", "cores": "8"}), []),
        (NodeSelector(()), []),
        (NodeSelectorTerm(), []),
        (NodeSelector((NodeSelectorTerm(), term(SSD))), [2]),
        (NodeSelector((term(SSD), term(IN_A))), [0, 2, 3]),
        (term(IN_A, where("disk", SelectorOperator.EXISTS)), [3]),
        (term(where("disk", SelectorOperator.DOES_NOT_EXIST)), [0, 4]),
        (term(where("zone", SelectorOperator.NOT_IN, "a")), [2, 4]),
        (term(where("cores", SelectorOperator.GT, "8")), [2]),
        (term(where("cores", SelectorOperator.LT, "9")), [0]),
        (term(name="n4"), [4]),
        (term(name="n1"), []),
        (term(where("zone", SelectorOperator.EXISTS), name="n2", but=True), [0, 3]),
    ],
)
def test_the_rows_of_nodes_that_satisfy_a_selector(
    selector: Labels | NodeSelector | NodeSelectorTerm, rows: list[int]
) -> None:
    asked = LabelRows(NODES)
    assert asked.satisfying(selector) == rows
    assert asked.satisfying(selector) == rows  # by what is kept


def test_a_node_that_changes_is_known_once_it_is_said() -> None:
    nodes: list[Node | None] = [node("n0", zone="a"), node("n1", zone="b")]
    asked = LabelRows(nodes)
    newer = term(where("cores", SelectorOperator.GT, "1"))
    for selector in (Labels.of({"zone": "a"}), term(name="n0"), newer):
        asked.satisfying(selector)
    nodes[0], nodes[1] = node("m0", zone="b", cores="2"), node("n1", zone="a", cores="3")
    nodes.append(node("n2", zone="a"))
    asked.changed()
    assert asked.satisfying(Labels.of({"zone": "a"})) == [1, 2]
    assert asked.satisfying(Labels.of({})) == [0, 1, 2]
    assert asked.satisfying(newer) == [0, 1]
    assert asked.satisfying(term(name="n0")) == []
    assert asked.satisfying(term(name="m0")) == [0]
    assert asked.satisfying(term(where("zone", SelectorOperator.EXISTS))) == [0, 1, 2]


def _expression(random: Random) -> Requirement:
    key, operator = random.choice(KEYS), random.choice(list(SelectorOperator))
    if operator in (SelectorOperator.EXISTS, SelectorOperator.DOES_NOT_EXIST):
        return where(key, operator)
    if operator in (SelectorOperator.GT, SelectorOperator.LT):
        return where(key, operator, str(random.randrange(-1, 15)))
    return where(key, operator, *random.sample(VALUES, random.randrange(1, 4)))


def _term(random: Random) -> NodeSelectorTerm:
    some = [_expression(random) for _ in range(random.randrange(3))]
    name = f"n{random.randrange(8)}" if random.random() < 0.3 else ""
    return term(*some, name=name, but=random.random() < 0.5)


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_they_are_those_of_each_node_asked_for_itself(seed: int, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`few`: what is done apart for very many keys and bounds is done for a few."""
    if few:
        monkeypatch.setattr(label_rows, "_MANY_KEYS", 1)
        monkeypatch.setattr(label_rows, "_MAX_BOUNDS", 2)
    random = Random(seed)
    nodes: list[Node | None] = []
    for number in range(random.randrange(1, 8)):
        labels = {key: random.choice(VALUES) for key in KEYS[:3] if random.random() < 0.6}
        nodes.append(node(f"n{number}", **labels) if random.random() < 0.8 else None)
    asked = LabelRows(nodes)
    for _ in range(60):
        selector = NodeSelector(tuple(_term(random) for _ in range(random.randrange(4))))
        expected = [row for row, one in enumerate(nodes) if one is not None and selector.matches(one.name, one.labels)]
        assert asked.satisfying(selector) == expected
        if random.random() < 0.1:
            row = random.randrange(len(nodes))
            nodes[row] = None if nodes[row] is not None else node(f"n{row}", zone=random.choice(VALUES))
            asked.changed()
