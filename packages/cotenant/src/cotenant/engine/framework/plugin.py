"""The contract of a plugin: a part with state of its own beside the assignments, such as gangs, quotas and reservations.

Problem: such parts decide whether a pod may enter the queue, be evaluated, or be bound, with deadlines and facts of their own, and the scheduling cycle must not know
each of them. Choice: one base class with neutral answers. A plugin gets every pod's arrival, assignment and departure, is called at the extension points of the
Kubernetes scheduling framework (PreEnqueue, PreFilter, PostFilter, Reserve, Permit, Unreserve; QueueSort, Filter and Score belong to the profile and to node rules),
and sends instructions through its `Host`. A plugin may also take whole groups of pods out of the cycle and place them itself (`judge_whole`), with the components
that `join` gives it. What a *node* must have is in engine/framework/node_rules.py. Limits: plugins are called in order, and do not know one another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from cotenant.engine.framework.events import Event
from cotenant.engine.framework.instructions import Instruction
from cotenant.engine.framework.jobs import Job
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import Group, Segment, Verdict
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.decisions.record import DecisionRecord
from cotenant.model.errors import Permanent

IsGoing = Callable[[PodInfo], bool]  # whether a pod is ending, or is being evicted


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a pod is not evaluated now. Pods that are rejected alike have equal messages; the figures are in `missing`."""

    plugin: str
    message: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    """What the engine offers to its plugins."""

    say: Callable[[Instruction], None]  # sends an instruction
    happened: Callable[[Event], None]  # reports an event that may help rejected pods
    reconsider: Callable[[str], None]  # by UID: the gate or the queue key of the pod may have changed
    count: Callable[[str], None]  # counts an anomaly, by name
    breaks_budget: Callable[[PodInfo], bool] = lambda entry: False  # whether a disruption budget forbids its eviction
    bears: Callable[[Sequence[PodInfo]], bool] = lambda entries: (
        True
    )  # whether budgets allow that all of these are evicted
    job_of: Callable[[PodInfo], Job | None] = lambda entry: None  # the job that loses this pod
    lacks: Callable[[PodInfo], int] = lambda entry: 1  # how many pods must be placed together with it, itself counted
    may_go: Callable[[Iterable[PodInfo]], None] = lambda entries: None  # reports placed pods that may be evictable now


class Cycle:
    """What the scheduling cycle gives to plugins that place pods themselves; see `engine/cycle/access.py`."""


