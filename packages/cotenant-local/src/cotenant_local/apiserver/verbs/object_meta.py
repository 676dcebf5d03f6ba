"""ObjectMeta: the fields that the server sets, the fields that an update keeps, and the validation of the rest.

Sources: Kubernetes API conventions "Metadata"; the validation rules of ObjectMeta as documented for labels,
annotations, finalizers and owner references.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import ApiError, FieldError, Manifest
from cotenant_local.apiserver.contract import RequestTarget, ResourceScope
from cotenant_local.apiserver.schema.kinds.field_errors import key_problem, value_problem
from cotenant_local.apiserver.verbs.errors import bad_request, immutable, shown

_STANDARD_FINALIZERS = (
    "kubernetes",
    "foregroundDeletion",
    "orphan",
    "customresourcecleanup.apiextensions.k8s.io",  # of a definition whose objects are being deleted
)
_ANNOTATIONS_BYTES = 256 * 1024
_TEXTS = ("name", "generateName", "namespace", "uid", "resourceVersion")
_SYSTEM = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields")
_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def metadata_of(obj: Manifest) -> Manifest:
    """The metadata, created if absent. Raises ApiError 400 if it is not an object."""
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata: expected an object")
    for name in _TEXTS:
        if not isinstance(metadata.get(name, ""), str | None):
            raise bad_request(f"metadata.{name}: expected a string, got {shown(metadata[name])}")
    return metadata


def check_type(obj: Manifest, target: RequestTarget) -> None:
    """Check that the document has the resource's kind; set apiVersion and kind if absent. Raises ApiError 400.

    A custom object must contain both, as on the real server, whose decoder has no Go type to infer them from.
    """
    if not isinstance(obj, dict):
        raise bad_request("the object provided is not a JSON object")
    resource = target.resource
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if version and version != resource.api_version:
        raise _unhandled(kind or resource.kind, version, resource.kind)
    if kind and kind != resource.kind:
        raise _unhandled(kind, resource.api_version, resource.kind)
    if resource.is_custom and not kind:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): Object 'Kind' is missing"
        )
    if resource.is_custom and not version:
        raise bad_request(
            f"the API version in the data () does not match the expected API version ({resource.api_version})"
        )
    if not version or not kind:
        obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind


def _unhandled(kind: str, version: str, wanted: str) -> ApiError:
    return bad_request(
        f'{kind} in version "{version}" cannot be handled as a {wanted}: no kind "{kind}" is registered for version '
        f'"{version}"'
    )


def set_namespace(metadata: Manifest, target: RequestTarget) -> None:
    """Set the request's namespace on an object. Raises ApiError 400 if it names another."""
    named = metadata.get("namespace") or ""
    if target.resource.scope is ResourceScope.CLUSTER:
        if named:
            raise bad_request("namespace may not be set on a cluster-scoped object")
        metadata.pop("namespace", None)
        return
    if named and named != target.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = target.namespace


