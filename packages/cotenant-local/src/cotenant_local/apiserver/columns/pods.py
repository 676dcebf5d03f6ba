"""The printer columns of pods, STATUS above all.

STATUS is not a field but a summary of phase, conditions and every container's state. The precedence of `kubectl get
pods`: scheduling gates, then an init container that has not finished, then the containers (the first one with a
reason), then deletion.
Source: Kubernetes documentation, Pod Lifecycle and Init Containers ("Understanding Pod status").
"""

from __future__ import annotations

from typing import NamedTuple

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.columns.formatting import AGE, NAME, NONE, at, duration, seconds, sequence, text


class PodSummary(NamedTuple):
    """The values of the first columns."""

    ready: int
    total: int
    status: str
    restarts: int
    last_restart: float | None  # Unix seconds


def _condition(obj: Manifest, condition_type: str) -> Manifest | None:
    for condition in sequence(obj, "status", "conditions"):
        if condition.get("type") == condition_type:
            found: Manifest = condition
            return found
    return None


def _is_true(obj: Manifest, condition_type: str) -> bool:
    condition = _condition(obj, condition_type)
    return condition is not None and condition.get("status") == "True"


def _ended(terminated: Manifest, prefix: str = "") -> str:
    if terminated.get("reason"):
        return f"{prefix}{terminated['reason']}"
    if terminated.get("signal"):
        return f"{prefix}Signal:{terminated['signal']}"
    return f"{prefix}ExitCode:{terminated.get('exitCode', 0)}"


class _Restarts:
    """The number of restarts, and the time of the last one."""

    def __init__(self) -> None:
        self.count = 0
        self.last: float | None = None

    def add(self, status: Manifest) -> None:
        self.count += status.get("restartCount") or 0
        finished = seconds(at(status, "lastState", "terminated", "finishedAt"))
        if finished is not None:
            self.last = finished if self.last is None else max(self.last, finished)


def summary(obj: Manifest) -> PodSummary:
    """Ready and total containers (sidecars included), status, restarts."""
    status = at(obj, "status", "reason") or at(obj, "status", "phase") or ""
    scheduled = _condition(obj, "PodScheduled")
    if scheduled is not None and scheduled.get("reason") == "SchedulingGated":
        status = "SchedulingGated"
    init = sequence(obj, "spec", "initContainers")
    sidecars = {one.get("name") for one in init if one.get("restartPolicy") == "Always"}
    total = len(sequence(obj, "spec", "containers")) + len(sidecars)
    ready = 0
    restarts, sidecar_restarts = _Restarts(), _Restarts()
    is_initializing = False
    for index, one in enumerate(sequence(obj, "status", "initContainerStatuses")):
        restarts.add(one)
        is_sidecar = one.get("name") in sidecars
        if is_sidecar:
            sidecar_restarts.add(one)
        terminated = at(one, "state", "terminated")
        waiting = at(one, "state", "waiting", "reason")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and one.get("started"):
            ready += bool(one.get("ready"))
            continue
        is_initializing = True
        if terminated is not None:
            status = _ended(terminated, "Init:")
        elif waiting and waiting != "PodInitializing":
            status = f"Init:{waiting}"
        else:
            status = f"Init:{index}/{len(init)}"
        break
    if not is_initializing or _is_true(obj, "Initialized"):
        restarts = sidecar_restarts
        has_running = False
        for one in reversed(sequence(obj, "status", "containerStatuses")):
            restarts.add(one)
            waiting = at(one, "state", "waiting", "reason")
            terminated = at(one, "state", "terminated")
            if waiting:
                status = waiting
            elif terminated is not None:
                status = _ended(terminated)
            elif one.get("ready") and at(one, "state", "running") is not None:
                has_running = True
                ready += 1
        if status == "Completed" and has_running:
            status = "Running" if _is_true(obj, "Ready") else "NotReady"
    if at(obj, "metadata", "deletionTimestamp"):
        if at(obj, "status", "reason") == "NodeLost":
            status = "Unknown"
        elif at(obj, "status", "phase") not in ("Succeeded", "Failed"):
            status = "Terminating"
    return PodSummary(ready, total, status, restarts.count, restarts.last)


def _ready(obj: Manifest, now: float) -> str:
    found = summary(obj)
    return f"{found.ready}/{found.total}"


def _restarts(obj: Manifest, now: float) -> str:
    found = summary(obj)
    if found.restarts and found.last_restart is not None:
        return f"{found.restarts} ({duration(now - found.last_restart)} ago)"
    return str(found.restarts)


def _ip(obj: Manifest, now: float) -> str:
    addresses = sequence(obj, "status", "podIPs")
    first = addresses[0].get("ip") if addresses else at(obj, "status", "podIP")
    return first or NONE


def _gates(obj: Manifest, now: float) -> str:
    gates = sequence(obj, "spec", "readinessGates")
    if not gates:
        return NONE
    return f"{sum(_is_true(obj, gate.get('conditionType', '')) for gate in gates)}/{len(gates)}"


POD = (
    NAME,
    text("Ready", _ready, description="The aggregate readiness state of this pod for accepting traffic."),
    text(
        "Status",
        lambda obj, now: summary(obj).status,
        description="The aggregate status of the containers in this pod.",
    ),
    text("Restarts", _restarts, description="How often the containers have been restarted, and when the last one was."),
    AGE,
    text("IP", _ip, wide=True),
    text("Node", lambda obj, now: at(obj, "spec", "nodeName") or NONE, wide=True),
    text("Nominated Node", lambda obj, now: at(obj, "status", "nominatedNodeName") or NONE, wide=True),
    text("Readiness Gates", _gates, wide=True),
)
