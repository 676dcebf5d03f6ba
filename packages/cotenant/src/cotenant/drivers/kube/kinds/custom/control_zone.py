"""ControlZone as manifests have it: a zone's definition, for every node whose pods it selects.

The fields of a zone are read in one place, whatever the source. The spec is kept as it is; services/zones reads it with
the parser of the plain file. The status has one entry a node.
Limits: cluster-scoped, because a zone has services and batch of several namespaces.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.json_object import JsonValue
from cotenant.model.traces.objective import GROUP

KIND, VERSION = "ControlZone", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


class ControlZoneObject(ApiStruct, frozen=True):
    """slo.cotenant.io/v1alpha1 ControlZone."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonValue = None
    status: JsonValue = None


CONTROL_ZONES = Kind(KIND, GROUP, VERSION, "controlzones", False, ControlZoneObject)
