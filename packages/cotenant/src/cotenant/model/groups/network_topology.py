"""Layers of a cluster's network, and the layers in which a gang should be gathered.

A job names layers (accelerator, block, spine), nodes have labels, and a cluster-wide object maps the first to the
second. One value per side; policy/placement/gangs/gather.py joins them.
Limits: one label key per layer counts.

Source: Koordinator, apis/extension/network_topology.go and apis/scheduling/v1alpha1/cluster_network_topology_types.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

CLUSTER_LAYER = "ClusterTopologyLayer"  # built in: all nodes
NODE_LAYER = "NodeTopologyLayer"  # built in: one node
DEFAULT = "default"  # the only object that counts, as upstream

MUST_GATHER = "MustGather"
PREFER_GATHER = "PreferGather"


class GatherRule(NamedTuple):
    """Members should, or must, be placed in one domain of a layer."""

    layer: str
    must: bool


@dataclass(frozen=True, slots=True)
class NetworkLayer:
    """One layer. `keys`: label keys of nodes, of which the first counts; none for the node layer."""

    name: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NetworkTopology:
    """A ClusterNetworkTopology. One with messages in `wrong` is known and has no layers."""

    name: str
    layers: tuple[NetworkLayer, ...]  # narrowest first
    wrong: tuple[str, ...] = ()
