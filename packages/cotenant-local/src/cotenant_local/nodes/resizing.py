"""Resizes of running pods in place, as kubelets do them: allocated when there is room, then brought about.

A pod whose containers ask for other amounts than it was given is judged at once. What its node could never hold is
`Infeasible`; what does not fit beside the others is `Deferred` and judged again when something on the node changes,
and every `RETRY_S`; the condition is PodResizePending. What fits is counted at once, PodResizeInProgress stands until
`ACTUATE_S` later the containers have it, and `allocatedResources` and `resources` of their statuses say so. A memory
limit below what a pod uses stays in progress with an error until it is raised or the use falls. Where a container's
`resizePolicy` asks for it, it is restarted.
Limits: a simulated pod works as before with other amounts; its usage does not follow them. One judgement for a whole
pod; pods are judged in the order in which they asked, without the kubelet's priorities.
Source: KEP-1287, Kubernetes documentation "Resize CPU and Memory Resources assigned to Containers".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from msgspec import convert

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import MEMORY_NAME, NOTHING, Amounts
from cotenant_local.controllers.views.core import ConditionView, stamp
from cotenant_local.controllers.views.pods import PodObjectView, ResourcesView
from cotenant_local.controllers.workloads.pods import conditions_with
from cotenant_local.nodes.admission import RunningUsage
from cotenant_local.nodes.behaviour import requests_of
from cotenant_local.nodes.pod_status import ContainerRun, containers_running

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
ACTUATE_S = 0.2
RETRY_S = 5.0
_RESIZABLE = ("cpu", "memory")


class ResizeVerdict(StrEnum):
    """What a node says to a resize; the values of the refusals are their reasons."""

    FITS = "fits"
    DEFERRED = "Deferred"
    INFEASIBLE = "Infeasible"


@dataclass(slots=True)
class PodResize:
    """A pod that asks for other amounts than it has. `in_place`: what its containers have, by name."""

    asked: Mapping[str, ResourcesView]
    in_place: Mapping[str, ResourcesView]
    due_s: float
    verdict: ResizeVerdict | None = None  # None = not judged
    said: str = ""  # the message that stands


@dataclass(frozen=True, slots=True)
class ResizeFacts:
    """What a step is decided by. `requests` are counted in `usage`; `use_bytes` None = not known."""

    pod: PodObjectView
    run: ContainerRun
    requests: Amounts
    allocatable: Amounts
    usage: RunningUsage
    use_bytes: float | None


@dataclass(frozen=True, slots=True)
class ResizeStep:
    """What comes of a step: a status to write, requests to count from now on, a run that begins anew."""

    status: Manifest | None = None
    allocated: Amounts | None = None
    run: ContainerRun | None = None


class Resizes:
    """All resizes of a fleet, by the pods' UIDs."""

    def __init__(self) -> None:
        self._open: dict[str, PodResize] = {}
        self._in_place: dict[str, Mapping[str, ResourcesView]] = {}

    def forget(self, uid: str) -> None:
        """A pod that has ended is not resized."""
        self._open.pop(uid, None)
        self._in_place.pop(uid, None)

    def asked(self, uid: str, before: PodObjectView, pod: PodObjectView, now_s: float) -> bool:
        """Whether a pod asks for something else than it did."""
        if before.spec.containers == pod.spec.containers:
            return False
        asked, resize = asked_of(pod), self._open.get(uid)
        in_place = self._in_place.get(uid) or asked_of(before)
        if asked == (resize.asked if resize is not None else in_place):
            return False
        self._open[uid] = PodResize(asked, in_place, now_s)
        return True

    def room_at(self, uids: Iterable[str], now_s: float) -> None:
        """Something of the node of these pods has changed."""
        for uid in uids:
            resize = self._open.get(uid)
            if resize is not None and resize.verdict is ResizeVerdict.DEFERRED:
                resize.due_s = now_s

    def due(self, now_s: float) -> list[str]:
        """Pods of which something is to be done."""
        return [uid for uid, resize in self._open.items() if resize.due_s <= now_s]

    def next_at(self) -> float:
        """When the next is due, Unix time."""
        return min((resize.due_s for resize in self._open.values()), default=inf)

    def step(self, uid: str, facts: ResizeFacts, now_s: float) -> ResizeStep:
        """Judge one that is not allocated, bring about one that is."""
        resize = self._open[uid]
        if resize.verdict is not ResizeVerdict.FITS:
            return self._judge(resize, facts, now_s)
        statuses = containers_running(facts.pod, facts.run)
        error = below_use(resize, facts.use_bytes)
        if error:
            resize.due_s = now_s + RETRY_S
            if error == resize.said:
                return ResizeStep()
            resize.said = error
            return ResizeStep(in_progress(facts.pod, resize, statuses, now_s))
        del self._open[uid]
        self._in_place[uid] = resize.asked
        if not needs_restart(facts.pod, resize):
            return ResizeStep(done(facts.pod, resize, statuses, now_s))
        run = replace(facts.run, started_s=now_s, restarts=facts.run.restarts + 1)
        return ResizeStep(done(facts.pod, resize, containers_running(facts.pod, run), now_s), run=run)

    def _judge(self, resize: PodResize, facts: ResizeFacts, now_s: float) -> ResizeStep:
        before = (resize.verdict, resize.said)
        try:
            requests = requests_of(facts.pod)
        except InvalidInput as error:  # the API server refuses such amounts
            requests, resize.verdict, resize.said = NOTHING, ResizeVerdict.INFEASIBLE, str(error)
        else:
            resize.verdict, resize.said = judged(facts.requests, requests, facts.allocatable, facts.usage)
        if resize.verdict is ResizeVerdict.FITS:
            resize.due_s = now_s + ACTUATE_S
            statuses = containers_running(facts.pod, facts.run)
            return ResizeStep(in_progress(facts.pod, resize, statuses, now_s), requests)
        resize.due_s = now_s + RETRY_S
        is_news = before != (resize.verdict, resize.said)
        return ResizeStep(pending(facts.pod, resize, now_s) if is_news else None)


