"""The status that a kubelet writes for a pod in each state.

Every function returns the body of one merge patch on `status`, so a transition is one write. Conditions owned by others
(PodScheduled, DisruptionTarget) are kept. Source: Kubernetes documentation "Pod Lifecycle".
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import convert

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.views.core import ConditionView, seconds, stamp
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.workloads.pods import conditions_with

_READY = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """One run of a pod's containers."""

    started_s: float
    restarts: int
    pod_ip: str
    host_ip: str


def running(pod: PodObjectView, run: ContainerRun, now_s: float) -> Manifest:
    """The pod is running and ready."""
    at = stamp(run.started_s)
    state: Manifest = {"running": {"startedAt": at}}
    conditions = _conditions(pod, dict.fromkeys(_READY, ("True", "")), now_s)
    return body(
        pod,
        {
            "phase": "Running",
            "conditions": conditions,
            "startTime": stamp(seconds(pod.status.start_time) or run.started_s),
            "hostIP": run.host_ip,
            "hostIPs": [{"ip": run.host_ip}],
            "podIP": run.pod_ip,
            "podIPs": [{"ip": run.pod_ip}],
            "containerStatuses": _containers(pod, state, run.restarts, ready=True),
        },
    )


def waiting_to_restart(pod: PodObjectView, run: ContainerRun, exit_code: int, now_s: float, delay_s: float) -> Manifest:
    """The containers have terminated and will be restarted."""
    text = f"back-off {delay_s:.0f}s restarting failed container"
    state: Manifest = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
    statuses = _containers(pod, state, run.restarts, ready=False)
    for status in statuses:
        status["lastState"] = {"terminated": _terminated(run, exit_code, now_s)}
    unready = ("False", "ContainersNotReady")
    conditions = _conditions(pod, {"Ready": unready, "ContainersReady": unready}, now_s)
    return body(pod, {"phase": "Running", "conditions": conditions, "containerStatuses": statuses})


def ended(pod: PodObjectView, run: ContainerRun, exit_code: int, now_s: float) -> Manifest:
    """The containers have terminated and will not be restarted."""
    phase = "Succeeded" if exit_code == 0 else "Failed"
    reason = ("False", "PodCompleted" if exit_code == 0 else "PodFailed")
    desired = {"Ready": reason, "ContainersReady": reason}
    if exit_code == 0:
        desired["Initialized"] = ("True", "PodCompleted")
    state: Manifest = {"terminated": _terminated(run, exit_code, now_s)}
    return body(
        pod,
        {
            "phase": phase,
            "conditions": _conditions(pod, desired, now_s),
            "containerStatuses": _containers(pod, state, run.restarts, ready=False),
        },
    )


def failed(pod: PodObjectView, reason: str, message: str, now_s: float) -> Manifest:
    """The pod was rejected, evicted, or exceeded its deadline."""
    conditions = _conditions(pod, {"Ready": ("False", "PodFailed"), "ContainersReady": ("False", "PodFailed")}, now_s)
    status: Manifest = {"phase": "Failed", "reason": reason, "message": message, "conditions": conditions}
    if pod.status.start_time is None:
        status["startTime"] = stamp(now_s)
    return body(pod, status)


def containers_running(pod: PodObjectView, run: ContainerRun) -> list[Manifest]:
    """The statuses of containers that run."""
    return _containers(pod, {"running": {"startedAt": stamp(run.started_s)}}, run.restarts, ready=True)


def body(pod: PodObjectView, status: Manifest) -> Manifest:
    """One merge patch, of this pod and no other of its name."""
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}


def _terminated(run: ContainerRun, exit_code: int, now_s: float) -> Manifest:
    return {
        "exitCode": exit_code,
        "reason": "Completed" if exit_code == 0 else "Error",
        "startedAt": stamp(run.started_s),
        "finishedAt": stamp(now_s),
    }


def _containers(pod: PodObjectView, state: Manifest, restarts: int, ready: bool) -> list[Manifest]:
    return [
        {
            "name": c.name,
            "image": c.image,
            "imageID": f"simulated://{c.image}",
            "containerID": f"simulated://{pod.metadata.uid}/{c.name}",
            "ready": ready,
            "started": ready,
            "restartCount": restarts,
            "state": state,
            "lastState": {},
        }
        for c in pod.spec.containers
    ]


def _conditions(pod: PodObjectView, desired: dict[str, tuple[str, str]], now_s: float) -> list[Manifest]:
    now = stamp(now_s)
    views: tuple[ConditionView, ...] = pod.status.conditions
    out: list[Manifest] = []
    for kind, (status, reason) in desired.items():
        out = conditions_with(views, kind, status, reason, "", now)
        views = convert(out, tuple[ConditionView, ...])
    for condition in out:
        condition.pop("lastUpdateTime", None)
    return [{k: v for k, v in c.items() if v != ""} for c in out]
