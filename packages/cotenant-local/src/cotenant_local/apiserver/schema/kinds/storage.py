"""PersistentVolume, PersistentVolumeClaim, StorageClass: defaults and rules.

Sources: Kubernetes API reference v1 and storage.k8s.io/v1 (volumes retain their data unless a class says otherwise; a
claim's spec is immutable except for its size).
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.selectors import label_selector, node_selector

_MODES = frozenset({"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"})
_VOLUME_MODES = frozenset({"Filesystem", "Block"})
_RECLAIM = frozenset({"Delete", "Retain"})
_RECLAIM_VOLUME = frozenset({"Delete", "Retain", "Recycle"})
_BINDING = frozenset({"Immediate", "WaitForFirstConsumer"})
_VOLUME_FIELDS = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)


def default_volume(obj: Manifest) -> None:
    """Set the defaults of a PersistentVolume."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def check_volume(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a PersistentVolume."""
    causes: list[FieldError] = []
    spec = obj.get("spec", {})
    modes = spec.get("accessModes")
    if not modes:
        causes.append(field_errors.required("spec.accessModes"))
    for mode in modes or ():
        field_errors.one_of(mode, _MODES, "spec.accessModes", causes)
    size = spec.get("capacity", {}).get("storage")
    if size is None:
        causes.append(field_errors.required("spec.capacity"))
    elif field_errors.nano(size) <= 0:
        causes.append(field_errors.invalid("spec.capacity[storage]", size, "must be greater than zero"))
    field_errors.one_of(
        spec.get("persistentVolumeReclaimPolicy"), _RECLAIM_VOLUME, "spec.persistentVolumeReclaimPolicy", causes
    )
    field_errors.one_of(spec.get("volumeMode"), _VOLUME_MODES, "spec.volumeMode", causes)
    sources = [key for key in spec if key not in _VOLUME_FIELDS]
    if not sources:
        causes.append(field_errors.required("spec", "must specify a volume type"))
    causes += [
        field_errors.forbidden(f"spec.{extra}", "may not specify more than 1 volume type") for extra in sources[1:]
    ]
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        if "required" in affinity:
            node_selector(affinity["required"], "spec.nodeAffinity.required", causes)
        else:
            causes.append(field_errors.required("spec.nodeAffinity.required", "must specify required node constraints"))
    elif "local" in spec:
        causes.append(field_errors.required("spec.nodeAffinity", "Local volume requires node affinity"))
    if old is not None:
        before = old.get("spec", {})
        causes += [
            field_errors.forbidden(
                "spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"
            )
            for key in sources
            if spec.get(key) != before.get(key)
        ]
        field_errors.immutable(spec.get("volumeMode"), before.get("volumeMode"), "spec.volumeMode", causes)
    return causes


def default_claim(obj: Manifest) -> None:
    """Set the defaults of a PersistentVolumeClaim."""
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def check_claim(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a PersistentVolumeClaim."""
    causes: list[FieldError] = []
    spec = obj.get("spec", {})
    check_claim_spec(spec, "spec", causes)
    if old is not None:
        before = old.get("spec", {})
        size, was_size = (
            entry.get("resources", {}).get("requests", {}).get("storage", "0") for entry in (spec, before)
        )
        if field_errors.nano(size) < field_errors.nano(was_size):
            causes.append(
                field_errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
            )
    return causes


def check_claim_spec(spec: Manifest, field: str, causes: list[FieldError]) -> None:
    """Check a claim's spec."""
    modes = spec.get("accessModes")
    if not modes:
        causes.append(field_errors.required(f"{field}.accessModes", "at least 1 access mode is required"))
    for mode in modes or ():
        field_errors.one_of(mode, _MODES, f"{field}.accessModes", causes)
    if len(modes or ()) > 1 and "ReadWriteOncePod" in (modes or ()):
        causes.append(
            field_errors.forbidden(f"{field}.accessModes", "may not use ReadWriteOncePod with other access modes")
        )
    size = spec.get("resources", {}).get("requests", {}).get("storage")
    if size is None:
        causes.append(field_errors.required(f"{field}.resources[storage]"))
    elif field_errors.nano(size) <= 0:
        causes.append(field_errors.invalid(f"{field}.resources[storage]", size, "must be greater than zero"))
    if "selector" in spec:
        label_selector(spec["selector"], f"{field}.selector", causes)
    name = spec.get("storageClassName")
    if name and (why := field_errors.subdomain_problem(name)):
        causes.append(field_errors.invalid(f"{field}.storageClassName", name, why))
    if spec.get("volumeMode", "Filesystem") not in _VOLUME_MODES:
        causes.append(field_errors.unsupported(f"{field}.volumeMode", spec["volumeMode"], _VOLUME_MODES))


def default_class(obj: Manifest) -> None:
    """Set the defaults of a StorageClass."""
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def check_class(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a StorageClass."""
    causes: list[FieldError] = []
    name = obj.get("provisioner")
    if not name:
        causes.append(field_errors.required("provisioner"))
    elif why := field_errors.key_problem(name.lower()):
        causes.append(field_errors.invalid("provisioner", name, why))
    field_errors.one_of(obj.get("reclaimPolicy"), _RECLAIM, "reclaimPolicy", causes)
    field_errors.one_of(obj.get("volumeBindingMode"), _BINDING, "volumeBindingMode", causes)
    if old is not None:
        causes += [
            field_errors.forbidden(key, f"updates to {key} are forbidden.")
            for key in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")
            if obj.get(key) != old.get(key)
        ]
    return causes
