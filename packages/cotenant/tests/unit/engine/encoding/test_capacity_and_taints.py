"""Columns of nodes that follow rules, reservations of CPU and taints, against what the nodes themselves say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Taint, TaintEffect, Toleration, tolerated
from cotenant.model.resources import MAX_AMOUNT, Amounts

RESOURCES = ("x/a", "x/b", "x/c")
EFFECTS = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE, TaintEffect.PREFER_NO_SCHEDULE)


def rule_a(node: Node) -> frozenset[str]:
    return frozenset({"x/a"})


def rule_ab(node: Node) -> frozenset[str]:
    return frozenset({"x/a", "x/b"}) if node.allocatable.get("cpu") > 4000 else frozenset()


def taint(i: int) -> Taint:
    return Taint(f"t{i}", "", EFFECTS[i % 3])


def made(rng: np.random.Generator, name: str, taints: int) -> Node:
    amounts = {"cpu": int(rng.integers(1, 9)) * 1000, "memory": 1 << 30}
    amounts |= {resource: int(rng.integers(0, 3)) for resource in RESOURCES if rng.random() < 0.4}
    chosen = tuple(taint(int(i)) for i in sorted(rng.choice(taints, rng.integers(0, 4), replace=False)))
    return Node(name, Amounts.of(amounts), taints=chosen)


@pytest.mark.parametrize("seed", range(6))
def test_capacities_after_any_events(seed: int) -> None:
    rng = np.random.default_rng(seed)
    encoder = Encoder(1.0)
    rules: dict[str, object] = {}
    withheld: dict[str, int] = {}
    provided: frozenset[str] = frozenset()
    nodes: dict[str, Node] = {}
    for step in range(120):
        name = f"n{rng.integers(5)}"
        match int(rng.integers(7)):
            case 0 | 1:
                node = made(rng, name, 9)
                (encoder.update_node if name in nodes else encoder.add_node)(node)
                nodes[name] = node
            case 2 if name in nodes:
                encoder.remove_node(name)
                del nodes[name]
            case 3:
                rule = [None, rule_a, rule_ab][rng.integers(3)]
                encoder.set_unlimited(name, rule)
                rules[name] = rule
            case 4:
                withheld[name] = int(rng.integers(0, 3)) * 100
                encoder.set_withheld(name, withheld[name])
            case 5:
                provided = frozenset(resource for resource in RESOURCES if rng.random() < 0.3)
                encoder.set_provided(provided)
            case _:
                encoder.add_pod(
                    Pod(f"p{step}", requests=Amounts.of({"cpu": 1, "memory": 1, str(rng.choice(RESOURCES)): 1}))
                )
        capacity = encoder.nodes().capacity
        total = np.zeros(encoder.all_rows, dtype=np.int64)
        for known, node in nodes.items():
            row, rule = encoder.node_rows[known], rules.get(known)
            by_rule = rule(node) if callable(rule) else frozenset()
            total[row] = withheld.get(known, 0)
            for resource in ("cpu", *RESOURCES):
                if resource not in encoder.axis.names:
                    continue
                expected = node.allocatable.get(resource) - (withheld.get(known, 0) if resource == "cpu" else 0)
                if (resource in by_rule and resource not in node.allocatable) or (
                    resource in provided and not node.allocatable.get(resource)
                ):
                    expected = MAX_AMOUNT
                assert capacity[row, encoder.axis.column(resource)] == expected, (step, known, resource)
        assert encoder.withheld_m().tolist() == total.tolist()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_taints_after_any_events(seed: int) -> None:
    rng = np.random.default_rng(seed)
    encoder = Encoder(1.0)
    nodes: dict[str, Node] = {}
    shapes: dict[int, tuple[Toleration, ...]] = {}
    for step in range(60):
        name = f"n{rng.integers(6)}"
        kind = rng.random()
        if kind < 0.7:
            node = made(rng, name, 9)
            (encoder.update_node if name in nodes else encoder.add_node)(node)
            nodes[name] = node
        elif kind < 0.8 and name in nodes:
            encoder.remove_node(name)
            del nodes[name]
        else:
            tolerations = tuple(Toleration(f"t{i}") for i in rng.choice(9, 3, replace=False))
            number, _ = encoder.add_pod(
                Pod(f"p{step}", requests=Amounts.of({"cpu": 1, "memory": 1}), tolerations=tolerations)
            )
            shapes[encoder.shape_of(number)] = tolerations
        if step % 3:
            continue
        assert not encoder.taints_overflow
        lists = encoder.taint_lists()
        words, bits = encoder.nodes().taints, encoder.shapes().tolerated
        by_list: dict[int, tuple[Taint, ...]] = {}
        for known, node in nodes.items():
            row = encoder.node_rows[known]
            assert bool(lists[row] == 0) is (not node.effective_taints)
            assert by_list.setdefault(int(lists[row]), node.effective_taints) == node.effective_taints
        assert len(by_list) == len(set(by_list.values()))
        for k, tolerations in shapes.items():
            for known, node in nodes.items():
                passes = not int(words[encoder.node_rows[known]]) & ~int(bits[k])
                repelling = [one for one in node.effective_taints if one.repels]
                assert passes is all(tolerated(one, tolerations) for one in repelling)
            soft = {one for node in nodes.values() for one in node.effective_taints if not one.repels}
            untolerated = [one for one in soft if not tolerated(one, tolerations)]
            assert len(encoder.untolerated(k)) == len(untolerated)


def test_an_unschedulable_node_has_a_taint_of_its_own() -> None:
    encoder = Encoder(1.0)
    plain = Node("a", Amounts.of({"cpu": 1, "memory": 1}))
    encoder.add_node(plain)
    assert encoder.taint_lists().tolist() == [0]
    encoder.update_node(replace(plain, unschedulable=True))
    assert encoder.taint_lists().tolist() != [0]
    encoder.update_node(plain)
    assert encoder.taint_lists().tolist() == [0]
