"""Updates of pods: image, deadline, added tolerations, removed scheduling gates; resources through /resize.

Sources: Kubernetes documentation "Pod update and replacement", "Pod Scheduling Readiness", "Resize CPU and Memory
Resources assigned to Containers", "Ephemeral Containers".
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import ApiError, FieldError, Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.kinds.pods.qos import qos_class
from cotenant_local.apiserver.verbs.errors import shown

_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to "
    "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_GROUPS = ("containers", "initContainers")
_RESIZABLE = ("cpu", "memory")


def _forbidden(field: str, why: str) -> FieldError:
    return FieldError("FieldValueForbidden", f"Forbidden: {why}", field)


def check_spec(new: Manifest, old: Manifest) -> list[FieldError]:
    """Validation errors of a pod spec update."""
    if new == old:
        return []
    masked = dict(new)
    for group in _GROUPS:
        before, after = old.get(group) or [], new.get(group) or []
        if len(before) != len(after):
            return [_forbidden(f"spec.{group}", "pod updates may not add or remove containers")]
        causes = [
            FieldError("FieldValueRequired", "Required value", f"spec.{group}[{at}].image")
            for at, container in enumerate(after)
            if not container.get("image")
        ]
        if causes:
            return causes
        if before:
            masked[group] = [
                {**container, "image": was.get("image")} for container, was in zip(after, before, strict=True)
            ]
    causes = _check_deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    causes += _check_tolerations(new.get("tolerations") or [], old.get("tolerations") or [])
    causes += _check_gates(new.get("schedulingGates") or [], old.get("schedulingGates") or [])
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _as_before(masked, old, name)
    if int(old.get("terminationGracePeriodSeconds") or 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        _as_before(masked, old, "terminationGracePeriodSeconds")
    if old.get("schedulingGates"):
        causes += _check_gated(masked, old)
    if masked != old and not causes:
        changed = sorted(name for name in masked.keys() | old.keys() if masked.get(name) != old.get(name))
        causes.append(
            _forbidden(
                "spec", f"pod updates may not change fields other than {_UPDATABLE}\n(changed: {', '.join(changed)})"
            )
        )
    return causes


def _as_before(masked: dict[str, object], old: Manifest, name: str) -> None:
    if name in old:
        masked[name] = old[name]
    else:
        masked.pop(name, None)


def _check_deadline(new: JsonValue, old: JsonValue) -> list[FieldError]:
    field = "spec.activeDeadlineSeconds"
    if new is None:
        if old is None:
            return []
        return [
            FieldError(
                "FieldValueInvalid", "Invalid value: null: must not update from a positive integer to nil value", field
            )
        ]
    if not isinstance(new, int) or not 0 <= new < 2**31:
        return [
            FieldError(
                "FieldValueInvalid", f"Invalid value: {shown(new)}: must be between 0 and 2147483647, inclusive", field
            )
        ]
    if old is not None and new > old:
        return [
            FieldError(
                "FieldValueInvalid", f"Invalid value: {new}: must be less than or equal to previous value", field
            )
        ]
    return []


def _bare(toleration: JsonValue) -> object:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _check_tolerations(new: list[JsonValue], old: list[JsonValue]) -> list[FieldError]:
    present = [_bare(toleration) for toleration in new]
    if all(_bare(toleration) in present for toleration in old):
        return []
    return [_forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _check_gates(new: list[JsonValue], old: list[JsonValue]) -> list[FieldError]:
    known = {gate.get("name") for gate in old}
    return [
        _forbidden(
            f"spec.schedulingGates[{at}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for at, gate in enumerate(new)
        if gate.get("name") not in known
    ]


def _check_gated(masked: Manifest, old: Manifest) -> list[FieldError]:
    """A gated pod may narrow its node selection: add to nodeSelector and to required node affinity."""
    causes: list[FieldError] = []
    before, after = old.get("nodeSelector") or {}, masked.get("nodeSelector") or {}
    if before != after:
        if any(after.get(key) != value for key, value in before.items()):
            why = (
                f"Invalid value: {shown(after)}: only additions to spec.nodeSelector are allowed (no mutations or "
                "deletions)"
            )
            causes.append(FieldError("FieldValueInvalid", why, "spec.nodeSelector"))
        _as_before(masked, old, "nodeSelector")
    was = dict(old.get("affinity") or {})
    now = dict(masked.get("affinity") or {})
    node_before, node_after = was.pop("nodeAffinity", None) or {}, now.pop("nodeAffinity", None) or {}
    if node_before != node_after:
        if not _is_narrower(_terms(node_after), _terms(node_before)):
            why = "Invalid value: only additions are allowed to the terms of a gated pod's required node affinity"
            causes.append(FieldError("FieldValueInvalid", why, "spec.affinity.nodeAffinity"))
        if was == now:
            _as_before(masked, old, "affinity")
    return causes


def _terms(node_affinity: JsonValue) -> list[object]:
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return required.get("nodeSelectorTerms") or []


def _is_narrower(new: list[JsonValue], old: list[JsonValue]) -> bool:
    if not old:
        return True
    if len(new) != len(old):
        return False
    for after, before in zip(new, old, strict=True):
        for name in ("matchExpressions", "matchFields"):
            present = after.get(name) or []
            if any(expression not in present for expression in before.get(name) or []):
                return False
    return True


def merge_resize(new: Manifest, base: Manifest) -> Manifest:
    """The stored pod with the containers' resources and resize policies of `new`. Raises ApiError 422 if the
    containers differ.
    """
    for group in _GROUPS:
        before, after = base["spec"].get(group) or [], new["spec"].get(group) or []
        if [container.get("name") for container in before] != [container.get("name") for container in after]:
            cause = _forbidden(f"spec.{group}", "containers may not be added, removed, renamed or reordered on resize")
            name = base["metadata"]["name"]
            raise ApiError(
                422,
                "Invalid",
                f'Pod "{name}" is invalid: {cause.field}: {cause.message}',
                name=name,
                kind="Pod",
                causes=(cause,),
            )
        for was, container in zip(before, after, strict=True):
            for field in ("resources", "resizePolicy"):
                if field in container:
                    was[field] = container[field]
                else:
                    was.pop(field, None)
    return base


def check_resize(new: Manifest, old: Manifest) -> list[FieldError]:
    """Validation errors of a resize."""
    causes: list[FieldError] = []
    if qos_class(new["spec"]) != qos_class(old["spec"]):
        shown_class = shown(qos_class(new["spec"]))
        causes.append(
            FieldError(
                "FieldValueInvalid",
                f"Invalid value: {shown_class}: Pod QOS Class may not change as a result of resizing",
                "spec",
            )
        )
    for group in _GROUPS:
        for at, (after, before) in enumerate(
            zip(new["spec"].get(group) or [], old["spec"].get(group) or [], strict=True)
        ):
            causes += _check_container(after, before, f"spec.{group}[{at}].resources", is_main=group == "containers")
    return causes


def _check_container(new: JsonValue, old: JsonValue, field: str, *, is_main: bool) -> list[FieldError]:
    after, before = new.get("resources") or {}, old.get("resources") or {}
    if after == before:
        return []
    if not is_main and old.get("restartPolicy") != "Always":
        return [_forbidden(field, "only sidecar and main containers can be resized")]
    causes: list[FieldError] = []
    for name in ("requests", "limits"):
        present, was = after.get(name) or {}, before.get(name) or {}
        if any(resource not in present for resource in was if resource in _RESIZABLE):
            causes.append(_forbidden(field, f"resource {name} cannot be removed"))
        if any(present.get(key) != was.get(key) for key in present.keys() | was.keys() if key not in _RESIZABLE):
            causes.append(_forbidden("spec", "only cpu and memory resources are mutable"))
    if after.get("claims") != before.get("claims"):
        causes.append(_forbidden("spec", "only cpu and memory resources are mutable"))
    return causes


def merge_ephemeral(new: Manifest, base: Manifest) -> Manifest:
    """The stored pod with the ephemeral containers of `new`."""
    containers = new["spec"].get("ephemeralContainers")
    if containers:
        base["spec"]["ephemeralContainers"] = containers
    else:
        base["spec"].pop("ephemeralContainers", None)
    return base


def check_ephemeral(new: Manifest, old: Manifest) -> list[FieldError]:
    """Ephemeral containers may be added; existing ones are immutable."""
    after = {container.get("name"): container for container in new["spec"].get("ephemeralContainers") or []}
    return [
        _forbidden(
            "spec.ephemeralContainers", f'existing ephemeral containers "{container.get("name")}" may not be changed'
        )
        if container.get("name") in after
        else _forbidden(
            "spec.ephemeralContainers", f'existing ephemeral containers "{container.get("name")}" may not be removed'
        )
        for container in old["spec"].get("ephemeralContainers") or []
        if after.get(container.get("name")) != container
    ]
