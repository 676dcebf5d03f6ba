"""The Reservation of a migration, made from the pod as the API server has it.

Room must be reserved for a pod that does not exist yet, the replacement of one that will be evicted. What of the pod
decides about its placement is copied as it is stored, also fields that this project does not know by name in scheduling
parts; its controller is the owner (a bare pod: a pod of its name), it is used once, never on the present node, and on
one node only where the move was planned for it. Commands, environment and secrets are not copied. Labels of gangs and
quotas are left out, so the reservation is charged to no quota and is no member; it evicts no pod.
Limits: volumes other than claims are left out.
Source: Koordinator, pkg/descheduler/controllers/migration/reservation/util.go.
"""

from __future__ import annotations

from copy import deepcopy

from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS
from cotenant.model.cluster.affinity import NAME_FIELD
from cotenant.model.cluster.seal import BY_SCHEDULER
from cotenant.model.groups import quota
from cotenant.model.groups.gang import LIGHT_MATCH_POLICY, LIGHT_MIN_AVAILABLE, LIGHT_NAME, POD_GROUP
from cotenant.model.groups.migration import COMPONENT, CREATED_BY, SURGED
from cotenant.model.groups.reservation import KIND
from cotenant.model.groups.reservation_notes import ORDER
from cotenant.model.json_object import JsonMapping, JsonObject

_SPEC = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "schedulerName",
    "priority",
    "priorityClassName",
    "overhead",
    "hostNetwork",
    "runtimeClassName",
    "resources",
)
_CONTAINER = ("name", "image", "resources", "ports", "restartPolicy")
_NO_LABELS = frozenset({POD_GROUP, LIGHT_NAME, LIGHT_MIN_AVAILABLE, LIGHT_MATCH_POLICY, quota.NAME})
_NO_NOTES = frozenset(
    {
        *BY_SCHEDULER,
        LIGHT_NAME,
        LIGHT_MIN_AVAILABLE,
        LIGHT_MATCH_POLICY,
        "kubectl.kubernetes.io/last-applied-configuration",
    }
)


def migration_manifest(
    pod: JsonMapping,
    name: str,
    ttl_s: float,
    node: str,
    *,
    now_s: float,
    target: str = "",
    job: tuple[str, str] | None = None,
    with_claims: bool = False,
    surge: str = "",
) -> JsonObject:
    """The Reservation `name` for the replacement of this pod (the API object) on `node`.

    `target`: the only node allowed. `job`: name and UID of its PodMigrationJob, with which it is deleted.
    `surge`: value of the label `SURGED` by which its owner is known; empty = its controller's next pod.
    `with_claims`: keep volumes that are claims. `ttl_s` 0 = no expiry.
    """
    meta, given = pod.get("metadata") or {}, pod.get("spec") or {}
    spec = {field: deepcopy(given[field]) for field in _SPEC if given.get(field) is not None}
    spec["preemptionPolicy"] = "Never"
    for field in ("containers", "initContainers"):
        if given.get(field):
            spec[field] = [
                {part: deepcopy(entry[part]) for part in _CONTAINER if entry.get(part) is not None}
                for entry in given[field]
            ]
    if with_claims:
        spec["volumes"] = [
            deepcopy(entry) for entry in given.get("volumes") or () if entry.get("persistentVolumeClaim") is not None
        ]
    if node:
        _restrict(spec, node, target)
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key not in _NO_LABELS}
    notes = {key: value for key, value in (meta.get("annotations") or {}).items() if key not in _NO_NOTES}
    made: JsonObject = {
        "apiVersion": RESERVATIONS.api_version,
        "kind": KIND,
        "metadata": {"name": name, "labels": {CREATED_BY: COMPONENT, ORDER: str(int(now_s * 1000))}},
        "spec": {
            "template": {
                "metadata": {"namespace": meta.get("namespace", ""), "labels": labels, "annotations": notes},
                "spec": spec,
            },
            "owners": [_surged(meta, surge) if surge else _owner(meta, is_pending=not node)],
            "ttl": f"{ttl_s:.0f}s" if ttl_s > 0 else "0",
            "allocateOnce": True,
        },
    }
    if job is not None:
        reference = {"apiVersion": RESERVATIONS.api_version, "kind": "PodMigrationJob", "name": job[0], "uid": job[1]}
        made["metadata"]["ownerReferences"] = [reference]
    return made


def _restrict(spec: JsonObject, node: str, target: str) -> None:
    """Exclude the present node in each required term, and all but the target."""
    fields = [{"key": NAME_FIELD, "operator": "NotIn", "values": [node]}]
    if target:
        fields.append({"key": NAME_FIELD, "operator": "In", "values": [target]})
    affinity = spec.setdefault("affinity", {})
    by_node = affinity.get("nodeAffinity") or {}
    required = by_node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), *fields]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    affinity["nodeAffinity"] = {
        **by_node,
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
    }


def _surged(meta: JsonMapping, surge: str) -> JsonObject:
    """The pod of a rollout that this job began: it is of a ReplicaSet that does not exist yet."""
    return {"object": {"namespace": meta.get("namespace", "")}, "labelSelector": {"matchLabels": {SURGED: surge}}}


def _owner(meta: JsonMapping, is_pending: bool) -> JsonObject:
    """The replacement: the next pod of the controller; for a bare pod a pod of its name, for a pending pod itself."""
    namespace = meta.get("namespace", "")
    if is_pending:
        return {"object": {"namespace": namespace, "name": meta["name"], "uid": meta.get("uid", "")}}
    for entry in meta.get("ownerReferences") or ():
        if entry.get("controller"):
            by = {key: entry[key] for key in ("apiVersion", "kind", "name", "uid") if entry.get(key)}
            return {"controller": {**by, "namespace": namespace, "controller": True}}
    return {"object": {"namespace": namespace, "name": meta["name"]}}
