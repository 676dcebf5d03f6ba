"""Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs: selector validation, immutable fields, and the generated
selector of Jobs.

Sources: Kubernetes documentation of each workload ("Label selector updates", "Job: immutable fields", StatefulSet
limitations).
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import ApiError, FieldError, Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.kinds.behaviour import ObjectLookup, SpecBehaviour
from cotenant_local.apiserver.selectors import label_selector
from cotenant_local.apiserver.verbs.errors import bad_request, immutable, shown

_JOB_NAME = ("job-name", "batch.kubernetes.io/job-name")
_CONTROLLER_UID = ("controller-uid", "batch.kubernetes.io/controller-uid")
_JOB_IMMUTABLE = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_STATEFUL_SET_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def _check_selector(obj: Manifest) -> list[FieldError]:
    """A selector is required, and must match the labels of the template."""
    spec = obj.get("spec") or {}
    selector = spec.get("selector")
    if selector is None:
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        why = f"Invalid value: {shown(labels)}: `selector` does not match template `labels`"
        return [
            FieldError("FieldValueRequired", "Required value", "spec.selector"),
            FieldError("FieldValueInvalid", why, "spec.template.metadata.labels"),
        ]
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return [
            FieldError(
                "FieldValueInvalid",
                f"Invalid value: {shown(selector)}: empty selector is invalid for {_name(obj)}",
                "spec.selector",
            )
        ]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    try:
        is_selected = label_selector(selector).matches(labels)
    except ApiError as error:
        return [FieldError("FieldValueInvalid", f"Invalid value: {shown(selector)}: {error.message}", "spec.selector")]
    if is_selected:
        return []
    why = f"Invalid value: {shown(labels)}: `selector` does not match template `labels`"
    return [FieldError("FieldValueInvalid", why, "spec.template.metadata.labels")]


def _name(obj: Manifest) -> str:
    kind = str(obj.get("kind", "")).lower()
    return "deployment" if kind == "replicaset" else kind  # as in kube-apiserver's message


class WorkloadBehaviour(SpecBehaviour):
    """A Deployment, ReplicaSet or DaemonSet: the selector is immutable."""

    def check_create(self, obj: Manifest) -> list[FieldError]:
        """Validate the selector."""
        return _check_selector(obj)

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """Validate the selector, which is immutable."""
        causes = _check_selector(obj)
        if (obj.get("spec") or {}).get("selector") != old["spec"].get("selector"):
            causes.append(immutable("spec.selector", (obj.get("spec") or {}).get("selector")))
        return causes


class StatefulSetBehaviour(SpecBehaviour):
    """A StatefulSet: most of its spec is immutable."""

    def check_create(self, obj: Manifest) -> list[FieldError]:
        """Validate the selector."""
        return _check_selector(obj)

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """Only some fields of the spec may change."""
        new, before = obj.get("spec") or {}, old["spec"]
        if all(
            new.get(name) == before.get(name)
            for name in new.keys() | before.keys()
            if name not in _STATEFUL_SET_MUTABLE
        ):
            return _check_selector(obj)
        why = (
            "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
            "'updateStrategy', "
            "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        )
        return [FieldError("FieldValueForbidden", why, "spec")]


class JobBehaviour(SpecBehaviour):
    """A Job: selects its pods by its own UID; its template is immutable.

    A delete without a propagation policy orphans its pods (kubectl sends Background).
    """

    default_propagation = "Orphan"

    def prepare_create(self, obj: Manifest, world: ObjectLookup) -> None:
        """Set unique labels on the template and a matching selector, unless `manualSelector` is set."""
        obj["status"] = {}
        spec = obj.get("spec")
        if not isinstance(spec, dict) or not isinstance(spec.get("template"), dict):
            raise bad_request("Job: spec.template: expected an object")
        if spec.get("manualSelector"):
            return
        metadata = obj["metadata"]
        template: Manifest = spec["template"].get("metadata") or {}
        labels = dict(template.get("labels") or {})
        for name in _JOB_NAME:
            labels.setdefault(name, metadata["name"])
        for name in _CONTROLLER_UID:
            labels.setdefault(name, metadata["uid"])
        spec["template"]["metadata"] = {**template, "labels": labels}
        if not metadata.get("labels"):
            metadata["labels"] = dict(labels)
        selector = spec.get("selector") or {}
        match = dict(selector.get("matchLabels") or {})
        match.setdefault(_CONTROLLER_UID[1], metadata["uid"])
        spec["selector"] = {**selector, "matchLabels": match}

    def check_create(self, obj: Manifest) -> list[FieldError]:
        """The selector must be the generated one, unless `manualSelector` is set; the restart policy must not be
        Always.
        """
        causes = _check_selector(obj)
        spec = obj["spec"]
        if not spec.get("manualSelector"):
            uid = obj["metadata"]["uid"]
            if (
                spec["selector"]["matchLabels"].get(_CONTROLLER_UID[1]) != uid
                or len(spec["selector"]["matchLabels"]) != 1
            ):
                causes.append(
                    FieldError("FieldValueInvalid", "Invalid value: `selector` not auto-generated", "spec.selector")
                )
        policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
        if policy not in ("OnFailure", "Never"):
            known = '"OnFailure", "Never"'
            field = "spec.template.spec.restartPolicy"
            if policy in (None, "", "Always"):
                causes.append(FieldError("FieldValueRequired", f"Required value: valid values: {known}", field))
            else:
                why = f"Unsupported value: {shown(policy)}: supported values: {known}"
                causes.append(FieldError("FieldValueNotSupported", why, field))
        return causes

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """Immutable fields; a suspended Job that never started may still change its scheduling directives."""
        new, before = obj.get("spec") or {}, old["spec"]
        causes = [
            immutable(f"spec.{name}", new.get(name)) for name in _JOB_IMMUTABLE if new.get(name) != before.get(name)
        ]
        is_indexed = before.get("completionMode") == "Indexed"
        if new.get("completions") != before.get("completions") and not (
            is_indexed and new.get("completions") is not None and new.get("completions") == new.get("parallelism")
        ):
            causes.append(immutable("spec.completions", new.get("completions")))
        may_move = bool(before.get("suspend")) and not (old.get("status") or {}).get("startTime")
        if new.get("template") != before.get("template") and not (
            may_move and _only_directives(new["template"], before["template"])
        ):
            causes.append(immutable("spec.template", new.get("template")))
        return causes


def _only_directives(new: JsonValue, old: JsonValue) -> bool:
    """Whether two pod templates differ only in scheduling directives, resources, labels and annotations."""

    def without_directives(template: JsonValue) -> object:
        spec = {
            name: value
            for name, value in (template.get("spec") or {}).items()
            if name
            not in ("affinity", "nodeSelector", "tolerations", "schedulingGates", "containers", "initContainers")
        }
        for group in ("containers", "initContainers"):
            spec[group] = [
                {name: value for name, value in container.items() if name != "resources"}
                for container in (template.get("spec") or {}).get(group) or []
            ]
        affinity = dict((template.get("spec") or {}).get("affinity") or {})
        affinity.pop("nodeAffinity", None)
        metadata = {
            name: value
            for name, value in (template.get("metadata") or {}).items()
            if name not in ("labels", "annotations")
        }
        return spec, affinity, metadata

    return bool(without_directives(new) == without_directives(old))
