"""All simulated kubelets as one state machine: pods and time in, writes out. Without I/O.

Problem: ten thousand kubelets as ten thousand tasks would spend their time waking up. Choice: one table of pods, one heap of what is due, and the
world's next completion; an event touches one pod. What the API says is the truth: after a restart of the process, pods that say Running go on
from where they must be by now. Limits: containers start `START_S` after they are bound (no images), all of a pod's together, and stop within
`STOP_S` of being asked, or their grace period if that is shorter. A node that fails does nothing until it is restored: then
its pods start from the beginning.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import Enum

from cotenant.local.apiserver.contract import Manifest
from cotenant.local.controllers.runtime.actions import PODS, Delete, Patch
from cotenant.local.controllers.runtime.cache import Key
from cotenant.local.controllers.views.core import NodeView, Pod, seconds
from cotenant.local.nodes import pod_status
from cotenant.local.nodes.admission import Room, admit, host_ports
from cotenant.local.nodes.behaviour import Behaviour, behaviour_of, requests_of
from cotenant.local.nodes.fleet import address, pod_address
from cotenant.local.nodes.pod_status import Run
from cotenant.local.nodes.world import World
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import NOTHING, Amounts

START_S = 0.5
STOP_S = 1.0
RESTART_S, RESTART_MOST_S = 10.0, 300.0

Write = Patch | Delete


class Step(Enum):
    """Where a pod is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "waiting to be started again"
    STOPPING = "stopping"
    ENDED = "ended"


@dataclass(slots=True)
class _Entry:
    pod: Pod
    node: str
    requests: Amounts
    behaviour: Behaviour
    step: Step
    run: Run
    holds: bool = False


@dataclass(slots=True)
class _Node:
    index: int
    up: bool
    room: Room
    view: NodeView | None = None
    allocatable: Amounts = NOTHING


