"""The scale subresource: the number of replicas as an autoscaling/v1 Scale, for built-in and custom kinds.

Source: Kubernetes API reference, Scale v1 autoscaling; CustomResourceDefinition `subresources.scale` (three paths).
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import ApiError, FieldError, Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.contract import Resource
from cotenant_local.apiserver.kinds import shapes
from cotenant_local.apiserver.verbs.errors import bad_request, conflict, shown
from cotenant_local.apiserver.verbs.object_meta import metadata_of

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def _parts(path: str) -> list[str]:
    return [part for part in path.split(".") if part]


def _read(obj: Manifest, path: str) -> object:
    value: JsonValue = obj
    for part in _parts(path):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def _selector_text(selector: object) -> str:
    """A label selector in the text form of list requests."""
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or ():
        values = ",".join(sorted(term.get("values") or ()))
        forms = {
            "In": f"{term['key']} in ({values})",
            "NotIn": f"{term['key']} notin ({values})",
            "Exists": term["key"],
            "DoesNotExist": f"!{term['key']}",
        }
        terms.append(forms[term["operator"]])
    return ",".join(terms)


def scale_of(obj: Manifest, resource: Resource) -> Manifest:
    """The Scale of an object."""
    spec_path, status_path, selector = resource.scale_paths
    status: Manifest = {"replicas": _read(obj, status_path) or 0}
    text = _selector_text(_read(obj, selector))
    if not text and not resource.is_custom:
        text = _selector_text(_read(obj, "spec.selector"))
    if text:
        status["selector"] = text
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: obj["metadata"][name] for name in _KEPT if name in obj["metadata"]},
        "spec": {"replicas": _read(obj, spec_path) or 0},
        "status": status,
    }


def with_scale(obj: Manifest, scale: Manifest, resource: Resource) -> Manifest:
    """Set the replicas of a Scale on the object, in place. Raises ApiError 400, 409, 422."""
    if not isinstance(scale, dict) or scale.get("kind") not in (None, "", "Scale"):
        raise bad_request("not a Scale object")
    shapes.check(scale, shapes.Scale)
    metadata = metadata_of(scale)
    name = obj["metadata"]["name"]
    if metadata.get("name") not in (None, "", name):
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")
    version = metadata.get("resourceVersion")
    if version and version != obj["metadata"]["resourceVersion"]:
        raise conflict(resource, name)
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        why = f"Invalid value: {shown(replicas)}: must be greater than or equal to 0"
        raise ApiError(
            422,
            "Invalid",
            f'Scale.autoscaling "{name}" is invalid: spec.replicas: {why}',
            name=name,
            group="autoscaling",
            kind="Scale",
            causes=(FieldError("FieldValueInvalid", why, "spec.replicas"),),
        )
    at: JsonValue = obj
    *parents, last = _parts(resource.scale_paths[0])
    for part in parents:
        at = at.setdefault(part, {})
    at[last] = replicas
    return obj
