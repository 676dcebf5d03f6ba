"""StatefulSet: pods with stable names, created and deleted in order.

Pod 3 may be created only when 0 to 2 are ready, deleted only after 4, and updated from the top down to the partition,
one at a time; and each keeps its own claims. One pure step per call over the ordinals in order, which stops at the
first pod to wait for (`Parallel` does not wait when it creates or deletes, but updates one at a time too). An unready
pod of an old revision is updated at once: upstream leaves it to the user.
Limits: maxUnavailable of the update is 1; a claim whose name exists already is used as it is.
Source: Kubernetes documentation "StatefulSets" (deployment and scaling guarantees, partitioned rolling updates, PVC
retention).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.whole_number import whole_number
from cotenant_local.controllers.runtime.actions import (
    CLAIMS,
    PODS,
    STATEFUL_SETS,
    Create,
    Delete,
    Draft,
    EmitEvent,
    Patch,
    Plan,
)
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.views.workloads import ControllerRevision, StatefulSet, StatefulSetStatus
from cotenant_local.controllers.workloads.pods import claim, owner_reference, pod_from
from cotenant_local.controllers.workloads.revisions import HASH_LABEL, RevisionHistory, sync, truncate

KIND, API_VERSION = "StatefulSet", "apps/v1"
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


@dataclass(slots=True)
class _Step:
    sts: StatefulSet
    draft: Draft
    history: RevisionHistory
    current: str  # name of the revision that updates move away from
    now_s: float

    @property
    def ordered(self) -> bool:
        return self.sts.spec.pod_management_policy != "Parallel"

    def healthy(self, pod: PodObjectView) -> bool:
        return not pod.metadata.terminating and pod.available(self.sts.spec.min_ready_seconds, self.now_s)


def ordinal(sts: StatefulSet, pod: PodObjectView) -> int | None:
    """The ordinal in the pod's name; None if the name does not belong to the set."""
    prefix, _, number = pod.metadata.name.rpartition("-")
    return whole_number(number) if prefix == sts.metadata.name else None


def reconcile(
    sts: StatefulSet,
    candidates: Iterable[PodObjectView],
    revisions: Iterable[ControllerRevision],
    now_s: float,
    claim_exists: Callable[[str], bool] = lambda name: False,
) -> Plan:
    """Take one step towards the spec. `candidates`: pods controlled by it or without a controller; `claim_exists`:
    whether a PVC of that name exists.
    """
    draft = Draft()
    claimable = [p for p in candidates if p.metadata.controller is not None or ordinal(sts, p) is not None]
    claimed = claim(sts.metadata, KIND, API_VERSION, sts.spec.selector, claimable)
    for patch in claimed.actions:
        draft.add(patch, f"claim {patch.name}")
    pods = {n: p for p in claimed.owned if (n := ordinal(sts, p)) is not None}
    if sts.metadata.terminating:
        return draft.plan("being deleted")
    collisions = sts.status.collision_count
    history = sync(draft, sts.metadata, KIND, API_VERSION, sts.spec.template, revisions, collisions)
    step = _Step(sts, draft, history, sts.status.current_revision or history.update, now_s)
    _write_status(step, pods)
    if _replicas(step, pods, claim_exists) and _condemned(step, pods):
        _update(step, pods)
    used = {_revision(sts, p) for p in pods.values()} | {step.current}
    truncate(draft, history, used, sts.spec.revision_history_limit)
    return draft.plan("all replicas exist with the current template")


def _revision(sts: StatefulSet, pod: PodObjectView) -> str:
    return pod.metadata.labels.get(HASH_LABEL, "")


def _replicas(step: _Step, pods: dict[int, PodObjectView], claim_exists: Callable[[str], bool]) -> bool:
    """Create missing pods in order; False if a pod must be waited for."""
    sts, draft = step.sts, step.draft
    start = sts.spec.ordinals.start
    for n in range(start, start + sts.spec.replicas):
        pod = pods.get(n)
        if pod is None:
            _create(step, n, claim_exists)
            if step.ordered:
                return False
            continue
        if pod.finished and not pod.metadata.terminating:
            _delete(step, pod, f"pod {n} has finished: recreate it")
            if step.ordered:
                return False
            continue
        if not step.healthy(pod):
            draft.requeue_at(pod.available_at(sts.spec.min_ready_seconds))
            if step.ordered:
                if _stuck(step, pod, n):
                    _delete(step, pod, f"pod {n} of {_revision(sts, pod)} is not ready: update it now")
                else:
                    draft.reasons.append(f"wait for pod {n}")
                return False
    return True


def _stuck(step: _Step, pod: PodObjectView, n: int) -> bool:
    """Whether an unready pod can only become ready by the update (a broken template that has been corrected)."""
    partition = _partition(step.sts)
    return (
        step.sts.spec.update_strategy.type == "RollingUpdate"
        and not pod.metadata.terminating
        and n >= partition
        and _revision(step.sts, pod) != step.history.update
    )


def _condemned(step: _Step, pods: dict[int, PodObjectView]) -> bool:
    """Delete surplus pods from the highest ordinal; False if a pod must be waited for."""
    sts = step.sts
    last = sts.spec.ordinals.start + sts.spec.replicas
    surplus = sorted((n for n in pods if n >= last or n < sts.spec.ordinals.start), reverse=True)
    for n in surplus:
        pod = pods[n]
        if pod.metadata.terminating:
            if step.ordered:
                step.draft.reasons.append(f"wait for pod {n} to terminate")
                return False
            continue
        _delete(step, pod, f"scale down: delete pod {n}")
        if step.ordered:
            return False
    return not surplus


