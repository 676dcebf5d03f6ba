"""All simulated kubelets as one state machine: pods and time in, writes out. No I/O.

Ten thousand kubelets as ten thousand tasks would spend their time waking up. One table of pods, one heap of due steps,
and the world's next completion; an event touches one pod. The API is the source of truth: after a restart of the
process, running pods resume at the progress they must have made by now.
Limits: containers start `START_S` after they are bound (no images), all of a pod's together, and stop within `STOP_S`
of being asked, or their grace period if that is shorter. A node that fails does nothing until it is restored; then its
pods start again from the beginning.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import Enum

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.cluster.annotations import RUN_SECONDS
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import NOTHING, Amounts
from cotenant_local.controllers.runtime.actions import PODS, Delete, EmitEvent, Patch
from cotenant_local.controllers.runtime.cache import Key
from cotenant_local.controllers.views.core import seconds
from cotenant_local.controllers.views.nodes import NodeObjectView
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.nodes import pod_status
from cotenant_local.nodes.admission import RunningUsage, admit, host_ports
from cotenant_local.nodes.behaviour import SimulatedPodBehaviour, behaviour_of, requests_of, runs_forever
from cotenant_local.nodes.devices.preparing import Preparations
from cotenant_local.nodes.fleet import address, pod_address
from cotenant_local.nodes.pod_status import ContainerRun
from cotenant_local.nodes.resizing import ResizeFacts, Resizes
from cotenant_local.nodes.world import LiveWorld

START_S = 0.5
STOP_S = 1.0
RESTART_S, MAX_RESTART_S = 10.0, 300.0
RETRY_PREPARE_S = 1.0  # until a pod that waits for its claims is looked at again

Write = Patch | Delete | EmitEvent


class PodStage(Enum):
    """The state of a pod on its node."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "waiting to restart"
    STOPPING = "stopping"
    ENDED = "ended"


@dataclass(slots=True)
class _Pod:
    pod: PodObjectView
    node: str
    requests: Amounts
    behaviour: SimulatedPodBehaviour
    step: PodStage
    run: ContainerRun
    counted: bool = False  # in its node's usage


@dataclass(slots=True)
class _Node:
    index: int
    up: bool
    usage: RunningUsage
    view: NodeObjectView | None = None
    allocatable: Amounts = NOTHING


