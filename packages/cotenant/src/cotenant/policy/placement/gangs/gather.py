"""Gather rules of a gang, joined with the layers of the network: the label keys in whose domains it is tried.

Rules name layers in any order, some binding, some preferred, and the placement knows label keys from the narrowest to
the widest, the last of which may be required. The narrowest binding layer is the required key; preferred layers inside
it come before it; layers that contain it are implied and left out.
Limits: a layer's further label keys and `podCountMultiple` are not considered; both are reported.

Source: Koordinator, pkg/scheduler/frameworkext/networktopology/tree.go and
pkg/scheduler/plugins/coscheduling/core/network_topology_solver.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cotenant.model.cluster.labels import HOSTNAME
from cotenant.model.groups.gang import GangTopology
from cotenant.model.groups.network_topology import CLUSTER_LAYER, DEFAULT, NODE_LAYER, GatherRule, NetworkTopology


class Gathered(NamedTuple):
    """The domains of a gang. `obstacle`: why it cannot be placed at all; empty if it can."""

    topology: GangTopology | None = None
    obstacle: str = ""
    messages: tuple[str, ...] = ()


def gather(rules: Sequence[GatherRule], network: NetworkTopology | None) -> Gathered:
    """Join a gang's rules with the cluster's layers."""
    found = {layer.name: (at, layer) for at, layer in enumerate(network.layers if network is not None else ())}
    where = (
        f"ClusterNetworkTopology {DEFAULT}" if network is not None else f"no ClusterNetworkTopology {DEFAULT} exists"
    )
    messages: list[str] = []
    keys: list[tuple[int, str, bool]] = []
    for rule in rules:
        if rule.layer == CLUSTER_LAYER:
            continue
        if rule.layer not in found:
            why = f"{where} has no layer {rule.layer}" if network is not None else where
            if rule.must:
                return Gathered(None, f"its members must be gathered in one {rule.layer}: {why}", tuple(messages))
            messages.append(f"members are not gathered in one {rule.layer}: {why}")
            continue
        at, layer = found[rule.layer]
        if rule.layer != NODE_LAYER and len(layer.keys) > 1:
            messages.append(f"layer {rule.layer}: of its label keys only {layer.keys[0]} is considered")
        keys.append((at, HOSTNAME if rule.layer == NODE_LAYER else layer.keys[0], rule.must))
    keys.sort()
    required = next((number for number, (_, _, must) in enumerate(keys) if must), -1)
    counted = keys[: required + 1] if required >= 0 else keys
    if not counted:
        return Gathered(None, "", tuple(messages))
    return Gathered(GangTopology(tuple(key for _, key, _ in counted), required >= 0), "", tuple(messages))