class Kubelets:
    """The kubelets of a fleet."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.writes: list[Write] = []  # to be carried out and cleared by the owner
        self.unreadable = 0  # annotations that could not be read
        self._nodes: dict[str, _Node] = {}
        self._entries: dict[str, _Entry] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._due: list[tuple[float, int, str, Step]] = []
        self._count = 0

    # --- nodes

    def add_node(self, name: str) -> None:
        """A machine of the fleet; pods run there once its NodeView object is known."""
        if name not in self._nodes:
            self._nodes[name] = _Node(len(self._nodes), True, Room())
            self.world.add_node(name)

    def has(self, name: str) -> bool:
        """Whether it is one of ours."""
        return name in self._nodes

    def is_up(self, name: str) -> bool:
        """Whether it works."""
        node = self._nodes.get(name)
        return node is not None and node.up

    def counts_as_ready(self, name: str) -> bool:
        """Whether the API's version of a node, where there is one, says that it is ready."""
        view = self._nodes[name].view
        ready = view.condition("Ready") if view is not None else None
        return ready is None or ready.status == "True"

    def up(self) -> list[str]:
        """The nodes that work."""
        return [name for name, node in self._nodes.items() if node.up]

    def address(self, name: str) -> str:
        """A node's internal address."""
        return address(self._nodes[name].index)

    def observe_node(self, view: NodeView) -> None:
        """The API's version of a node."""
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
        """The machine loses power; whether it was up."""
        node = self._nodes.get(name)
        if node is None or not node.up:
            return False
        node.up = False
        self.world.power_off(name, now_s)
        return True

    def restore(self, name: str, now_s: float) -> bool:
        """The machine is back: its pods start again, those that were being deleted end. Whether it was down."""
        node = self._nodes.get(name)
        if node is None or node.up:
            return False
        node.up = True
        self.world.add_node(name)
        for uid in list(self._on_node.get(name, ())):
            entry = self._entries[uid]
            if entry.pod.metadata.terminating:
                self._stop(entry, now_s)
            elif entry.step in (Step.RUNNING, Step.RESTARTING):
                entry.run = Run(now_s, entry.run.restarts + 1, entry.run.pod_ip, entry.run.host_ip)
                self._begin(uid, entry, now_s)
            elif entry.step is Step.STARTING:
                self._at(now_s + START_S, uid, Step.STARTING)
        return True

    # --- pods

    def observe_pod(self, pod: Pod, now_s: float) -> None:
        """A version of a pod."""
        name = pod.spec.node_name
        if not name or name not in self._nodes:
            return
        uid = pod.metadata.uid
        entry = self._entries.get(uid)
        if entry is None:
            entry = self._adopt(uid, pod, now_s)
        else:
            entry.pod = pod
            if pod.finished and entry.step is not Step.ENDED:  # somebody else said so
                self._end(uid, entry, now_s)
        if pod.metadata.terminating and entry.step is not Step.STOPPING and self._nodes[name].up:
            self._stop(entry, now_s)

    def forget_pod(self, uid: str, now_s: float) -> None:
        """A pod is gone from the API."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        self._end(uid, entry, now_s)
        del self._entries[uid]
        self._on_node[entry.node].pop(uid, None)

    def advance(self, now_s: float) -> None:
        """Do what is due."""
        done = self.world.advance(now_s)
        for uid in done.finished:
            self._finished(uid, now_s)
        for uid in done.evicted:
            self._evicted(uid, now_s)
        while self._due and self._due[0][0] <= now_s:
            _, _, uid, step = heapq.heappop(self._due)
            entry = self._entries.get(uid)
            if entry is None or entry.step is not step or not self._nodes[entry.node].up:
                continue
            if step is Step.STARTING:
                self._start(uid, entry, now_s)
            elif step is Step.RESTARTING:
                entry.run = Run(now_s, entry.run.restarts + 1, entry.run.pod_ip, entry.run.host_ip)
                self._begin(uid, entry, now_s)
            elif step is Step.RUNNING:
                self._past_deadline(uid, entry, now_s)
            elif step is Step.STOPPING:
                meta = entry.pod.metadata
                self._release(uid, entry, now_s)
                self.writes.append(Delete(PODS, meta.namespace, meta.name, uid, grace_s=0))

    def next_at(self) -> float:
        """When `advance` has something to do."""
        due = self._due[0][0] if self._due else float("inf")
        return min(due, self.world.next_at())

    def counts(self) -> dict[str, int]:
        """Pods by step."""
        out: dict[str, int] = {}
        for entry in self._entries.values():
            out[entry.step.value] = out.get(entry.step.value, 0) + 1
        return out

    def key(self, uid: str) -> Key | None:
        """The name of a pod that is known here."""
        entry = self._entries.get(uid)
        return entry.pod.metadata.key if entry is not None else None

    # --- the steps

    def _adopt(self, uid: str, pod: Pod, now_s: float) -> _Entry:
        try:
            requests = requests_of(pod)
        except InvalidInput:
            requests = NOTHING
            self.unreadable += 1
        behaviour, readable = behaviour_of(pod, requests)
        self.unreadable += not readable
        name = pod.spec.node_name
        started = _started_s(pod)
        self._count += 1
        ip = pod.status.pod_ip or pod_address(self._count)
        run = Run(started or now_s, pod.restarts, ip, self.address(name))
        entry = _Entry(pod, name, requests, behaviour, Step.STARTING, run)
        self._entries[uid] = entry
        self._on_node.setdefault(name, {})[uid] = None
        if pod.finished:
            entry.step = Step.ENDED
        elif pod.status.phase == "Running" and started is not None:
            self._hold(uid, entry)
            entry.step = Step.RUNNING
            if self._nodes[name].up:
                done_s = max(0.0, now_s - started) * self.world.speed
                self.world.start(uid, name, behaviour, now_s, done_s)
                self._watch_deadline(uid, entry)
        else:
            self._at(now_s + START_S, uid, Step.STARTING)
        return entry

    def _start(self, uid: str, entry: _Entry, now_s: float) -> None:
        node = self._nodes[entry.node]
        if node.view is None:  # bound before the node was seen
            self._at(now_s + START_S, uid, Step.STARTING)
            return
        rejection = admit(entry.pod, entry.requests, node.view, node.allocatable, node.room)
        if rejection is not None:
            entry.step = Step.ENDED
            self._write(entry, pod_status.failed(entry.pod, rejection.reason, rejection.message, now_s))
            return
        self._hold(uid, entry)
        entry.run = Run(now_s, entry.run.restarts, entry.run.pod_ip, entry.run.host_ip)
        self._begin(uid, entry, now_s)

    def _begin(self, uid: str, entry: _Entry, now_s: float) -> None:
        entry.step = Step.RUNNING
        self.world.start(uid, entry.node, entry.behaviour, now_s)
        self._write(entry, pod_status.running(entry.pod, entry.run, now_s))
        self._watch_deadline(uid, entry)

    def _watch_deadline(self, uid: str, entry: _Entry) -> None:
        limit = entry.pod.spec.active_deadline_seconds
        if limit is not None:
            since = seconds(entry.pod.status.start_time) or entry.run.started_s
            self._at(since + limit, uid, Step.RUNNING)

    def _past_deadline(self, uid: str, entry: _Entry, now_s: float) -> None:
        self._release(uid, entry, now_s)
        entry.step = Step.ENDED
        text = "Pod was active on the node longer than the specified deadline"
        self._write(entry, pod_status.failed(entry.pod, "DeadlineExceeded", text, now_s))

    def _finished(self, uid: str, now_s: float) -> None:
        entry = self._entries.get(uid)
        if entry is None or entry.step is not Step.RUNNING:
            return
        code, policy = entry.behaviour.exit_code, entry.pod.spec.restart_policy
        if policy == "Always" or (policy == "OnFailure" and code != 0):
            delay = min(RESTART_S * 2.0 ** min(entry.run.restarts, 10), RESTART_MOST_S)
            entry.step = Step.RESTARTING
            self._write(entry, pod_status.waiting_to_restart(entry.pod, entry.run, code, now_s, delay))
            self._at(now_s + delay, uid, Step.RESTARTING)
            return
        self._release(uid, entry, now_s)
        entry.step = Step.ENDED
        self._write(entry, pod_status.ended(entry.pod, entry.run, code, now_s))

    def _evicted(self, uid: str, now_s: float) -> None:
        entry = self._entries.get(uid)
        if entry is None or entry.step is not Step.RUNNING:
            return
        self._release(uid, entry, now_s)
        entry.step = Step.ENDED
        text = "The node was low on resource: memory."
        self._write(entry, pod_status.failed(entry.pod, "Evicted", text, now_s))

    def _stop(self, entry: _Entry, now_s: float) -> None:
        uid = entry.pod.metadata.uid
        grace = entry.pod.metadata.deletion_grace_period_seconds or 0
        delay = min(float(grace), STOP_S) if entry.holds and entry.step is not Step.ENDED else 0.0
        entry.step = Step.STOPPING
        self._at(now_s + delay, uid, Step.STOPPING)

    def _end(self, uid: str, entry: _Entry, now_s: float) -> None:
        self._release(uid, entry, now_s)
        if entry.step is not Step.STOPPING:
            entry.step = Step.ENDED

    def _hold(self, uid: str, entry: _Entry) -> None:
        if not entry.holds:
            entry.holds = True
            self._nodes[entry.node].room.take(uid, entry.requests, host_ports(entry.pod))

    def _release(self, uid: str, entry: _Entry, now_s: float) -> None:
        if entry.holds:
            entry.holds = False
            self._nodes[entry.node].room.give_back(uid, entry.requests)
        self.world.stop(uid, now_s)

    def _write(self, entry: _Entry, body: Manifest) -> None:
        meta = entry.pod.metadata
        self.writes.append(Patch(PODS, meta.namespace, meta.name, body, "status"))

    def _at(self, at_s: float, uid: str, step: Step) -> None:
        self._count += 1
        heapq.heappush(self._due, (at_s, self._count, uid, step))


def _started_s(pod: Pod) -> float | None:
    for status in pod.status.container_statuses:
        if status.state.running is not None:
            return seconds(status.state.running.started_at)
    return None
