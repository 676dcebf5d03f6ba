"""Namespaces: Active until deleted, then Terminating until their content is deleted.

Source: Kubernetes documentation "Namespaces"; namespace finalization as the API reference describes it
(`spec.finalizers`, `/finalize`).
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.kinds.behaviour import KindBehaviour, ObjectLookup
from cotenant_local.apiserver.verbs.errors import forbidden_message, immutable

FINALIZER = "kubernetes"
NAME_LABEL = "kubernetes.io/metadata.name"
UNDELETABLE = ("default", "kube-system", "kube-public")


class NamespaceBehaviour(KindBehaviour):
    """A namespace."""

    has_status = True

    def prepare_create(self, obj: Manifest, world: ObjectLookup) -> None:
        """Set phase Active, the finalizer that waits for its content, and the name label."""
        spec = obj.setdefault("spec", {})
        finalizers = spec.setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        obj["status"] = {"phase": "Active"}
        self._label(obj)

    def prepare_update(self, obj: Manifest, old: Manifest, world: ObjectLookup) -> None:
        """Reset the spec: spec.finalizers change through /finalize only."""
        if "spec" in old:
            obj["spec"] = old["spec"]
        self._label(obj)

    def merge(self, subresource: str, new: Manifest, base: Manifest) -> Manifest:
        """/finalize: replace the finalizers of the spec."""
        if subresource != "finalize":
            return super().merge(subresource, new, base)
        base["spec"] = {**(base.get("spec") or {}), "finalizers": (new.get("spec") or {}).get("finalizers") or []}
        return base

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """The name label is immutable."""
        name = obj["metadata"].get("name", "")
        if (obj["metadata"].get("labels") or {}).get(NAME_LABEL) != name:
            return [immutable(f"metadata.labels[{NAME_LABEL}]", name)]
        return []

    def check_delete(self, obj: Manifest) -> None:
        """Refuse to delete the system namespaces."""
        name = obj["metadata"]["name"]
        if name in UNDELETABLE:
            raise forbidden_message("namespaces", name, "this namespace may not be deleted")

    def prepare_delete(self, obj: Manifest) -> None:
        """Set phase Terminating."""
        if not self.is_removable(obj):
            obj.setdefault("status", {})["phase"] = "Terminating"

    def is_removable(self, obj: Manifest) -> bool:
        """Whether its content has been deleted (no finalizer in the spec)."""
        return not (obj.get("spec") or {}).get("finalizers")

    @staticmethod
    def _label(obj: Manifest) -> None:
        metadata = obj["metadata"]
        labels = metadata.get("labels")
        if labels is None:
            labels = metadata["labels"] = {}
        labels[NAME_LABEL] = metadata.get("name", "")
