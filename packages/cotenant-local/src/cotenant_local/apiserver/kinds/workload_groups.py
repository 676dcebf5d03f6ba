"""Workloads, PodGroups and CompositePodGroups of the Workload API: defaults, priorities, and what may change; PodGroup
in the form of v1alpha2.

Of a group only the minimum of its gang may change, of a Workload those of its templates. Left out: the finalizer that
keeps a PodGroup while pods of it exist, and the checks of shared claims.

Source: KEP-4671 "Pod Group minCount Mutability", KEP-5710 "Pod Group priorities"; types.go of
scheduling.k8s.io/v1alpha2 and v1beta1.
"""

from __future__ import annotations

from copy import deepcopy

from cotenant.drivers.kube.manifests.errors import ApiError, FieldError, Manifest
from cotenant_local.apiserver.contract import Resource
from cotenant_local.apiserver.kinds.behaviour import KindBehaviour, ObjectLookup, SpecBehaviour
from cotenant_local.apiserver.kinds.pods.admission import Priorities
from cotenant_local.apiserver.verbs.errors import immutable

_GROUP = "scheduling.k8s.io"
_MINIMA = ("minCount", "minGroupCount")
_PLURALS = {"PodGroup": "podgroups", "CompositePodGroup": "compositepodgroups"}


class PodGroupBehaviour(SpecBehaviour):
    """A PodGroup or a CompositePodGroup."""

    def __init__(self) -> None:
        super().__init__({})
        self._priorities = Priorities()

    def admit(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> None:
        """Set the default disruption mode, and the priority of the class.

        Raises ApiError 403 for an unknown class or Workload.
        """
        spec = obj.get("spec")
        if old is not None or not isinstance(spec, dict):
            return
        is_alpha = obj.get("apiVersion") == f"{_GROUP}/v1alpha2"
        if not spec.get("disruptionMode"):
            spec["disruptionMode"] = "Pod" if is_alpha else {"single": {}}
        found = self._priorities.of_class(spec.get("priorityClassName") or "", world)
        if found is None:
            raise _forbidden(obj, f"no PriorityClass with name {spec['priorityClassName']} was found")
        name, priority, policy = found
        if spec.get("priority") not in (None, priority):
            raise _forbidden(obj, f"the integer value of priority ({spec['priority']}) must not be provided in spec")
        if name:
            spec["priorityClassName"] = name
        spec["priority"] = priority
        if not is_alpha:
            spec["preemptionPolicy"] = policy
        reference = spec.get("workloadRef") or (spec.get("podGroupTemplateRef") or {}).get("workload") or {}
        workload = reference.get("workloadName")
        if workload and world.lookup(_GROUP, "workloads", obj["metadata"].get("namespace", ""), workload) is None:
            raise _forbidden(obj, f'workload "{workload}" not found')

    def check_create(self, obj: Manifest) -> list[FieldError]:
        """Exactly one policy, with a minimum of at least 1."""
        spec = obj.get("spec") or {}
        policy = spec.get("schedulingPolicy")
        field = "spec.schedulingPolicy"
        if (
            not isinstance(policy, dict)
            or len([part for part in ("basic", "gang") if policy.get(part) is not None]) != 1
        ):
            return [
                FieldError(
                    "FieldValueInvalid", 'Invalid value: "": must specify exactly one of: `basic`, `gang`', field
                )
            ]
        causes = _minimum_causes(policy, obj, field)
        is_pod_by_pod = obj.get("kind") == "PodGroup" and policy.get("gang") is None
        if is_pod_by_pod and _is_all(spec.get("disruptionMode")):
            why = "Forbidden: pods with the basic policy can only be disrupted one by one"
            causes.append(FieldError("FieldValueForbidden", why, "spec.disruptionMode"))
        return causes

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """Everything but the minimum is immutable."""
        if subresource:
            return []
        new, before = obj.get("spec") or {}, old.get("spec") or {}
        if _without_minima(new) != _without_minima(before):
            return [immutable("spec", {})]
        return _minimum_causes(new.get("schedulingPolicy") or {}, obj, "spec.schedulingPolicy")


class WorkloadObjectBehaviour(KindBehaviour):
    """A Workload."""

    has_generation = True

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """Everything but the minima of templates is immutable."""
        if _without_minima(obj.get("spec") or {}) != _without_minima(old.get("spec") or {}):
            return [immutable("spec", {})]
        return []


def is_alpha_group(resource: Resource) -> bool:
    """Whether a resource is PodGroup in v1alpha2."""
    return (resource.group, resource.kind, resource.version) == (_GROUP, "PodGroup", "v1alpha2")


def to_alpha(obj: Manifest) -> Manifest:
    """A PodGroup in the form of v1alpha2."""
    spec = dict(obj.get("spec") or {})
    reference, mode = spec.pop("workloadRef", None), spec.pop("disruptionMode", None)
    if reference:
        found = {"workloadName": reference.get("workloadName"), "podGroupTemplateName": reference.get("templateName")}
        spec["podGroupTemplateRef"] = {"workload": found}
    if mode is not None:
        spec["disruptionMode"] = "PodGroup" if _is_all(mode) else "Pod"
    for later in ("preemptionPolicy", "parentCompositePodGroupName"):
        spec.pop(later, None)
    return {**obj, "spec": spec}


def from_alpha(obj: Manifest) -> Manifest:
    """A PodGroup of v1alpha2 in the form of v1beta1."""
    spec = dict(obj.get("spec") or {})
    reference, mode = (spec.pop("podGroupTemplateRef", None) or {}).get("workload"), spec.pop("disruptionMode", None)
    if reference:
        found = {"workloadName": reference.get("workloadName"), "templateName": reference.get("podGroupTemplateName")}
        spec["workloadRef"] = found
    if mode is not None:
        spec["disruptionMode"] = {"all": {}} if mode == "PodGroup" else {"single": {}}
    return {**obj, "spec": spec}


def _is_all(mode: object) -> bool:
    return mode.get("all") is not None if isinstance(mode, dict) else mode == "PodGroup"


def _minimum_causes(policy: Manifest, obj: Manifest, field: str) -> list[FieldError]:
    gang = policy.get("gang")
    if gang is None:
        return []
    name = "minGroupCount" if obj.get("kind") == "CompositePodGroup" else "minCount"
    value = gang.get(name)
    if isinstance(value, int) and value >= 1:
        return []
    if value is None:
        return [FieldError("FieldValueRequired", "Required value", f"{field}.gang.{name}")]
    why = f"Invalid value: {value}: must be greater than or equal to 1"
    return [FieldError("FieldValueInvalid", why, f"{field}.gang.{name}")]


def _without_minima(value: object) -> object:
    """The same without the minima of gangs, at any depth."""
    if isinstance(value, dict):
        return {key: _without_minima(part) for key, part in value.items() if key not in _MINIMA}
    return [_without_minima(part) for part in value] if isinstance(value, list) else deepcopy(value)


def _forbidden(obj: Manifest, why: str) -> ApiError:
    name = obj["metadata"].get("name") or obj["metadata"].get("generateName") or ""
    plural = _PLURALS.get(str(obj.get("kind")), "podgroups")
    return ApiError(403, "Forbidden", f'{plural}.{_GROUP} "{name}" is forbidden: {why}', name=name, kind=plural)
