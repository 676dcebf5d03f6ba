"""DaemonSet: one pod on every node that suits it.

Problem: nodes come and go, get taints and labels, and each suitable one must have exactly one pod, placed by the pod's own scheduler. Choice:
the pod is pinned by node affinity on `metadata.name`, as upstream does, so the scheduler still judges it. A pod that was refused is made again,
later each time. Limits: rolling updates honour maxUnavailable; maxSurge is taken as 0.

Source: Kubernetes documentation "DaemonSet" (how daemon pods are scheduled, taints and tolerations), "Perform a Rolling Update".
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cotenant.local.apiserver.contract import Manifest
from cotenant.local.controllers.runtime.actions import DAEMON_SETS, PODS, Create, Delete, Draft, Note, Patch, Plan
from cotenant.local.controllers.views.core import NodeView, Pod, PodSpec
from cotenant.local.controllers.views.workloads import ControllerRevision, DaemonSet, DaemonSetStatus
from cotenant.local.controllers.workloads.pods import claim, pod_from
from cotenant.local.controllers.workloads.revisions import HASH_LABEL, History, follow, forget
from cotenant.local.controllers.workloads.rounding import resolve
from cotenant.local.controllers.workloads.scheduling import DAEMON_TOLERATIONS, affinity_matches, pinned_node, tolerates
from cotenant.model.cluster.affinity import NAME_FIELD

KIND, API_VERSION = "DaemonSet", "apps/v1"
BURST = 250
RETRY_S = 5.0  # a pod that failed is made again after this


def reconcile(
    ds: DaemonSet,
    candidates: Iterable[Pod],
    nodes: Iterable[NodeView],
    revisions: Iterable[ControllerRevision],
    now_s: float,
) -> Plan:
    """Make missing pods, delete those of unsuitable nodes and doubles, and go on with an update."""
    draft = Draft()
    held = claim(ds.metadata, KIND, API_VERSION, ds.spec.selector, candidates)
    for patch in held.actions:
        draft.add(patch, f"claim {patch.name}")
    if ds.metadata.terminating:
        return draft.plan("it is ending")
    history = follow(draft, ds.metadata, KIND, API_VERSION, ds.spec.template, revisions, ds.status.collision_count)
    spec = msgspec.convert(ds.spec.template.get("spec") or {}, PodSpec)
    on_node: dict[str, list[Pod]] = {}
    for pod in held.owned:
        on_node.setdefault(pinned_node(pod.spec), []).append(pod)
    everywhere = list(nodes)
    should = {n.metadata.name for n in everywhere if suits(spec, n)}
    may_stay = {n.metadata.name for n in everywhere if suits(spec, n, staying=True)}
    _write_status(draft, ds, history, on_node, should, now_s)
    _place(draft, ds, history, on_node, should, may_stay, now_s)
    if ds.spec.update_strategy.type == "RollingUpdate":
        _update(draft, ds, history, on_node, should, now_s)
    used = {_revision(p) for p in held.owned}
    forget(draft, history, used, ds.spec.revision_history_limit)
    return draft.plan("one pod on every suitable node")


def suits(spec: PodSpec, node: NodeView, staying: bool = False) -> bool:
    """Whether the node should have a daemon pod (or, `staying`, may keep the one it has: only NoExecute drives it out)."""
    if not affinity_matches(spec, node):
        return False
    tolerations = (*spec.tolerations, *DAEMON_TOLERATIONS)
    effects = ("NoExecute",) if staying else ("NoSchedule", "NoExecute")
    return all(tolerates(tolerations, t) for t in node.spec.taints if t.effect in effects)


def _revision(pod: Pod) -> str:
    return pod.metadata.labels.get(HASH_LABEL, "")


def _place(
    draft: Draft,
    ds: DaemonSet,
    history: History,
    on_node: dict[str, list[Pod]],
    should: set[str],
    may_stay: set[str],
    now_s: float,
) -> None:
    made = 0
    for name in sorted(should):
        present = [p for p in on_node.get(name, ()) if not p.metadata.terminating]
        for pod in [p for p in present if p.status.phase == "Failed"]:
            due = pod.metadata.created_s + RETRY_S
            if now_s < due:
                draft.again(due)
            else:
                _delete(draft, ds, pod, f"{pod.metadata.name} failed on {name}")
        living = [p for p in present if not p.finished]
        # a pod that is still ending keeps its place
        if not present and not on_node.get(name) and made < BURST:
            draft.add(Create(PODS, ds.metadata.namespace, _pod(ds, history, name)), f"create on {name}")
            made += 1
        for double in sorted(living, key=lambda p: (p.metadata.created_s, p.metadata.name))[1:]:
            _delete(draft, ds, double, f"a second pod on {name}")
    if made:
        draft.add(Note(ds, KIND, API_VERSION, "Normal", "SuccessfulCreate", f"Created {made} pod{'s' * (made > 1)}"))
    for name, present in on_node.items():
        if name not in may_stay:
            for pod in present:
                if not pod.metadata.terminating:
                    _delete(draft, ds, pod, f"{name or 'no node'} does not suit it")


def _update(
    draft: Draft, ds: DaemonSet, history: History, on_node: dict[str, list[Pod]], should: set[str], now_s: float
) -> None:
    rolling = ds.spec.update_strategy.rolling_update
    limit = resolve(
        rolling.max_unavailable if rolling else None, len(should), up=True, default=1, field="maxUnavailable"
    )
    old: list[Pod] = []
    unavailable = 0
    for name in sorted(should):
        living = [p for p in on_node.get(name, ()) if p.active]
        if not any(p.available(ds.spec.min_ready_seconds, now_s) for p in living):
            unavailable += 1
        old += [p for p in living if _revision(p) != history.update]
    for pod in old:  # those that serve nobody cost nothing
        if not pod.available(ds.spec.min_ready_seconds, now_s):
            _delete(draft, ds, pod, f"update {pod.metadata.name}, which is not available")
    for pod in [p for p in old if p.available(ds.spec.min_ready_seconds, now_s)][: max(0, max(limit, 1) - unavailable)]:
        _delete(draft, ds, pod, f"update {pod.metadata.name}")


def _pod(ds: DaemonSet, history: History, node: str) -> Manifest:
    pod = pod_from(ds.spec.template, ds.metadata, KIND, API_VERSION)
    pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), HASH_LABEL: history.update}
    spec = pod["spec"]
    have = spec.get("tolerations") or []
    spec["tolerations"] = [*have, *({k: v for k, v in msgspec.to_builtins(t).items() if v} for t in DAEMON_TOLERATIONS)]
    pin = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    # every term gets the name: terms are alternatives
    terms = [{**t, "matchFields": [pin]} for t in required.get("nodeSelectorTerms") or [{}]]
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    affinity["nodeAffinity"] = node_affinity
    spec["affinity"] = affinity
    return pod


def _delete(draft: Draft, ds: DaemonSet, pod: Pod, why: str) -> None:
    delete = Delete(PODS, ds.metadata.namespace, pod.metadata.name, pod.metadata.uid)
    if delete not in draft.actions:
        draft.add(delete, why)


def _write_status(
    draft: Draft, ds: DaemonSet, history: History, on_node: dict[str, list[Pod]], should: set[str], now_s: float
) -> None:
    scheduled = ready = available = updated = 0
    for name in should:
        living = [p for p in on_node.get(name, ()) if p.active]
        if not living:
            continue
        scheduled += 1
        oldest = min(living, key=lambda p: (p.metadata.created_s, p.metadata.name))
        updated += _revision(oldest) == history.update
        if oldest.ready:
            ready += 1
            if oldest.available(ds.spec.min_ready_seconds, now_s):
                available += 1
            else:
                draft.again(oldest.available_at(ds.spec.min_ready_seconds))
    wanted = DaemonSetStatus(
        observed_generation=ds.metadata.generation,
        current_number_scheduled=scheduled,
        number_misscheduled=sum(any(p.active for p in pods) for name, pods in on_node.items() if name not in should),
        desired_number_scheduled=len(should),
        number_ready=ready,
        updated_number_scheduled=updated,
        number_available=available,
        number_unavailable=len(should) - available,
        collision_count=ds.status.collision_count,
    )
    if wanted != ds.status:
        body: Manifest = {"status": msgspec.to_builtins(wanted)}
        draft.add(Patch(DAEMON_SETS, ds.metadata.namespace, ds.metadata.name, body, "status"))