class Plugin:
    """Neutral answers: no pod is rejected. A pod is reported in this order: arrived, (reserve, unreserve)*, left."""

    name = ""
    gathers = False  # `pre_enqueue` often admits a pod a moment later: its reason is reported only when the pod is reconsidered

    # ---- attachment

    def capture(self) -> Callable[[], Plugin]:
        """A maker of a plugin with the same facts and no pods, for a copy of the engine (engine/explain/copying.py). To be overridden by a plugin that has facts
        other than pods; what is returned must read nothing of this plugin when it is called."""
        return type(self)

    def attach(self, host: Host) -> None:
        """Start empty: no pod is known; facts of other kinds are kept."""
        self.host = host

    def snapshot(self) -> Callable[[], None]:
        """What it remembers now, as a function that puts it back after a simulation (engine/cycle/undo.py). The pods are as before when it is called, the same objects, but came and
        went through the events below meanwhile. To be overridden by a plugin that remembers more than follows from these events, such as deadlines and what it asked for."""
        return lambda: None

    def join(self, cycle: Cycle) -> None:
        """Join this engine. Called once, before the first event."""

    # ---- events

    def node_seen(self, node: Node) -> None:
        """A node was created or changed."""

    def node_gone(self, name: str) -> None:
        """A node was deleted."""

    def pod_arrived(self, entry: PodInfo) -> None:
        """A pod is known, or known again with other demands."""

    def pod_left(self, entry: PodInfo) -> None:
        """A pod is gone, or will arrive again; its `seen` may already be the new one."""

    def pod_updated(self, entry: PodInfo) -> None:
        """A pod's claims, holdings or phase changed."""

    def pod_ended(self, seen: ObservedPod) -> None:
        """A pod has run to its end, also one that was never known; repeated with every event about it."""

    def pod_deleted(self, uid: str) -> None:
        """A pod was deleted, also one that was never known."""

    # ---- extension points

    def pre_enqueue(self, entry: PodInfo) -> str:
        """Why the pod must not enter the queue yet; empty if it may (PreEnqueue)."""
        return ""

    def queue_key(self, entry: PodInfo) -> Hashable:
        """Distinguishes pods that are equal to placement. A `Whole`: all pods of that key are placed together, by `judge_whole`."""
        return None

    def queue_advance_s(self, entry: PodInfo) -> float:
        """By how many seconds the pod counts as having arrived earlier than it did; negative = later. It matters only among pods of equal priority (QueueSort)."""
        return 0.0

    def violation_surcharge(self, seen: ObservedPod) -> float:
        """By which share the founding score's violation term is larger for the pod, 0 to 0.5 (Score). Asked when the pod arrives, or arrives again with other demands."""
        return 0.0

    def queueing_hint(self, entry: PodInfo) -> bool:
        """Whether the events since may help a pod that this plugin rejected (QueueingHint)."""
        return True

    def pre_filter(self, pods: Sequence[PodInfo], now_s: float) -> Mapping[int, Refused]:
        """The pods, by position, that are not evaluated now (PreFilter). The others count as admitted, in this order, until `reserve` or `withdraw`."""
        return {}

    def withdraw(self, entry: PodInfo) -> None:
        """An admitted pod found no node."""

    def post_filter(self, pods: Sequence[PodInfo], name: str, now_s: float) -> None:
        """A group was rejected here as a whole, and these pods of it would be enough: others may be evicted for it (PostFilter). `name` is for messages."""

    def reserve(self, entry: PodInfo) -> None:
        """A pod counts on `entry.node`: placed by the cycle, or reported there by the API server (Reserve)."""

    def unreserve(self, entry: PodInfo) -> None:
        """A pod no longer counts on its node (Unreserve)."""

    def permit(self, entry: PodInfo) -> bool:
        """Whether a pod that is about to be assigned may be bound at once (Permit). Otherwise it keeps the node and waits until a plugin allows it."""
        return True

    def permitted_with(self, entry: PodInfo) -> Sequence[PodInfo]:
        """Waiting pods that may be bound now that this one is."""
        return ()

    def permitted(self, entry: PodInfo) -> None:
        """A waiting pod is bound from now on."""

    # ---- a round

    def before_round(self, now_s: float) -> bool:
        """A round starts: deadlines of waiting pods. Whether any pod left a node."""
        return False

    def rows_changed(self, rows: Collection[int], now_s: float) -> None:
        """These rows changed in a way that may help pods which wait for this plugin."""

    def before_run(self) -> None:
        """Pods are about to be placed: do what is due before."""

    def segments(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """The runs of pods, some perhaps divided; what must hold while a run is placed holds until the next is requested."""
        yield from segments

    def judge_whole(self, group: Group, now_s: float) -> None:
        """Place a group that this plugin keyed as `Whole`: all of it, or nothing is changed."""
        raise Permanent(f"plugin {self.name} keyed group {group.key} as whole and does not place it")

    def after_judging(self, now_s: float) -> None:
        """All pods of the round were evaluated: queue the whole groups that were rejected."""

    def after_round(self, now_s: float) -> None:
        """The round is over."""

    def turn(self, now_s: float) -> None:
        """Do what is due, before every round, also one without pods."""

    def next_s(self) -> float:
        """When `turn` or `before_round` will next have something to do: -inf at once, inf never."""
        return inf

    # ---- answers to other parts

    def complete_record(self, entry: PodInfo, record: DecisionRecord, together: int) -> DecisionRecord:
        """The record of an assigned pod; `together` pods were assigned in the same step."""
        return record

    def complete_verdict(self, entry: PodInfo, verdict: Verdict) -> Verdict:
        """The verdict of a pod that is placed by itself, with what this plugin knows of it."""
        return verdict

    def translate(self, instructions: tuple[Instruction, ...], now_s: float) -> tuple[Instruction, ...]:
        """Instructions before they leave the engine, those about this plugin's own stand-ins as instructions about their objects."""
        return instructions

    def jobs(self, is_going: IsGoing) -> tuple[Job, ...]:
        """Jobs: pods on nodes that are of use only together."""
        return ()

    def job_of(self, entry: PodInfo, is_going: IsGoing) -> Job | None:
        """The job of a placed pod."""
        return None

    def placed_with(self, entry: PodInfo) -> tuple[str, ...]:
        """Keys of the groups that are placed together with the pod's own, that included."""
        return ()

    def lacks(self, entry: PodInfo) -> int:
        """How many pods must be placed together for this one to run, itself counted."""
        return 1

    def is_leaving(self, uid: str) -> bool:
        """Whether this plugin is evicting the pod."""
        return False

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """Check its state against the pods (by UID). Raises `Permanent`."""


def overriding(plugins: Sequence[Plugin], hook: str) -> tuple[Plugin, ...]:
    """The plugins that override this method, in order: the others need not be called for every pod."""
    return tuple(plugin for plugin in plugins if getattr(type(plugin), hook) is not getattr(Plugin, hook))