class Kubelets:
    """The kubelets of a fleet."""

    def __init__(self, world: LiveWorld) -> None:
        self.world = world
        self.claims = Preparations()
        self.resizes = Resizes()
        self.writes: list[Write] = []  # to be sent and cleared by the caller
        self.unparsed = 0  # requests or annotations that could not be parsed
        self._nodes: dict[str, _Node] = {}
        self._pods: dict[str, _Pod] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._due: list[tuple[float, int, str, PodStage]] = []
        self._count = 0

    # --- nodes

    def add_node(self, name: str) -> None:
        """Add a machine to the fleet; pods run there once its Node object has been observed."""
        if name not in self._nodes:
            self._nodes[name] = _Node(len(self._nodes), True, RunningUsage())
            self.world.add_node(name)

    def has(self, name: str) -> bool:
        """Whether the node belongs to this fleet."""
        return name in self._nodes

    def is_up(self, name: str) -> bool:
        """Whether the node is powered on."""
        node = self._nodes.get(name)
        return node is not None and node.up

    def counts_as_ready(self, name: str) -> bool:
        """Whether the node is Ready according to the API; True if its object has not been observed."""
        view = self._nodes[name].view
        ready = view.condition("Ready") if view is not None else None
        return ready is None or ready.status == "True"

    def up(self) -> list[str]:
        """The nodes that are powered on."""
        return [name for name, node in self._nodes.items() if node.up]

    def address(self, name: str) -> str:
        """A node's internal address."""
        return address(self._nodes[name].index)

    def observe_node(self, view: NodeObjectView) -> None:
        """Record a node's object from the API."""
        node = self._nodes.get(view.metadata.name)
        if node is None:
            return
        if node.view is None or node.view.status.allocatable != view.status.allocatable:
            try:
                node.allocatable = Amounts.parse(view.status.allocatable)
            except InvalidInput:
                node.allocatable = NOTHING
        node.view = view

    def fail(self, name: str, now_s: float) -> bool:
        """Power the machine off. Returns whether it was up."""
        node = self._nodes.get(name)
        if node is None or not node.up:
            return False
        node.up = False
        self.world.power_off(name, now_s)
        return True

    def restore(self, name: str, now_s: float) -> bool:
        """Power the machine on: its pods start again, those being deleted end. Returns whether it was down."""
        node = self._nodes.get(name)
        if node is None or node.up:
            return False
        node.up = True
        self.world.add_node(name)
        for uid in list(self._on_node.get(name, ())):
            state = self._pods[uid]
            if state.pod.metadata.terminating:
                self._stop(state, now_s)
            elif state.step in (PodStage.RUNNING, PodStage.RESTARTING):
                state.run = ContainerRun(now_s, state.run.restarts + 1, state.run.pod_ip, state.run.host_ip)
                self._begin(uid, state, now_s)
            elif state.step is PodStage.STARTING:
                self._schedule(now_s + START_S, uid, PodStage.STARTING)
        return True

    # --- pods

    def observe_pod(self, pod: PodObjectView, now_s: float) -> None:
        """Record a pod's object from the API, and start or stop the pod accordingly."""
        name = pod.spec.node_name
        if not name or name not in self._nodes:
            return
        uid = pod.metadata.uid
        state = self._pods.get(uid)
        if state is None:
            state = self._adopt(uid, pod, now_s)
        else:
            before, state.pod = state.pod, pod
            if pod.finished and state.step is not PodStage.ENDED:  # set by another writer
                self._mark_ended(uid, state, now_s)
            elif state.counted and state.step is PodStage.RUNNING and self.resizes.asked(uid, before, pod, now_s):
                self._resize(uid, now_s)
        if pod.metadata.terminating and state.step is not PodStage.STOPPING and self._nodes[name].up:
            self._stop(state, now_s)

    def forget_pod(self, uid: str, now_s: float) -> None:
        """Remove a pod that was deleted from the API."""
        state = self._pods.get(uid)
        if state is None:
            return
        self._mark_ended(uid, state, now_s)
        del self._pods[uid]
        self._on_node[state.node].pop(uid, None)

    def advance(self, now_s: float) -> None:
        """Perform everything due by now."""
        done = self.world.advance(now_s)
        for uid in done.finished:
            self._finished(uid, now_s)
        for uid in done.evicted:
            self._evicted(uid, now_s)
        while self._due and self._due[0][0] <= now_s:
            _, _, uid, step = heapq.heappop(self._due)
            state = self._pods.get(uid)
            if state is None or state.step is not step or not self._nodes[state.node].up:
                continue
            if step is PodStage.STARTING:
                self._start(uid, state, now_s)
            elif step is PodStage.RESTARTING:
                state.run = ContainerRun(now_s, state.run.restarts + 1, state.run.pod_ip, state.run.host_ip)
                self._begin(uid, state, now_s)
            elif step is PodStage.RUNNING:
                self._past_deadline(uid, state, now_s)
            elif step is PodStage.STOPPING:
                meta = state.pod.metadata
                self._release(uid, state, now_s)
                self.writes.append(Delete(PODS, meta.namespace, meta.name, uid, grace_s=0))
        for uid in self.resizes.due(now_s):
            self._resize(uid, now_s)

    def next_at(self) -> float:
        """When `advance` is next needed, Unix time."""
        due = self._due[0][0] if self._due else float("inf")
        return min(due, self.resizes.next_at(), self.world.next_at())

    def counts(self) -> dict[str, int]:
        """Pods by step."""
        out: dict[str, int] = {}
        for state in self._pods.values():
            out[state.step.value] = out.get(state.step.value, 0) + 1
        return out

    def key(self, uid: str) -> Key | None:
        """The (namespace, name) of a known pod."""
        state = self._pods.get(uid)
        return state.pod.metadata.key if state is not None else None

    # --- state transitions

    def _adopt(self, uid: str, pod: PodObjectView, now_s: float) -> _Pod:
        try:
            requests = requests_of(pod)
        except InvalidInput:
            requests = NOTHING
            self.unparsed += 1
        behaviour, wrong = behaviour_of(pod, requests)
        self.unparsed += bool(wrong)
        name = pod.spec.node_name
        started = _started_s(pod)
        self._count += 1
        ip = pod.status.pod_ip or pod_address(self._count)
        run = ContainerRun(started or now_s, pod.restarts, ip, self.address(name))
        state = _Pod(pod, name, requests, behaviour, PodStage.STARTING, run)
        self._pods[uid] = state
        self._on_node.setdefault(name, {})[uid] = None
        if pod.finished:
            state.step = PodStage.ENDED
        elif pod.status.phase == "Running" and started is not None:
            self._count_usage(uid, state)
            state.step = PodStage.RUNNING
            if self._nodes[name].up:
                done_s = max(0.0, now_s - started) * self.world.speed
                self.world.start(uid, name, behaviour, now_s, done_s)
                self._watch_deadline(uid, state)
        else:
            self._schedule(now_s + START_S, uid, PodStage.STARTING)
            if wrong:
                self._emit(state, "Warning", "AnnotationIgnored", f"{wrong}; the pod is simulated without it")
            elif runs_forever(pod, behaviour):
                text = (
                    f"the nodes are simulated and run no command: annotation {RUN_SECONDS} of the pod template "
                    "says after how many seconds the pod ends, without it never"
                )
                self._emit(state, "Normal", "RunsForever", text)
        return state

    def _start(self, uid: str, state: _Pod, now_s: float) -> None:
        node = self._nodes[state.node]
        if node.view is None:  # bound before the node was observed
            self._schedule(now_s + START_S, uid, PodStage.STARTING)
            return
        if why := self.claims.problem(state.pod, node.view.metadata.annotations):
            self._emit(state, "Warning", "FailedPrepareDynamicResources", why)
            self._schedule(now_s + RETRY_PREPARE_S, uid, PodStage.STARTING)
            return
        rejection = admit(state.pod, state.requests, node.view, node.allocatable, node.usage)
        if rejection is not None:
            state.step = PodStage.ENDED
            self._write(state, pod_status.failed(state.pod, rejection.reason, rejection.message, now_s))
            return
        self._count_usage(uid, state)
        state.run = ContainerRun(now_s, state.run.restarts, state.run.pod_ip, state.run.host_ip)
        self._begin(uid, state, now_s)

    def _begin(self, uid: str, state: _Pod, now_s: float) -> None:
        state.step = PodStage.RUNNING
        self.world.start(uid, state.node, state.behaviour, now_s)
        self._write(state, pod_status.running(state.pod, state.run, now_s))
        self._watch_deadline(uid, state)

    def _watch_deadline(self, uid: str, state: _Pod) -> None:
        limit = state.pod.spec.active_deadline_seconds
        if limit is not None:
            since = seconds(state.pod.status.start_time) or state.run.started_s
            self._schedule(since + limit, uid, PodStage.RUNNING)

    def _past_deadline(self, uid: str, state: _Pod, now_s: float) -> None:
        self._release(uid, state, now_s)
        state.step = PodStage.ENDED
        text = "Pod was active on the node longer than the specified deadline"
        self._write(state, pod_status.failed(state.pod, "DeadlineExceeded", text, now_s))

    def _finished(self, uid: str, now_s: float) -> None:
        state = self._pods.get(uid)
        if state is None or state.step is not PodStage.RUNNING:
            return
        code, policy = state.behaviour.exit_code, state.pod.spec.restart_policy
        if policy == "Always" or (policy == "OnFailure" and code != 0):
            delay = min(RESTART_S * 2.0 ** min(state.run.restarts, 10), MAX_RESTART_S)
            state.step = PodStage.RESTARTING
            self._write(state, pod_status.waiting_to_restart(state.pod, state.run, code, now_s, delay))
            self._schedule(now_s + delay, uid, PodStage.RESTARTING)
            return
        self._release(uid, state, now_s)
        state.step = PodStage.ENDED
        self._write(state, pod_status.ended(state.pod, state.run, code, now_s))

    def _evicted(self, uid: str, now_s: float) -> None:
        state = self._pods.get(uid)
        if state is None or state.step is not PodStage.RUNNING:
            return
        self._release(uid, state, now_s)
        state.step = PodStage.ENDED
        text = "The node was low on resource: memory."
        self._write(state, pod_status.failed(state.pod, "Evicted", text, now_s))

    def _resize(self, uid: str, now_s: float) -> None:
        """Do what is due of a resize."""
        state = self._pods[uid]
        node = self._nodes[state.node]
        if not node.up or state.step is not PodStage.RUNNING or not state.counted:
            self.resizes.forget(uid)
            return
        usage = self.world.pod_usage(uid)
        facts = ResizeFacts(
            state.pod, state.run, state.requests, node.allocatable, node.usage, usage[1] if usage is not None else None
        )
        found = self.resizes.step(uid, facts, now_s)
        if found.allocated is not None:
            node.usage.remove(uid, state.requests)
            state.requests = found.allocated
            node.usage.add(uid, state.requests, host_ports(state.pod))
        if found.run is not None:
            state.run = found.run
            self.world.stop(uid, now_s)
            self.world.start(uid, state.node, state.behaviour, now_s)
        if found.status is not None:
            self._write(state, pod_status.body(state.pod, found.status))

    def _stop(self, state: _Pod, now_s: float) -> None:
        uid = state.pod.metadata.uid
        grace = state.pod.metadata.deletion_grace_period_seconds or 0
        delay = min(float(grace), STOP_S) if state.counted and state.step is not PodStage.ENDED else 0.0
        state.step = PodStage.STOPPING
        self._schedule(now_s + delay, uid, PodStage.STOPPING)

    def _mark_ended(self, uid: str, state: _Pod, now_s: float) -> None:
        self._release(uid, state, now_s)
        if state.step is not PodStage.STOPPING:
            state.step = PodStage.ENDED

    def _count_usage(self, uid: str, state: _Pod) -> None:
        if not state.counted:
            state.counted = True
            self._nodes[state.node].usage.add(uid, state.requests, host_ports(state.pod))

    def _release(self, uid: str, state: _Pod, now_s: float) -> None:
        self.resizes.forget(uid)
        if state.counted:
            state.counted = False
            self._nodes[state.node].usage.remove(uid, state.requests)
            self.resizes.room_at(self._on_node.get(state.node, ()), now_s)
        self.world.stop(uid, now_s)

    def _write(self, state: _Pod, body: Manifest) -> None:
        meta = state.pod.metadata
        self.writes.append(Patch(PODS, meta.namespace, meta.name, body, "status"))

    def _emit(self, state: _Pod, kind: str, reason: str, message: str) -> None:
        self.writes.append(EmitEvent(state.pod, "Pod", "v1", kind, reason, message))

    def _schedule(self, at_s: float, uid: str, step: PodStage) -> None:
        self._count += 1
        heapq.heappush(self._due, (at_s, self._count, uid, step))


def _started_s(pod: PodObjectView) -> float | None:
    for status in pod.status.container_statuses:
        if status.state.running is not None:
            return seconds(status.state.running.started_at)
    return None
