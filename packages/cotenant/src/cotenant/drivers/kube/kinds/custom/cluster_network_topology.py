"""ClusterNetworkTopology: the layers of a cluster's network and the node labels that name their domains.

The layers are a list in any order, each naming its parent, written by hand. They are followed from the node layer to
the widest, as upstream; a list in which that is not possible is known with a message and has no layers.
Limits: only the object `default` counts, and its status is not written.

Source: Koordinator, apis/scheduling/v1alpha1/cluster_network_topology_types.go;
pkg/scheduler/frameworkext/networktopology/tree.go.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.network_topology import NODE_LAYER, NetworkLayer, NetworkTopology


class LayerObject(ApiStruct, frozen=True):
    """One layer."""

    topology_layer: Text = None
    parent_topology_layer: Text = None
    label_key: tuple[str, ...] | None = None


class ClusterNetworkTopologySpec(ApiStruct, frozen=True):
    """The layers."""

    network_topology_spec: tuple[LayerObject, ...] | None = None


class ClusterNetworkTopologyObject(ApiStruct, frozen=True):
    """A ClusterNetworkTopology, without its status."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterNetworkTopologySpec | None = None


NETWORK_TOPOLOGIES = Kind(
    "ClusterNetworkTopology",
    "scheduling.koordinator.sh",
    "v1alpha1",
    "clusternetworktopologies",
    False,
    ClusterNetworkTopologyObject,
)


def read_network_topology(obj: ClusterNetworkTopologyObject) -> NetworkTopology:
    """The layers, narrowest first. Raises `InvalidInput` for an object without a name."""
    name = obj.metadata.name
    if not name:
        raise InvalidInput("ClusterNetworkTopology", name, "a name")
    written = obj.spec.network_topology_spec or () if obj.spec is not None else ()
    by_name = {layer_object.topology_layer or "": layer_object for layer_object in written}
    layers: list[NetworkLayer] = []
    following = by_name.get(NODE_LAYER)
    if following is None:
        return NetworkTopology(name, (), (f"it has no layer {NODE_LAYER}",))
    while following is not None and len(layers) < len(written):
        keys = tuple(key for key in following.label_key or () if key)
        layer = following.topology_layer or ""
        if not keys and layer != NODE_LAYER:
            return NetworkTopology(name, (), (f"layer {layer} has no labelKey",))
        layers.append(NetworkLayer(layer, keys))
        parent = following.parent_topology_layer
        following = by_name.get(parent) if parent else None
        if parent and following is None and len(layers) < len(written):
            return NetworkTopology(name, (), (f"layer {layer} names {parent}, which is not a layer",))
    if len(layers) < len(written) or following is not None:
        return NetworkTopology(name, (), (f"its layers are not one chain from {NODE_LAYER} to the widest",))
    return NetworkTopology(name, tuple(layers))
