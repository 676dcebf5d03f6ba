"""ConfigMap, Secret, Namespace: defaults and rules.

Sources: Kubernetes API reference v1; "Secrets" (stringData is written, data is read; types with required keys; at most
1 MiB).
"""

from __future__ import annotations

import base64
import re

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors

_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_MESSAGE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', "
    "regex used for validation is '[-._a-zA-Z0-9]+')"
)
_MAX_BYTES = 1024 * 1024
_NEEDED = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def default_secret(obj: Manifest) -> None:
    """Set the defaults of a Secret, and encode `stringData` into `data`."""
    obj.setdefault("type", "Opaque")
    texts = obj.pop("stringData", None)
    if texts:
        data = obj.setdefault("data", {})
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def check_secret(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a Secret."""
    causes: list[FieldError] = []
    data = obj.get("data", {})
    _check_keys(data, "data", causes)
    _check_size(sum(len(value) * 3 // 4 for value in data.values()), causes)
    causes += [field_errors.required(f"data[{key}]") for key in _NEEDED.get(obj.get("type", ""), ()) if key not in data]
    if old is not None:
        field_errors.immutable(obj.get("type"), old.get("type"), "type", causes)
        _check_frozen(obj, old, ("data",), causes)
    return causes


def check_config_map(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a ConfigMap."""
    causes: list[FieldError] = []
    data, binary = obj.get("data", {}), obj.get("binaryData", {})
    _check_keys(data, "data", causes)
    _check_keys(binary, "binaryData", causes)
    causes += [
        field_errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        for key in data.keys() & binary.keys()
    ]
    size = sum(len(value) for value in data.values()) + sum(len(value) * 3 // 4 for value in binary.values())
    _check_size(size, causes)
    if old is not None:
        _check_frozen(obj, old, ("data", "binaryData"), causes)
    return causes


def default_namespace(obj: Manifest) -> None:
    """Set the name label of a Namespace, so that selectors can match it."""
    metadata = obj.setdefault("metadata", {})
    if metadata.get("name"):
        metadata.setdefault("labels", {}).setdefault("kubernetes.io/metadata.name", metadata["name"])


def _check_keys(data: Manifest, field: str, causes: list[FieldError]) -> None:
    for key in data:
        if len(key) > 253:
            causes.append(field_errors.invalid(f"{field}[{key}]", key, "must be no more than 253 characters"))
        elif not _KEY.fullmatch(key):
            causes.append(field_errors.invalid(f"{field}[{key}]", key, _KEY_MESSAGE))
        elif key in (".", "..") or key.startswith(".."):
            causes.append(field_errors.invalid(f"{field}[{key}]", key, "must not be '.' or '..' or start with '..'"))


def _check_size(size: int, causes: list[FieldError]) -> None:
    if size > _MAX_BYTES:
        causes.append(FieldError("FieldValueTooLong", f"Too long: may not be more than {_MAX_BYTES} bytes", ""))


def _check_frozen(obj: Manifest, old: Manifest, fields: tuple[str, ...], causes: list[FieldError]) -> None:
    if not old.get("immutable"):
        return
    if not obj.get("immutable"):
        causes.append(field_errors.forbidden("immutable", "field is immutable when `immutable` is set"))
    causes += [
        field_errors.forbidden(key, "field is immutable when `immutable` is set")
        for key in fields
        if obj.get(key, {}) != old.get(key, {})
    ]
