"""ClusterNetworkTopology and the annotations that name its layers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.cluster_network_topology import (
    ClusterNetworkTopologyObject,
    read_network_topology,
)
from cotenant.drivers.kube.kinds.pod.gang import read_gang
from cotenant.drivers.kube.kinds.pod.schema import PodAnnotations
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.network_topology import NODE_LAYER, GatherRule, NetworkLayer, NetworkTopology


def layer(name: str, parent: str = "", *keys: str) -> dict[str, Any]:
    return {"topologyLayer": name, "parentTopologyLayer": parent, "labelKey": list(keys)}


def read(*layers: dict[str, Any]) -> NetworkTopology:
    obj = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": list(layers)}}
    return read_network_topology(msgspec.convert(obj, ClusterNetworkTopologyObject))


@pytest.mark.parametrize("top", ["", "ClusterTopologyLayer"])
def test_layers_are_read_from_the_node_to_the_widest(top: str) -> None:
    found = read(layer("spine", top, "s"), layer("block", "spine", "b", "c"), layer(NODE_LAYER, "block"))
    assert found.layers == (NetworkLayer(NODE_LAYER), NetworkLayer("block", ("b", "c")), NetworkLayer("spine", ("s",)))
    assert not found.wrong


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ((layer("spine", "", "s"),), "no layer NodeTopologyLayer"),
        ((layer(NODE_LAYER, "block"), layer("spine", "", "s")), "names block, which is not a layer"),
        ((layer(NODE_LAYER, "block"), layer("block", "")), "has no labelKey"),
        ((layer(NODE_LAYER, ""), layer("spine", "", "s")), "not one chain"),
        ((layer(NODE_LAYER, "block"), layer("block", NODE_LAYER, "b")), "not one chain"),
    ],
)
def test_layers_that_are_no_chain_are_reported(layers: tuple[dict[str, Any], ...], words: str) -> None:
    found = read(*layers)
    assert found.layers == ()
    assert words in found.wrong[0]


def test_an_object_without_a_name() -> None:
    with pytest.raises(InvalidInput):
        read_network_topology(ClusterNetworkTopologyObject())


def test_rules_in_annotations() -> None:
    text = (
        '{"gatherStrategy": [{"layer": "block", "strategy": "MustGather", "podCountMultiple": 2}, {"layer": '
        '"spine", "strategy": "PreferGather"}]}'
    )
    notes = read_gang(PodAnnotations(gang_network_topology=text, gang_network_index="3"))
    assert notes.gather == (GatherRule("block", True), GatherRule("spine", False))
    assert len(notes.wrong) == 2
    assert "podCountMultiple of layer block is not considered" in notes.wrong[0]
    assert "network-topology-index is not read" in notes.wrong[1]


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"gatherStrategy": 1}',
        '{"gatherStrategy": [1]}',
        '{"gatherStrategy": [{"layer": "b", "strategy": "May"}]}',
    ],
)
def test_rules_that_cannot_be_read_are_reported(text: str) -> None:
    notes = read_gang(PodAnnotations(gang_network_topology=text))
    assert notes.gather == ()
    assert "network-topology-spec" in notes.wrong[0]