def _update(step: _Step, pods: dict[int, PodObjectView]) -> None:
    """Replace one pod of an old revision, from the top down to the partition."""
    sts = step.sts
    if sts.spec.update_strategy.type != "RollingUpdate":
        return
    start = sts.spec.ordinals.start
    for n in range(start + sts.spec.replicas - 1, max(start, _partition(sts)) - 1, -1):
        pod = pods.get(n)
        if pod is None:
            return
        if _revision(sts, pod) != step.history.update and not pod.metadata.terminating:
            _delete(step, pod, f"update pod {n} to {step.history.update}")
            return
        if not step.healthy(pod):
            step.draft.reasons.append(f"wait for pod {n}")
            return


def _partition(sts: StatefulSet) -> int:
    rolling = sts.spec.update_strategy.rolling_update
    return rolling.partition or 0 if rolling else 0


def _create(step: _Step, n: int, claim_exists: Callable[[str], bool]) -> None:
    sts, draft = step.sts, step.draft
    name = f"{sts.metadata.name}-{n}"
    rolling = sts.spec.update_strategy.type == "RollingUpdate"
    # a pod below the partition is recreated with its old revision
    revision = step.current if rolling and n < _partition(sts) else step.history.update
    template = (
        sts.spec.template if revision == step.history.update else step.history.template(revision, sts.spec.template)
    )
    pod = pod_from(template, sts.metadata, KIND, API_VERSION, name=name)
    labels = {POD_NAME_LABEL: name, INDEX_LABEL: str(n), HASH_LABEL: revision}
    pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), **labels}
    pod["spec"].setdefault("hostname", name)
    if sts.spec.service_name:
        pod["spec"].setdefault("subdomain", sts.spec.service_name)
    volumes = {v["name"]: v for v in pod["spec"].get("volumes") or []}
    for claim_template in sts.spec.volume_claim_templates:
        template_name = claim_template["metadata"]["name"]
        claim_name = f"{template_name}-{name}"
        volumes[template_name] = {"name": template_name, "persistentVolumeClaim": {"claimName": claim_name}}
        if not claim_exists(claim_name):
            draft.add(
                Create(CLAIMS, sts.metadata.namespace, _claim_manifest(sts, claim_template, claim_name)),
                f"claim {claim_name}",
            )
    if volumes:
        pod["spec"]["volumes"] = list(volumes.values())
    draft.add(Create(PODS, sts.metadata.namespace, pod), f"create pod {n}")
    draft.add(
        EmitEvent(
            sts,
            KIND,
            API_VERSION,
            "Normal",
            "SuccessfulCreate",
            f"create Pod {name} in StatefulSet {sts.metadata.name} successful",
        )
    )


def _claim_manifest(sts: StatefulSet, template: Manifest, name: str) -> Manifest:
    written = template.get("metadata") or {}
    labels = {**(written.get("labels") or {}), **sts.spec.selector.match_labels}
    metadata: Manifest = {"name": name, "namespace": sts.metadata.namespace, "labels": labels}
    if written.get("annotations"):
        metadata["annotations"] = dict(written["annotations"])
    if sts.spec.persistent_volume_claim_retention_policy.when_deleted == "Delete":
        reference = owner_reference(sts.metadata, KIND, API_VERSION)
        metadata["ownerReferences"] = [
            {k: v for k, v in reference.items() if k not in ("controller", "blockOwnerDeletion")}
        ]
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": dict(template["spec"])}


def _delete(step: _Step, pod: PodObjectView, why: str) -> None:
    meta = pod.metadata
    step.draft.add(Delete(PODS, meta.namespace, meta.name, meta.uid), why)
    text = f"delete Pod {meta.name} in StatefulSet {step.sts.metadata.name} successful"
    step.draft.add(EmitEvent(step.sts, KIND, API_VERSION, "Normal", "SuccessfulDelete", text))


def _write_status(step: _Step, pods: dict[int, PodObjectView]) -> None:
    sts = step.sts
    unfinished = [p for p in pods.values() if not p.finished]
    updated = sum(_revision(sts, p) == step.history.update and not p.metadata.terminating for p in unfinished)
    ready = sum(p.ready and not p.metadata.terminating for p in unfinished)
    current = step.current
    finished_update = (
        sts.spec.update_strategy.type == "RollingUpdate"
        and updated == len(unfinished) == ready == sts.spec.replicas
        and current != step.history.update
    )
    if finished_update:
        step.current = current = step.history.update
    desired = StatefulSetStatus(
        observed_generation=sts.metadata.generation,
        replicas=len(unfinished),
        ready_replicas=ready,
        current_replicas=sum(_revision(sts, p) == current and not p.metadata.terminating for p in unfinished),
        updated_replicas=updated,
        available_replicas=sum(step.healthy(p) for p in unfinished),
        current_revision=current,
        update_revision=step.history.update,
        collision_count=sts.status.collision_count,
    )
    if desired != sts.status:
        body: Manifest = {"status": msgspec.to_builtins(desired)}
        step.draft.add(Patch(STATEFUL_SETS, sts.metadata.namespace, sts.metadata.name, body, "status"))
