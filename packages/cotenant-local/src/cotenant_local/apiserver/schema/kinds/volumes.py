"""Volumes of a pod: defaults and rules.

Source: Kubernetes API reference, v1 Volume (one source each; ConfigMap and Secret files default to mode 0644).
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors

_FILES = ("secret", "configMap", "downwardAPI", "projected")
_NEEDED = {
    "configMap": "name",
    "secret": "secretName",
    "persistentVolumeClaim": "claimName",
    "hostPath": "path",
    "nfs": "server",
    "csi": "driver",
}
_NAME = frozenset({"name"})
_MODE = 0o644


def default_volumes(volumes: list[Manifest]) -> None:
    """Set the defaults of volumes."""
    for volume in volumes:
        if not volume.keys() - _NAME:
            volume["emptyDir"] = {}
            continue
        for name in _FILES:
            source = volume.get(name)
            if source is None:
                continue
            source.setdefault("defaultMode", _MODE)
            for item in source.get("items", ()):
                if "fieldRef" in item:
                    item["fieldRef"].setdefault("apiVersion", "v1")
            for entry in source.get("sources", ()):
                if "serviceAccountToken" in entry:
                    entry["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        host = volume.get("hostPath")
        if host is not None:
            host.setdefault("type", "")
        ephemeral = volume.get("ephemeral")
        if ephemeral and "volumeClaimTemplate" in ephemeral:
            ephemeral["volumeClaimTemplate"].setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def check_volumes(volumes: list[Manifest], field: str, causes: list[FieldError]) -> frozenset[str]:
    """Check volumes. Returns the names that containers may mount."""
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        here = f"{field}[{index}]"
        name = volume.get("name")
        if not name:
            causes.append(field_errors.required(f"{here}.name"))
        else:
            if why := field_errors.label_problem(name):
                causes.append(field_errors.invalid(f"{here}.name", name, why))
            if name in names:
                causes.append(field_errors.duplicate(f"{here}.name", name))
            names.add(name)
        sources = [key for key in volume if key != "name"]
        causes += [
            field_errors.forbidden(f"{here}.{extra}", "may not specify more than 1 volume type")
            for extra in sources[1:]
        ]
        if not sources:
            causes.append(field_errors.required(here, "must specify a volume type"))
        elif sources[0] in _NEEDED and not volume[sources[0]].get(_NEEDED[sources[0]]):
            causes.append(field_errors.required(f"{here}.{sources[0]}.{_NEEDED[sources[0]]}"))
    return frozenset(names)
