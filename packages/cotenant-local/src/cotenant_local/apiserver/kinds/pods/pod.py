"""Pods: admission, phase Pending at creation, a mostly immutable spec, graceful deletion once bound.

Sources: Kubernetes documentation "Pod Lifecycle" and "Pod Scheduling Readiness"; `admission` and `updates` for the
rest.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.kinds.behaviour import ObjectLookup, SpecBehaviour
from cotenant_local.apiserver.kinds.limit_ranges import LimitRanges
from cotenant_local.apiserver.kinds.pods import admission as pod_admission
from cotenant_local.apiserver.kinds.pods import colocation
from cotenant_local.apiserver.kinds.pods import updates as pod_updates
from cotenant_local.apiserver.kinds.pods.qos import qos_class
from cotenant_local.apiserver.schema.kinds.claims import of_pods
from cotenant_local.apiserver.verbs.context import timestamp
from cotenant_local.apiserver.verbs.errors import bad_request

DEFAULT_GRACE_S = 30


def set_condition(status: Manifest, condition: Manifest, now: float) -> None:
    """Add or replace a condition by its type; the transition time moves only when the status does."""
    conditions: list[JsonValue] = status.setdefault("conditions", [])
    stamp = timestamp(now)
    for at, found in enumerate(conditions):
        if found.get("type") == condition["type"]:
            if found.get("status") == condition["status"]:
                stamp = found.get("lastTransitionTime", stamp)
            conditions[at] = {"lastProbeTime": None, "lastTransitionTime": stamp, **condition}
            return
    conditions.append({"lastProbeTime": None, "lastTransitionTime": stamp, **condition})


class PodBehaviour(SpecBehaviour):
    """A pod."""

    def __init__(self) -> None:
        super().__init__()
        self._priorities = pod_admission.Priorities()
        self._limits = LimitRanges()

    def admit(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> None:
        """Set requests from limits, service account, priority and tolerations; an update keeps the priority."""
        spec = obj.get("spec")
        if not isinstance(spec, dict):
            raise bad_request("Pod: spec: expected an object")
        pod_admission.fill_requests(spec)
        if old is not None:
            for name in ("priority", "preemptionPolicy", "serviceAccountName", "serviceAccount"):
                if spec.get(name) is None and name in old["spec"]:
                    spec[name] = old["spec"][name]
            pod_admission.add_tolerations(spec)
            return
        self._limits.fill(obj, world)
        pod_admission.set_account(spec)
        self._priorities.admit(obj, world)
        pod_admission.add_tolerations(spec)

    def admit_last(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> None:
        """Refuse a new pod that is out of its namespace's bounds."""
        if old is None:
            self._limits.check_pod(obj, world)

    def warnings(self, obj: Manifest, old: Manifest | None) -> list[str]:
        """What a cluster with Koordinator would refuse."""
        return colocation.warnings(obj, old)

    def prepare_create(self, obj: Manifest, world: ObjectLookup) -> None:
        """Set phase Pending and the QoS class; a gated pod gets the condition SchedulingGated."""
        spec = obj["spec"]
        status: Manifest = {"phase": "Pending", "qosClass": qos_class(spec)}
        if spec.get("schedulingGates"):
            set_condition(
                status,
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                },
                world.now(),
            )
        obj["status"] = status

    def prepare_status(self, obj: Manifest, old: Manifest) -> None:
        """Keep the QoS class if the status update leaves it out."""
        status = obj.setdefault("status", {})
        if not status.get("qosClass") and "qosClass" in (old.get("status") or {}):
            status["qosClass"] = old["status"]["qosClass"]

    def merge(self, subresource: str, new: Manifest, base: Manifest) -> Manifest:
        """Apply a write to /resize or /ephemeralcontainers."""
        if subresource == "resize":
            pod_admission.fill_requests(new["spec"])
            return pod_updates.merge_resize(new, base)
        if subresource == "ephemeralcontainers":
            return pod_updates.merge_ephemeral(new, base)
        return super().merge(subresource, new, base)

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """Validate an update by its subresource."""
        if subresource == "resize":
            return pod_updates.check_resize(obj, old)
        if subresource == "ephemeralcontainers":
            return pod_updates.check_ephemeral(obj, old)
        return pod_updates.check_spec(obj["spec"], old["spec"])

    def check_related(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> list[FieldError]:
        """What a new status says of the pod's claims."""
        if old is None or obj.get("status") == old.get("status"):
            return []
        return of_pods.check_status(obj)

    def check_create(self, obj: Manifest) -> list[FieldError]:
        """A gated pod may not name a node."""
        spec = obj["spec"]
        if spec.get("schedulingGates") and spec.get("nodeName"):
            why = "Forbidden: cannot be set until all schedulingGates have been cleared"
            return [FieldError("FieldValueForbidden", why, "spec.nodeName")]
        return []

    def grace_s(self, obj: Manifest, requested: int | None) -> int | None:
        """The requested grace period, else the pod's; 0 if the pod is unassigned or finished."""
        spec = obj["spec"]
        if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        if requested is not None:
            return requested
        own = spec.get("terminationGracePeriodSeconds")
        return DEFAULT_GRACE_S if own is None else int(own)