def set_system_fields(metadata: Manifest, uid: str, stamp: str, *, has_generation: bool) -> None:
    """Set the system fields of a new object. Raises ApiError if the client set a resourceVersion."""
    if metadata.get("resourceVersion"):
        raise ApiError(500, "", "resourceVersion should not be set on objects to be created")  # as the real server does
    metadata.pop("resourceVersion", None)
    for name in _SYSTEM:
        metadata.pop(name, None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = stamp
    if has_generation:
        metadata["generation"] = 1
    else:
        metadata.pop("generation", None)


def check_kept(metadata: Manifest, old: Manifest) -> list[FieldError]:
    """Errors for changed system fields; leaving them out is allowed."""
    return [
        immutable(f"metadata.{name}", metadata[name])
        for name in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
        if metadata.get(name) and metadata[name] != old.get(name)
    ]


def check_uid(metadata: Manifest, old: Manifest) -> list[FieldError]:
    """As `check_kept`, for the UID alone."""
    return [cause for cause in check_kept(metadata, old) if cause.field == "metadata.uid"]


def keep_system_fields(metadata: Manifest, old: Manifest) -> None:
    """Copy the fields that an update cannot change from the stored object."""
    for name in _KEPT:
        if name in old:
            metadata[name] = old[name]
        else:
            metadata.pop(name, None)
    metadata.pop("selfLink", None)
    metadata["resourceVersion"] = old.get("resourceVersion", "")


def check_labels(labels: object, path: str) -> list[FieldError]:
    """Validation errors of a label map."""
    if labels is None:
        return []
    if not isinstance(labels, dict):
        return [FieldError("FieldValueInvalid", f"Invalid value: {shown(labels)}: must be a map of strings", path)]
    causes: list[FieldError] = []
    for key, value in labels.items():
        if why := key_problem(key):
            causes.append(FieldError("FieldValueInvalid", f'Invalid value: "{key}": {why}', path))
        if not isinstance(value, str):
            causes.append(
                FieldError("FieldValueInvalid", f"Invalid value: {shown(value)}: must be a string", f"{path}.{key}")
            )
        elif why := value_problem(value):
            causes.append(FieldError("FieldValueInvalid", f'Invalid value: "{value}": {why}', path))
    return causes


def _check_annotations(annotations: object) -> list[FieldError]:
    path = "metadata.annotations"
    if annotations is None:
        return []
    if not isinstance(annotations, dict):
        return [FieldError("FieldValueInvalid", f"Invalid value: {shown(annotations)}: must be a map of strings", path)]
    causes: list[FieldError] = []
    size = 0
    for key, value in annotations.items():
        if why := key_problem(key.lower()):
            causes.append(FieldError("FieldValueInvalid", f'Invalid value: "{key}": {why}', path))
        if not isinstance(value, str):
            causes.append(
                FieldError("FieldValueInvalid", f"Invalid value: {shown(value)}: must be a string", f"{path}.{key}")
            )
        else:
            size += len(key.encode()) + len(value.encode())
    if size > _ANNOTATIONS_BYTES:
        causes.append(
            FieldError("FieldValueTooLong", f"Too long: may not be more than {_ANNOTATIONS_BYTES} bytes", path)
        )
    return causes


def _check_owners(owners: object) -> list[FieldError]:
    path = "metadata.ownerReferences"
    if owners is None:
        return []
    if not isinstance(owners, list):
        return [FieldError("FieldValueInvalid", f"Invalid value: {shown(owners)}: must be a list", path)]
    causes: list[FieldError] = []
    controllers: list[str] = []
    for at, owner in enumerate(owners):
        if not isinstance(owner, dict):
            causes.append(
                FieldError("FieldValueInvalid", f"Invalid value: {shown(owner)}: must be an object", f"{path}[{at}]")
            )
            continue
        for name, what in (("apiVersion", "version must"), ("kind", "must"), ("name", "must"), ("uid", "must")):
            if not owner.get(name):
                causes.append(
                    FieldError("FieldValueInvalid", f'Invalid value: "": {what} not be empty', f"{path}.{name}")
                )
        if owner.get("controller") is True:
            controllers.append(f"{owner.get('kind', '')}/{owner.get('name', '')}")
    if len(controllers) > 1:
        causes.append(
            FieldError(
                "FieldValueInvalid",
                f'Invalid value: {shown(owners)}: Only one reference can have Controller set to true. Found "true" in '
                "references for "
                f"{' and '.join(controllers[:2])}",
                path,
            )
        )
    return causes


def check_metadata(metadata: Manifest, old: Manifest | None, *, is_core: bool = True) -> list[FieldError]:
    """Validation errors of the metadata (names excepted). `is_core` False: finalizers need no domain."""
    causes: list[FieldError] = []
    if "labels" in metadata:
        causes += check_labels(metadata["labels"], "metadata.labels")
    if "annotations" in metadata:
        causes += _check_annotations(metadata["annotations"])
    if "ownerReferences" in metadata:
        causes += _check_owners(metadata["ownerReferences"])
    finalizers = metadata.get("finalizers")
    if finalizers:
        causes += _check_finalizers(finalizers, old, is_core=is_core)
    return causes


def _check_finalizers(finalizers: object, old: Manifest | None, *, is_core: bool) -> list[FieldError]:
    path = "metadata.finalizers"
    if not isinstance(finalizers, list) or not all(isinstance(name, str) for name in finalizers):
        return [FieldError("FieldValueInvalid", f"Invalid value: {shown(finalizers)}: must be a list of strings", path)]
    causes = [
        FieldError("FieldValueInvalid", f'Invalid value: "{name}": {why}', path)
        for name in finalizers
        if (why := key_problem(name))
    ]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(FieldError("FieldValueInvalid", f"Invalid value: {shown(finalizers)}: {why}", path))
    for at, name in enumerate(finalizers):
        if is_core and "/" not in name and name not in _STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(FieldError("FieldValueInvalid", f'Invalid value: "{name}": {why}', f"{path}[{at}]"))
    if old is not None and old.get("deletionTimestamp"):
        new = sorted(set(finalizers) - set(old.get("finalizers") or ()))
        if new:
            causes.append(
                FieldError(
                    "FieldValueForbidden",
                    f"Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
                    f"[]string{{{', '.join(shown(name) for name in new)}}}",
                    path,
                )
            )
    return causes


def is_done(obj: Manifest) -> bool:
    """Whether an object being deleted can be removed (no finalizer, no grace period left)."""
    metadata = obj["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )
