"""Secret: named values, base64 in the API."""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta


class Secret(ApiStruct, frozen=True):
    """v1 Secret. `data`: base64 by key."""

    api_version: str = "v1"
    kind: str = "Secret"
    metadata: ObjectMeta = ObjectMeta()
    type: Text = None
    data: dict[str, str] | None = None


SECRETS = Kind("Secret", "", "v1", "secrets", True, Secret)
