"""Domains and matching rows, kept until labels change, are those of looking at every node."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.topology import Regions
from cotenant.model.cluster.affinity import NAME_FIELD, NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import Labels, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import StorageRoom
from cotenant.model.resources import Amounts

IN, NOT_IN, EXISTS = SelectorOperator.IN, SelectorOperator.NOT_IN, SelectorOperator.EXISTS


def node(name: str, **labels: str) -> Node:
    return Node(name, Amounts.of({"cpu": 1, "memory": 1}), Labels.of(labels))


def world() -> tuple[Encoder, Regions]:
    encoder = Encoder(1.0)
    for made in (node("n0", zone="a"), node("n1", zone="b", disk="ssd"), node("n2"), node("n3", zone="a", disk="hdd")):
        encoder.add_node(made)
    return encoder, Regions(encoder)


def of_rows(encoder: Encoder, regions: Regions, key: str) -> dict[str, str]:
    found = regions.domains(key)
    assert len(found.of_node) == regions.size()
    names = {name: int(found.of_node[row]) for name, row in encoder.node_rows.items()}
    return {name: found.names[number] for name, number in names.items() if number >= 0}


def test_domains_are_those_of_the_labels_now() -> None:
    encoder, regions = world()
    assert of_rows(encoder, regions, "zone") == {"n0": "a", "n1": "b", "n3": "a"}
    assert regions.domains("zone") is regions.domains("zone")
    encoder.update_node(node("n0", zone="c"))
    assert of_rows(encoder, regions, "zone") == {"n0": "c", "n1": "b", "n3": "a"}
    encoder.remove_node("n3")
    encoder.add_node(node("n4", zone="b"))
    assert of_rows(encoder, regions, "zone") == {"n0": "c", "n1": "b", "n4": "b"}


def test_of_very_many_keys_only_those_that_nodes_have_are_kept() -> None:
    encoder, regions = world()
    for number in range(32):
        assert of_rows(encoder, regions, f"none{number}") == {}
    kept = regions.domains("none31")
    assert kept.key == "none31"
    one, two = regions.domains("none32"), regions.domains("none33")
    assert one is two
    assert (one.key, one.names, one.of_node.tolist()) == ("", (), [-1] * regions.size())
    assert of_rows(encoder, regions, "zone") == {"n0": "a", "n1": "b", "n3": "a"}
    assert regions.domains("none31") is kept
    encoder.add_node(node("n4", none33="x"))
    assert of_rows(encoder, regions, "none33") == {"n4": "x"}


def test_the_rows_with_a_node_and_the_row_of_one() -> None:
    encoder, regions = world()
    encoder.remove_node("n1")
    rows = encoder.node_rows
    assert np.flatnonzero(regions.known()).tolist() == sorted(rows.values())
    assert np.flatnonzero(regions.only("n3")).tolist() == [rows["n3"]]
    assert not regions.only("n1").any()
    assert len(regions.only("n1")) == len(regions.known()) == regions.size()


ZONE_A = Requirement("zone", IN, ("a",))
TERMS = {
    "by zone": NodeSelectorTerm((ZONE_A,)),
    "by zones": NodeSelectorTerm((Requirement("zone", IN, ("b", "x", "a", "b")),)),
    "by two labels": NodeSelectorTerm((ZONE_A, Requirement("disk", EXISTS))),
    "not in a zone": NodeSelectorTerm((Requirement("zone", NOT_IN, ("a",)),)),
    "the second decides": NodeSelectorTerm((Requirement("disk", EXISTS), Requirement("zone", IN, ("b",)))),
    "by name": NodeSelectorTerm(fields=(Requirement(NAME_FIELD, IN, ("n3",)),)),
    "by another name": NodeSelectorTerm(fields=(Requirement(NAME_FIELD, IN, ("n9",)),)),
    "by name and zone": NodeSelectorTerm((Requirement("zone", IN, ("b",)),), (Requirement(NAME_FIELD, IN, ("n0",)),)),
    "not by name": NodeSelectorTerm(fields=(Requirement(NAME_FIELD, NOT_IN, ("n0",)),)),
    "no such label": NodeSelectorTerm((Requirement("none", IN, ("a",)),)),
}


@pytest.mark.parametrize("names", [*((name,) for name in TERMS), ("by zone", "by name"), ("not by name", "by zone")])
def test_a_selector_matches_the_rows_of_any_of_its_terms(names: tuple[str, ...]) -> None:
    encoder, regions = world()
    selector = NodeSelector(tuple(TERMS[name] for name in names))
    for _ in range(2):
        found = regions.matching(selector)
        assert found is not None
        expected = [row for name, row in encoder.node_rows.items() if selector.matches(name, encoder.node(row).labels)]
        assert found.tolist() == sorted(expected)
        assert regions.matching(selector) is found
        encoder.update_node(node("n2", zone="a", disk="ssd"))  # labels change between the two


def test_without_a_selector_all_rows_match() -> None:
    encoder, regions = world()
    assert regions.matching(None) is None
    assert regions.matching(StorageRoom(None)) is None
    found = regions.matching(StorageRoom(NodeSelector((TERMS["by zone"],))))
    assert found is not None
    assert found.tolist() == [encoder.node_rows["n0"], encoder.node_rows["n3"]]
