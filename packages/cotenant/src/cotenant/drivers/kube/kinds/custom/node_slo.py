"""NodeSLO: the strategies of one node, written by a manager and read by the node's agent.

The spec stays decoded JSON, because parts of it are passed on that no process here reads.
Source: Koordinator, apis/slo/v1alpha1 (NodeSLO).
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.json_object import JsonObject


class NodeSloObject(ApiStruct, frozen=True):
    """slo.koordinator.sh/v1alpha1 NodeSLO."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonObject | None = None


NODE_SLOS = Kind("NodeSLO", "slo.koordinator.sh", "v1alpha1", "nodeslos", False, NodeSloObject)
