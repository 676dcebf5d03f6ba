"""DaemonSet: one pod on every eligible node.

Nodes join and leave, get taints and labels, and each eligible one must have exactly one pod, placed by the pod's own
scheduler. The pod is pinned by node affinity on `metadata.name`, as upstream does, so the scheduler still checks it. A
pod that was refused is created again after `RETRY_S`.
Limits: rolling updates honour maxUnavailable; maxSurge is taken as 0.
Source: Kubernetes documentation "DaemonSet" (how daemon pods are scheduled, taints and tolerations), "Perform a Rolling
Update".
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.cluster.affinity import NAME_FIELD
from cotenant_local.controllers.runtime.actions import DAEMON_SETS, PODS, Create, Delete, Draft, EmitEvent, Patch, Plan
from cotenant_local.controllers.views.nodes import NodeObjectView
from cotenant_local.controllers.views.pods import PodObjectView, PodSpecView
from cotenant_local.controllers.views.workloads import ControllerRevision, DaemonSet, DaemonSetStatus
from cotenant_local.controllers.workloads.pods import claim, pod_from
from cotenant_local.controllers.workloads.revisions import HASH_LABEL, RevisionHistory, sync, truncate
from cotenant_local.controllers.workloads.rounding import resolve
from cotenant_local.controllers.workloads.scheduling import DAEMON_TOLERATIONS, affinity_matches, pinned_node, tolerates

KIND, API_VERSION = "DaemonSet", "apps/v1"
BURST = 250
RETRY_S = 5.0  # delay before a failed pod is recreated


def reconcile(
    ds: DaemonSet,
    candidates: Iterable[PodObjectView],
    nodes: Iterable[NodeObjectView],
    revisions: Iterable[ControllerRevision],
    now_s: float,
) -> Plan:
    """Create missing pods, delete duplicates and those on ineligible nodes, and continue an update."""
    draft = Draft()
    claimed = claim(ds.metadata, KIND, API_VERSION, ds.spec.selector, candidates)
    for patch in claimed.actions:
        draft.add(patch, f"claim {patch.name}")
    if ds.metadata.terminating:
        return draft.plan("being deleted")
    history = sync(draft, ds.metadata, KIND, API_VERSION, ds.spec.template, revisions, ds.status.collision_count)
    spec = msgspec.convert(ds.spec.template.get("spec") or {}, PodSpecView)
    on_node: dict[str, list[PodObjectView]] = {}
    for pod in claimed.owned:
        on_node.setdefault(pinned_node(pod.spec), []).append(pod)
    all_nodes = list(nodes)
    should_run = {n.metadata.name for n in all_nodes if node_should_run(spec, n)}
    should_continue = {n.metadata.name for n in all_nodes if node_should_run(spec, n, running=True)}
    _write_status(draft, ds, history, on_node, should_run, now_s)
    _sync_pods(draft, ds, history, on_node, should_run, should_continue, now_s)
    if ds.spec.update_strategy.type == "RollingUpdate":
        _update(draft, ds, history, on_node, should_run, now_s)
    used = {_revision(p) for p in claimed.owned}
    truncate(draft, history, used, ds.spec.revision_history_limit)
    return draft.plan("one pod on every eligible node")


def node_should_run(spec: PodSpecView, node: NodeObjectView, running: bool = False) -> bool:
    """Whether the node should run a daemon pod; with `running`, whether it may keep one (only NoExecute taints
    evict it).
    """
    if not affinity_matches(spec, node):
        return False
    tolerations = (*spec.tolerations, *DAEMON_TOLERATIONS)
    effects = ("NoExecute",) if running else ("NoSchedule", "NoExecute")
    return all(tolerates(tolerations, t) for t in node.spec.taints if t.effect in effects)


def _revision(pod: PodObjectView) -> str:
    return pod.metadata.labels.get(HASH_LABEL, "")


def _sync_pods(
    draft: Draft,
    ds: DaemonSet,
    history: RevisionHistory,
    on_node: dict[str, list[PodObjectView]],
    should_run: set[str],
    should_continue: set[str],
    now_s: float,
) -> None:
    made = 0
    for name in sorted(should_run):
        present = [p for p in on_node.get(name, ()) if not p.metadata.terminating]
        for pod in [p for p in present if p.status.phase == "Failed"]:
            due = pod.metadata.created_s + RETRY_S
            if now_s < due:
                draft.requeue_at(due)
            else:
                _delete(draft, ds, pod, f"{pod.metadata.name} failed on {name}")
        active = [p for p in present if not p.finished]
        # a terminating pod still occupies the node
        if not present and not on_node.get(name) and made < BURST:
            draft.add(Create(PODS, ds.metadata.namespace, _pod(ds, history, name)), f"create on {name}")
            made += 1
        for double in sorted(active, key=lambda p: (p.metadata.created_s, p.metadata.name))[1:]:
            _delete(draft, ds, double, f"a second pod on {name}")
    if made:
        draft.add(
            EmitEvent(ds, KIND, API_VERSION, "Normal", "SuccessfulCreate", f"Created {made} pod{'s' * (made > 1)}")
        )
    for name, present in on_node.items():
        if name not in should_continue:
            for pod in present:
                if not pod.metadata.terminating:
                    _delete(draft, ds, pod, f"{name or 'no node'} is not eligible")


def _update(
    draft: Draft,
    ds: DaemonSet,
    history: RevisionHistory,
    on_node: dict[str, list[PodObjectView]],
    should_run: set[str],
    now_s: float,
) -> None:
    rolling = ds.spec.update_strategy.rolling_update
    limit = resolve(
        rolling.max_unavailable if rolling else None, len(should_run), up=True, default=1, field="maxUnavailable"
    )
    old: list[PodObjectView] = []
    unavailable = 0
    for name in sorted(should_run):
        active = [p for p in on_node.get(name, ()) if p.active]
        if not any(p.available(ds.spec.min_ready_seconds, now_s) for p in active):
            unavailable += 1
        old += [p for p in active if _revision(p) != history.update]
    for pod in old:  # replacing an unavailable pod does not reduce availability
        if not pod.available(ds.spec.min_ready_seconds, now_s):
            _delete(draft, ds, pod, f"update {pod.metadata.name}, which is not available")
    for pod in [p for p in old if p.available(ds.spec.min_ready_seconds, now_s)][: max(0, max(limit, 1) - unavailable)]:
        _delete(draft, ds, pod, f"update {pod.metadata.name}")


def _pod(ds: DaemonSet, history: RevisionHistory, node: str) -> Manifest:
    pod = pod_from(ds.spec.template, ds.metadata, KIND, API_VERSION)
    pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), HASH_LABEL: history.update}
    spec = pod["spec"]
    have = spec.get("tolerations") or []
    spec["tolerations"] = [*have, *({k: v for k, v in msgspec.to_builtins(t).items() if v} for t in DAEMON_TOLERATIONS)]
    pin = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    # terms are alternatives, so each needs the node's name
    terms = [{**t, "matchFields": [pin]} for t in required.get("nodeSelectorTerms") or [{}]]
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    affinity["nodeAffinity"] = node_affinity
    spec["affinity"] = affinity
    return pod


def _delete(draft: Draft, ds: DaemonSet, pod: PodObjectView, why: str) -> None:
    delete = Delete(PODS, ds.metadata.namespace, pod.metadata.name, pod.metadata.uid)
    if delete not in draft.actions:
        draft.add(delete, why)


def _write_status(
    draft: Draft,
    ds: DaemonSet,
    history: RevisionHistory,
    on_node: dict[str, list[PodObjectView]],
    should_run: set[str],
    now_s: float,
) -> None:
    scheduled = ready = available = updated = 0
    for name in should_run:
        active = [p for p in on_node.get(name, ()) if p.active]
        if not active:
            continue
        scheduled += 1
        oldest = min(active, key=lambda p: (p.metadata.created_s, p.metadata.name))
        updated += _revision(oldest) == history.update
        if oldest.ready:
            ready += 1
            if oldest.available(ds.spec.min_ready_seconds, now_s):
                available += 1
            else:
                draft.requeue_at(oldest.available_at(ds.spec.min_ready_seconds))
    desired = DaemonSetStatus(
        observed_generation=ds.metadata.generation,
        current_number_scheduled=scheduled,
        number_misscheduled=sum(
            any(p.active for p in pods) for name, pods in on_node.items() if name not in should_run
        ),
        desired_number_scheduled=len(should_run),
        number_ready=ready,
        updated_number_scheduled=updated,
        number_available=available,
        number_unavailable=len(should_run) - available,
        collision_count=ds.status.collision_count,
    )
    if desired != ds.status:
        body: Manifest = {"status": msgspec.to_builtins(desired)}
        draft.add(Patch(DAEMON_SETS, ds.metadata.namespace, ds.metadata.name, body, "status"))
