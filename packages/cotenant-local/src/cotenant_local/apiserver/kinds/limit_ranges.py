"""Limit ranges at work: requests and limits that a namespace gives to containers without, and the bounds of what pods
and claims may ask for. New objects only.

Limits: amounts of a pod as a whole are not defaulted.
Source: Kubernetes documentation "Limit Ranges", and the words of the admission controller LimitRanger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant.model.quantities import NANO, Quantity, QuantityFormat
from cotenant_local.apiserver.kinds.behaviour import ObjectLookup
from cotenant_local.apiserver.schema.kinds.field_errors import nano

ANNOTATION = "kubernetes.io/limit-ranger"
_STORAGE = ("", "limitranges")
Amounts = Mapping[str, str]


class LimitRanges:
    """The limits of each namespace, cached until a LimitRange changes."""

    def __init__(self) -> None:
        self._version = -1
        self._by_namespace: dict[str, list[Manifest]] = {}

    def fill(self, pod: Manifest, world: ObjectLookup) -> None:
        """Give containers the requests and limits that they lack, and say so in an annotation."""
        said: list[str] = []
        for limit in self._of(pod["metadata"].get("namespace") or "", "Container", world):
            for group in ("initContainers", "containers"):
                for container in pod["spec"].get(group) or ():
                    said += _fill(container, limit, "init container" if group == "initContainers" else "container")
        if said:
            annotations = pod["metadata"].get("annotations") or {}
            pod["metadata"]["annotations"] = {**annotations, ANNOTATION: f"LimitRanger plugin set: {'; '.join(said)}"}

    def check_pod(self, pod: Manifest, world: ObjectLookup) -> None:
        """Raises ApiError 403 for a pod that is out of bounds."""
        namespace, spec = pod["metadata"]["namespace"], pod["spec"]
        containers, initial = spec.get("containers") or [], spec.get("initContainers") or []
        broken: list[str] = []
        for limit in self._of(namespace, "Container", world):
            for container in (*containers, *initial):
                resources = container.get("resources") or {}
                broken += _broken(limit, resources.get("requests") or {}, resources.get("limits") or {})
        for limit in self._of(namespace, "Pod", world):
            amounts = [_total(containers, initial, of) for of in ("requests", "limits")]
            broken += _broken(limit, *amounts)
        _refuse("pods", pod, broken)

    def check_claim(self, claim: Manifest, world: ObjectLookup) -> None:
        """Raises ApiError 403 for a volume claim that is out of bounds."""
        requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
        broken: list[str] = []
        for limit in self._of(claim["metadata"]["namespace"], "PersistentVolumeClaim", world):
            broken += _broken(limit, requests, None)
        _refuse("persistentvolumeclaims", claim, broken)

    def _of(self, namespace: str, kind: str, world: ObjectLookup) -> list[Manifest]:
        version = world.version(*_STORAGE)
        if version != self._version:
            self._by_namespace = {}
            for found in world.scan(*_STORAGE):
                limits = (found.get("spec") or {}).get("limits") or ()
                self._by_namespace.setdefault(found["metadata"]["namespace"], []).extend(limits)
            self._version = version
        return [limit for limit in self._by_namespace.get(namespace, ()) if limit.get("type") == kind]


def _fill(container: Manifest, limit: Manifest, shown: str) -> list[str]:
    said = []
    for field, defaults, word in (
        ("requests", limit.get("defaultRequest"), "request"),
        ("limits", limit.get("default"), "limit"),
    ):
        given = (container.get("resources") or {}).get(field) or {}
        lacking = {name: amount for name, amount in (defaults or {}).items() if name not in given}
        if lacking:
            container["resources"] = {**(container.get("resources") or {}), field: {**given, **lacking}}
            said.append(f"{', '.join(sorted(lacking))} {word} for {shown} {container.get('name')}")
    return said


def _broken(limit: Manifest, requests: Amounts, limits: Amounts | None) -> list[str]:
    """The rules of one limit that amounts break. `limits` is None for what has none."""
    kind, found = limit["type"], []
    for name, least in sorted((limit.get("min") or {}).items()):
        start = f"minimum {name} usage per {kind} is {least}"
        if name not in requests:
            found.append(f"{start}.  No request is specified")
        elif nano(requests[name]) < nano(least):
            found.append(f"{start}, but request is {requests[name]}")
        elif limits is not None and name in limits and nano(limits[name]) < nano(least):
            found.append(f"{start}, but limit is {limits[name]}")
    for name, most in sorted((limit.get("max") or {}).items()):
        start = f"maximum {name} usage per {kind} is {most}"
        if limits is not None and name not in limits:
            found.append(f"{start}.  No limit is specified")
        elif limits is not None and nano(limits[name]) > nano(most):
            found.append(f"{start}, but limit is {limits[name]}")
        elif name in requests and nano(requests[name]) > nano(most):
            found.append(f"{start}, but request is {requests[name]}")
    for name, ratio in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        found += _ratio(name, kind, ratio, requests, limits or {})
    return found


def _ratio(name: str, kind: str, ratio: str, requests: Amounts, limits: Amounts) -> list[str]:
    start = f"{name} max limit to request ratio per {kind} is {ratio}"
    request, limit = nano(requests.get(name, "0")), nano(limits.get(name, "0"))
    if not request:
        return [f"{start}, but no request is specified or request is 0"]
    if not limit:
        return [f"{start}, but no limit is specified or limit is 0"]
    if limit * NANO <= nano(ratio) * request:
        return []
    return [f"{start}, but provided ratio is {limit / request:f}"]


def _total(containers: Iterable[Manifest], initial: Iterable[Manifest], of: str) -> dict[str, str]:
    """What a pod asks for: its containers together, or its largest initial one."""
    total: dict[str, int] = {}
    for container in containers:
        for name, amount in ((container.get("resources") or {}).get(of) or {}).items():
            total[name] = total.get(name, 0) + nano(amount)
    for container in initial:
        for name, amount in ((container.get("resources") or {}).get(of) or {}).items():
            total[name] = max(total.get(name, 0), nano(amount))
    return {name: str(Quantity(amount, _form(name))) for name, amount in total.items()}


def _form(name: str) -> QuantityFormat:
    return QuantityFormat.BINARY if name.endswith(("memory", "storage")) else QuantityFormat.DECIMAL


def _refuse(plural: str, obj: Manifest, broken: list[str]) -> None:
    reasons = list(dict.fromkeys(broken))
    if not reasons:
        return
    name = obj["metadata"].get("name") or ""
    why = reasons[0] if len(reasons) == 1 else f"[{', '.join(reasons)}]"
    raise ApiError(403, "Forbidden", f'{plural} "{name}" is forbidden: {why}', name=name, kind=plural)