def asked_of(pod: PodObjectView) -> dict[str, ResourcesView]:
    """CPU and memory of each container, by name."""
    return {container.name: _resizable(container.resources) for container in pod.spec.containers}


def _resizable(resources: ResourcesView) -> ResourcesView:
    return ResourcesView(
        {name: amount for name, amount in resources.requests.items() if name in _RESIZABLE},
        {name: amount for name, amount in resources.limits.items() if name in _RESIZABLE},
    )


def judged(old: Amounts, new: Amounts, allocatable: Amounts, usage: RunningUsage) -> tuple[ResizeVerdict, str]:
    """Whether the node has room for `new` in the place of `old`, which is counted in its usage, and the message."""
    for name in _RESIZABLE:
        amount, capacity = new.get(name), allocatable.get(name)
        if amount > capacity:
            return ResizeVerdict.INFEASIBLE, (
                f"Node didn't have enough capacity: {name}, requested: {amount}, capacity: {capacity}"
            )
    for name in _RESIZABLE:
        amount, used = new.get(name), usage.used.get(name, 0) - old.get(name)
        if amount > old.get(name) and used + amount > allocatable.get(name):
            return ResizeVerdict.DEFERRED, (
                f"Node didn't have enough resource: {name}, requested: {amount}, used: {used}, "
                f"capacity: {allocatable.get(name)}"
            )
    return ResizeVerdict.FITS, ""


def below_use(resize: PodResize, use_bytes: float | None) -> str:
    """The error of a memory limit that is lowered below the pod's use; "" for none."""
    if use_bytes is None:
        return ""
    limits = [_memory_limit(resources) for resources in resize.asked.values()]
    before = [_memory_limit(resources) for resources in resize.in_place.values()]
    if any(limit is None for limit in limits):
        return ""
    total = sum(limit or 0 for limit in limits)
    is_lower = any(limit is None for limit in before) or total < sum(limit or 0 for limit in before)
    if is_lower and use_bytes >= total:
        return f"attempting to set pod memory limit ({total}) below current usage ({round(use_bytes)})"
    return ""


def _memory_limit(resources: ResourcesView) -> int | None:
    try:
        return Amounts.parse(resources.limits).get(MEMORY_NAME) if MEMORY_NAME in resources.limits else None
    except InvalidInput:
        return None


def needs_restart(pod: PodObjectView, resize: PodResize) -> bool:
    """Whether a container whose amounts change asks to be restarted for it."""
    for container in pod.spec.containers:
        was, now = resize.in_place.get(container.name, ResourcesView()), resize.asked[container.name]
        for policy in container.resize_policy:
            name = policy.resource_name
            changed = (was.requests.get(name), was.limits.get(name)) != (now.requests.get(name), now.limits.get(name))
            if changed and policy.restart_policy == "RestartContainer":
                return True
    return False


def pending(pod: PodObjectView, resize: PodResize, now_s: float) -> Manifest:
    """The status of a resize that waits or never will be."""
    reason = resize.verdict.value if resize.verdict is not None else ""
    return {"conditions": _with(pod, {PENDING: (reason, resize.said), IN_PROGRESS: None}, now_s)}


def in_progress(pod: PodObjectView, resize: PodResize, statuses: list[Manifest], now_s: float) -> Manifest:
    """The status of one that is allocated and not yet in place; the message is an error's."""
    return {
        "conditions": _with(pod, {PENDING: None, IN_PROGRESS: ("Error" if resize.said else "", resize.said)}, now_s),
        "containerStatuses": list(_given(statuses, resize.asked, resize.in_place)),
    }


def done(pod: PodObjectView, resize: PodResize, statuses: list[Manifest], now_s: float) -> Manifest:
    """The status once the containers have it."""
    return {
        "conditions": _with(pod, {PENDING: None, IN_PROGRESS: None}, now_s),
        "containerStatuses": list(_given(statuses, resize.asked, resize.asked)),
    }


def _given(
    statuses: list[Manifest], allocated: Mapping[str, ResourcesView], in_place: Mapping[str, ResourcesView]
) -> Iterator[Manifest]:
    for status in statuses:
        name = status["name"]
        has = in_place.get(name, ResourcesView())
        yield {
            **status,
            "allocatedResources": dict(allocated[name].requests),
            "resources": {"requests": dict(has.requests), "limits": dict(has.limits)},
        }


def _with(pod: PodObjectView, wanted: Mapping[str, tuple[str, str] | None], now_s: float) -> list[Manifest]:
    """The pod's conditions with these; None = without."""
    now = stamp(now_s)
    out: list[Manifest] = conditions_with(pod.status.conditions, "Ready", "True", "", "", now)
    for kind, found in wanted.items():
        out = [condition for condition in out if found is not None or condition["type"] != kind]
        if found is not None:
            out = conditions_with(convert(out, tuple[ConditionView, ...]), kind, "True", *found, now)
    for condition in out:
        condition.pop("lastUpdateTime", None)
    return [{key: value for key, value in condition.items() if value != ""} for condition in out]
