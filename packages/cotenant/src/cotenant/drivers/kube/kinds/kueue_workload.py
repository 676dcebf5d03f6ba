"""Workloads of Kueue, in the versions that servers have, and which of them a pod belongs to.

A pod names its Workload by an annotation once it was started, a group of pods by a label; else a Workload names the
pod, or the job that owns the pod, among its owners. Both versions agree in what is read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Strings, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta, OwnerReference
from cotenant.model.groups import kueue
from cotenant.model.groups.kueue import AdmissionCheck, InQueue, KueueWorkload


class ConditionForm(ApiStruct, frozen=True):
    """metav1.Condition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class CheckForm(ApiStruct, frozen=True):
    """AdmissionCheckState."""

    name: str = ""
    state: str = ""
    message: str = ""


class AssignmentForm(ApiStruct, frozen=True):
    """PodSetAssignment."""

    flavors: Strings = None


class AdmissionForm(ApiStruct, frozen=True):
    """Admission."""

    cluster_queue: str = ""
    pod_set_assignments: tuple[AssignmentForm, ...] | None = None


class KueueSpec(ApiStruct, frozen=True):
    """WorkloadSpec."""

    queue_name: Text = None
    active: bool | None = None


class KueueStatus(ApiStruct, frozen=True):
    """WorkloadStatus."""

    conditions: tuple[ConditionForm, ...] | None = None
    admission: AdmissionForm | None = None
    admission_checks: tuple[CheckForm, ...] | None = None


class KueueWorkloadObject(ApiStruct, frozen=True):
    """A Workload."""

    metadata: ObjectMeta = ObjectMeta()
    spec: KueueSpec | None = None
    status: KueueStatus | None = None


KUEUE_BETA2 = Kind("Workload", kueue.GROUP, "v1beta2", "workloads", True, KueueWorkloadObject)
KUEUE_BETA1 = Kind("Workload", kueue.GROUP, "v1beta1", "workloads", True, KueueWorkloadObject)
_NEWEST = (KUEUE_BETA2.version, KUEUE_BETA1.version)  # the first that has an object counts


def read_kueue_workload(obj: KueueWorkloadObject) -> KueueWorkload:
    """A Workload. Never fails: what is not there counts as not said."""
    meta, spec, status = obj.metadata, obj.spec or KueueSpec(), obj.status or KueueStatus()
    flavors: dict[str, str] = {}
    for assignment in (status.admission.pod_set_assignments or ()) if status.admission is not None else ():
        flavors |= assignment.flavors or {}
    return KueueWorkload(
        key=f"{meta.namespace}/{meta.name}",
        queue=spec.queue_name or "",
        cluster_queue=status.admission.cluster_queue if status.admission is not None else "",
        is_active=spec.active is not False,
        conditions=tuple(
            kueue.KueueCondition(entry.type, entry.status == "True", entry.reason, entry.message)
            for entry in status.conditions or ()
        ),
        checks=tuple(AdmissionCheck(entry.name, entry.state, entry.message) for entry in status.admission_checks or ()),
        flavors=tuple(sorted(flavors.items())),
        owners=tuple(owner.uid for owner in meta.owner_references or ()),
    )


class KueueIndex:
    """Workloads by name, and by the UIDs of their owners."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, KueueWorkload]] = {}  # namespace/name -> by version
        self._of_owner: dict[str, str] = {}  # UID -> namespace/name

    def put(self, version: str, workload: KueueWorkload) -> Sequence[str]:
        """A Workload was created or changed. Returns the names of what pods depend on that is news."""
        before = self._newest(workload.key)
        self.known.setdefault(workload.key, {})[version] = workload
        return self._changed(workload.key, before)

    def drop(self, version: str, key: str) -> Sequence[str]:
        """A Workload was deleted. Returns as `put`."""
        before = self._newest(key)
        by_version = self.known.get(key, {})
        by_version.pop(version, None)
        if not by_version:
            self.known.pop(key, None)
        return self._changed(key, before)

    def _changed(self, key: str, before: KueueWorkload | None) -> Sequence[str]:
        after = self._newest(key)
        if before == after:
            return ()
        for uid in before.owners if before is not None else ():
            if self._of_owner.get(uid) == key:
                del self._of_owner[uid]
        for uid in after.owners if after is not None else ():
            self._of_owner[uid] = key
        uids = {*(before.owners if before is not None else ()), *(after.owners if after is not None else ())}
        return (_named(key), *map(_owned, sorted(uids)))

    def _newest(self, key: str) -> KueueWorkload | None:
        by_version = self.known.get(key, {})
        return next((by_version[version] for version in _NEWEST if version in by_version), None)

    def of(
        self,
        namespace: str,
        uid: str,
        labels: Mapping[str, str],
        annotated: str,
        owners: Iterable[OwnerReference],
        gates: Sequence[str],
    ) -> InQueue | None:
        """What Kueue says of a pod; None for a pod that is none of its. `annotated`: its annotation's value."""
        queue, group = labels.get(kueue.QUEUE, ""), labels.get(kueue.POD_GROUP, "")
        if not (queue or group or annotated or self.known or kueue.GATES.intersection(gates)):
            return None
        found = None
        for name in (annotated, group):
            found = found or (self._newest(f"{namespace}/{name}") if name else None)
        for owner in (uid, *(entry.uid for entry in owners if entry.controller)):
            found = found or self._newest(self._of_owner.get(owner, ""))
        if found is None and not (queue or group or annotated or kueue.GATES.intersection(gates)):
            return None
        return InQueue(queue or (found.queue if found is not None else ""), group, found)

    def depends_on(
        self,
        namespace: str,
        uid: str,
        labels: Mapping[str, str],
        annotated: str,
        owners: Iterable[OwnerReference],
        gates: Sequence[str],
    ) -> tuple[str, ...]:
        """What that depends on, by name; nothing for a pod that does not look like one of Kueue's."""
        group = labels.get(kueue.POD_GROUP, "")
        if not (group or annotated or labels.get(kueue.QUEUE) or kueue.GATES.intersection(gates)):
            return ()
        names = tuple(_named(f"{namespace}/{name}") for name in (annotated, group) if name)
        return (*names, _owned(uid), *(_owned(entry.uid) for entry in owners if entry.controller))


def _named(key: str) -> str:
    return f"Kueue's Workload {key}"


def _owned(uid: str) -> str:
    return f"Kueue's Workload of {uid}"
