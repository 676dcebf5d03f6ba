"""ConfigMaps, Secrets and ControllerRevisions: immutability of marked objects, of a Secret's type, and of a revision's
data.

Source: Kubernetes documentation "Immutable ConfigMaps" and "Immutable Secrets".
"""

from __future__ import annotations

import base64

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.kinds.behaviour import KindBehaviour, ObjectLookup
from cotenant_local.apiserver.verbs.errors import immutable

_WHY = "Forbidden: field is immutable when `immutable` is set"


class DataBehaviour(KindBehaviour):
    """A ConfigMap."""

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """Refuse changes if it is marked immutable."""
        if not old.get("immutable"):
            return []
        changed = [name for name in ("immutable", "data", "binaryData") if obj.get(name) != old.get(name)]
        return [FieldError("FieldValueForbidden", _WHY, name) for name in changed]


class RevisionBehaviour(KindBehaviour):
    """A ControllerRevision: a snapshot."""

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """Refuse a change of its data."""
        return [immutable("data", obj.get("data"))] if obj.get("data") != old.get("data") else []


class SecretBehaviour(DataBehaviour):
    """A Secret. `stringData` is merged into `data`."""

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """Refuse a change of its type."""
        causes = super().check_update(obj, old)
        if obj.get("type") != old.get("type"):
            causes.append(immutable("type", obj.get("type")))
        return causes

    def admit(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> None:
        """Encode `stringData` into `data`; default the type to Opaque."""
        if not obj.get("type"):
            obj["type"] = "Opaque"
        plain = obj.pop("stringData", None)
        if isinstance(plain, dict) and plain:
            encoded = {name: base64.b64encode(str(value).encode()).decode() for name, value in plain.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}
