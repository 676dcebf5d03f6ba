"""Gather rules and layers of the network: the label keys of a gang, and what cannot be done."""

from __future__ import annotations

import pytest

from cotenant.model.cluster.labels import HOSTNAME
from cotenant.model.groups.gang import GangTopology
from cotenant.model.groups.network_topology import NODE_LAYER, GatherRule, NetworkLayer, NetworkTopology
from cotenant.policy.placement.gangs.gather import gather

NETWORK = NetworkTopology(
    "default",
    (
        NetworkLayer(NODE_LAYER),
        NetworkLayer("accelerator", ("a", "other")),
        NetworkLayer("block", ("b",)),
        NetworkLayer("spine", ("s",)),
    ),
)


def must(layer: str) -> GatherRule:
    return GatherRule(layer, True)


def prefer(layer: str) -> GatherRule:
    return GatherRule(layer, False)


@pytest.mark.parametrize(
    ("rules", "keys", "required"),
    [
        ((must("block"),), ("b",), True),
        ((prefer("spine"), prefer("block")), ("b", "s"), False),
        ((prefer("spine"), must("block"), prefer(NODE_LAYER)), (HOSTNAME, "b"), True),
        ((must("spine"), must("block")), ("b",), True),
        ((must(NODE_LAYER), prefer("block")), (HOSTNAME,), True),
        ((must("ClusterTopologyLayer"), prefer("spine")), ("s",), False),
    ],
)
def test_the_narrowest_binding_layer_is_required(
    rules: tuple[GatherRule, ...], keys: tuple[str, ...], required: bool
) -> None:
    found = gather(rules, NETWORK)
    assert found == (GangTopology(keys, required), "", ())


def test_a_binding_layer_that_does_not_exist_is_an_obstacle() -> None:
    found = gather((must("rack"),), NETWORK)
    assert found.topology is None
    assert found.obstacle == (
        "its members must be gathered in one rack: ClusterNetworkTopology default has no layer rack"
    )
    assert gather((must("rack"),), None).obstacle.endswith("no ClusterNetworkTopology default exists")


def test_a_preferred_layer_that_does_not_exist_is_reported() -> None:
    found = gather((prefer("rack"), prefer("block")), NETWORK)
    assert found.topology == GangTopology(("b",), False)
    (message,) = found.messages
    assert "rack" in message


def test_further_label_keys_are_reported() -> None:
    (message,) = gather((prefer("accelerator"),), NETWORK).messages
    assert message == "layer accelerator: of its label keys only a is considered"
