"""ConfigMap: its data."""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Strings
from cotenant.drivers.kube.kinds.parts import ObjectMeta


class ConfigMap(ApiStruct, frozen=True):
    """v1 ConfigMap, without binary data."""

    metadata: ObjectMeta = ObjectMeta()
    data: Strings = None


CONFIG_MAPS = Kind("ConfigMap", "", "v1", "configmaps", True, ConfigMap)
