"""ResourceClaims and what belongs to them: admin access, times of taints, what a status write may change.

Admin access is for namespaces with a label. Source: KEP-4381, KEP-5018, KEP-5055; what a server of 1.36 answers.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.kinds.behaviour import KindBehaviour, ObjectLookup, SpecBehaviour
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.claims import allocations, slices
from cotenant_local.apiserver.verbs.context import timestamp

_ADMIN_LABEL = "resource.kubernetes.io/admin-access"


class ResourceClaimBehaviour(SpecBehaviour):
    """A ResourceClaim."""

    has_generation = False
    is_status_metadata_kept = False

    def prepare_status(self, obj: Manifest, old: Manifest) -> None:
        """Forget what drivers say of devices that the claim no longer has."""
        status = obj.get("status") or {}
        gone = {allocations.identity(one) for one in allocations.results(old.get("status") or {})}
        gone -= {allocations.identity(one) for one in allocations.results(status)}
        if "devices" in status:
            status["devices"] = [one for one in status["devices"] if allocations.identity(one) not in gone]
            if not status["devices"]:
                del status["devices"]

    def check_related(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> list[FieldError]:
        """Admin access is asked for, and given, only in namespaces that have the label."""
        if old is None:
            requests = (obj.get("spec", {}).get("devices") or {}).get("requests", ())
            return _admin_causes([one.get("exactly") or one for one in requests], "spec.devices.requests", obj, world)
        given, before = allocations.results(obj.get("status") or {}), allocations.results(old.get("status") or {})
        if any(one.get("adminAccess") for one in before):
            return []
        return _admin_causes(given, "status.allocation.devices.results", obj, world)


class TemplateBehaviour(KindBehaviour):
    """A ResourceClaimTemplate."""

    def check_related(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> list[FieldError]:
        """As of the claims that are made from it."""
        if old is not None:
            return []
        spec = obj.get("spec", {}).get("spec") or {}
        requests = (spec.get("devices") or {}).get("requests", ())
        return _admin_causes([one.get("exactly") or one for one in requests], "spec.devices.requests", obj, world)


class SliceBehaviour(KindBehaviour):
    """A ResourceSlice."""

    has_generation = True

    def warnings(self, obj: Manifest, old: Manifest | None) -> list[str]:
        """A driver's name that is not in lower case."""
        return slices.warnings_of(obj)


class TaintRuleBehaviour(SpecBehaviour):
    """A DeviceTaintRule."""

    is_status_metadata_kept = False

    def admit(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> None:
        """Another effect is a new taint, unless the client says when it was added."""
        if old is None:
            return
        taint, before = obj["spec"].get("taint") or {}, old["spec"]["taint"]
        if taint.get("effect") != before.get("effect") and taint.get("timeAdded") == before.get("timeAdded"):
            taint["timeAdded"] = timestamp(world.now())


def _admin_causes(asked: list[JsonValue], field: str, obj: Manifest, world: ObjectLookup) -> list[FieldError]:
    index = next((index for index, one in enumerate(asked) if one.get("adminAccess")), None)
    if index is None:
        return []
    namespace = world.lookup("", "namespaces", "", obj["metadata"].get("namespace", "")) or {"metadata": {}}
    if (namespace["metadata"].get("labels") or {}).get(_ADMIN_LABEL) == "true":
        return []
    why = f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing namespace"
    return [field_errors.forbidden(f"{field}[{index}].adminAccess", why)]
