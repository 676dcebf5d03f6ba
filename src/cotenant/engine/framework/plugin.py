"""The contract of a plugin: what has a memory of its own beside the assignments, such as gangs, quotas and reservations.

Problem: such things decide whether a pod may wait, may be judged, or may be bound, with deadlines and facts of their own, and the scheduling cycle must not know
each of them. Choice: one base class with neutral answers. A plugin is told of every pod's arrival, assignment and leaving, is asked at the extension points of the
Kubernetes scheduling framework (PreEnqueue, PreFilter, PostFilter, Reserve, Permit, Unreserve; QueueSort, Filter and Score belong to the profile and to the rules of
nodes), and says what is to be done through its `Host`. A plugin may also take whole groups of pods out of the cycle and judge them itself (`judge_whole`), with the
parts that it is given by `join`. What a *node* must have is not here (engine/framework/node_rules.py). Limits: plugins are asked in order, and do not know one another.
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

IsGoing = Callable[[PodInfo], bool]  # whether a pod ends, or was told to


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a pod is not judged now. Equal messages for pods that are refused alike; `missing` has the figures."""

    plugin: str
    message: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    """What a plugin may ask of the engine that it belongs to."""

    say: Callable[[Instruction], None]  # an instruction for the owner
    happened: Callable[[Event], None]  # an event that may help pods that were refused
    reconsider: Callable[[str], None]  # by UID: what holds the pod back, or what it is judged with, may have changed
    count: Callable[[str], None]  # something odd, by name
    breaks_budget: Callable[[PodInfo], bool] = lambda entry: (
        False
    )  # whether a disruption budget has nothing left for it
    bears: Callable[[Sequence[PodInfo]], bool] = lambda entries: True  # whether budgets allow that all of these leave
    job_of: Callable[[PodInfo], Job | None] = lambda entry: None  # the job that is lost without this pod, or some of it
    lacks: Callable[[PodInfo], int] = lambda entry: 1  # how many pods must be placed together with it, itself counted


class Cycle:
    """What the scheduling cycle hands to plugins that judge by themselves; `engine/cycle/access.py` says what that is."""


class Plugin:
    """Answers nothing, refuses no pod. A pod is reported in this order: arrived, (reserve, unreserve)*, left."""

    name = ""
    gathers = False  # `pre_enqueue` often lets a pod in a moment later: its owner is told only at the next look

    # ---- belonging

    def capture(self) -> Callable[[], Plugin]:
        """A maker of a plugin with the same facts and no pods, for a copy of the engine (engine/explain/copying.py). To be overridden by a plugin that has facts
        other than pods; what is returned must read nothing of this plugin when it is called."""
        return type(self)

    def attach(self, host: Host) -> None:
        """Begin anew: no pod is known; facts of other kinds stay."""
        self.host = host

    def join(self, cycle: Cycle) -> None:
        """Belong to this engine. Called once, before the first event."""

    # ---- what was seen

    def node_seen(self, node: Node) -> None:
        """A node is there, or has changed."""

    def node_gone(self, name: str) -> None:
        """A node was deleted."""

    def pod_arrived(self, entry: PodInfo) -> None:
        """A pod is known, or known anew with other demands."""

    def pod_left(self, entry: PodInfo) -> None:
        """It is gone, or will arrive anew; its `seen` may already be the new one."""

    def pod_updated(self, entry: PodInfo) -> None:
        """A pod's claims, holdings or phase changed."""

    def pod_ended(self, seen: ObservedPod) -> None:
        """A pod has run to its end, also one that was never known; repeated with every event about it."""

    def pod_deleted(self, uid: str) -> None:
        """A pod was deleted, also one that was never known."""

    # ---- extension points

    def pre_enqueue(self, entry: PodInfo) -> str:
        """Why the pod must not enter the queue yet; empty = it may (PreEnqueue)."""
        return ""

    def queue_key(self, entry: PodInfo) -> Hashable:
        """What makes pods different that placement alone could not tell apart. A `Whole` = it is judged with all pods of that key, by `judge_whole`."""
        return None

    def queueing_hint(self, entry: PodInfo) -> bool:
        """Whether what happened may help a pod that this plugin refused (QueueingHint)."""
        return True

    def pre_filter(self, pods: Sequence[PodInfo], now_s: float) -> Mapping[int, Refused]:
        """Which of these, by position, are not judged now (PreFilter). The others count as admitted, in this order, until `reserve` or `withdraw`."""
        return {}

    def withdraw(self, entry: PodInfo) -> None:
        """An admitted pod found no node."""

    def post_filter(self, pods: Sequence[PodInfo], name: str, now_s: float) -> None:
        """A group of which so many are enough was refused here as a whole: others may be told to leave for it (PostFilter). `name` is for people."""

    def reserve(self, entry: PodInfo) -> None:
        """It counts on `entry.node`: placed by the cycle, or found there by the API server's word (Reserve)."""

    def unreserve(self, entry: PodInfo) -> None:
        """It counts there no more (Unreserve)."""

    def permit(self, entry: PodInfo) -> bool:
        """Whether a pod that is about to get a node may be bound at once (Permit). If not, it keeps the node and waits until a plugin allows it."""
        return True

    def permitted_with(self, entry: PodInfo) -> Sequence[PodInfo]:
        """Waiting pods that may be bound now that this one is."""
        return ()

    def permitted(self, entry: PodInfo) -> None:
        """A waiting pod is bound from now on."""

    # ---- taking part in a round of judgement

    def before_round(self, now_s: float) -> bool:
        """A round begins: deadlines of waiting pods. Whether any pod left a node."""
        return False

    def rows_changed(self, rows: Collection[int], now_s: float) -> None:
        """On these rows something changed that may help pods which wait for this plugin."""

    def before_run(self) -> None:
        """Pods are about to be judged: whatever is due before must be done."""

    def segments(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """The runs of pods, some perhaps divided so that pods are judged apart; what must hold while a run is judged holds until the next is asked for."""
        yield from segments

    def judge_whole(self, group: Group, now_s: float) -> None:
        """Judge a group that this plugin has keyed as `Whole`: all of it is placed, or nothing shows that it was tried."""
        raise Permanent(f"plugin {self.name} keyed group {group.key} as whole and does not judge it")

    def after_judging(self, now_s: float) -> None:
        """All pods of the round were judged: refused whole groups wait from now on."""

    def after_round(self, now_s: float) -> None:
        """The round is over."""

    def turn(self, now_s: float) -> None:
        """Before every round, also one in which nothing is judged: what is due."""

    def next_s(self) -> float:
        """When `turn` or `before_round` will next have something to do; -inf at once, inf never."""
        return inf

    # ---- what others ask of it

    def complete_record(self, entry: PodInfo, record: DecisionRecord, together: int) -> DecisionRecord:
        """The record of a pod that was given a node; `together` pods were, in the same step."""
        return record

    def complete_verdict(self, entry: PodInfo, verdict: Verdict) -> Verdict:
        """The verdict of a pod that is judged by itself, with what this plugin knows of it."""
        return verdict

    def translate(self, instructions: tuple[Instruction, ...], now_s: float) -> tuple[Instruction, ...]:
        """Instructions before they leave the engine, those about this plugin's own stand-ins in its own words."""
        return instructions

    def jobs(self, is_going: IsGoing) -> tuple[Job, ...]:
        """Pods on nodes that are of use only together."""
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
        """Whether this plugin has told the pod to leave."""
        return False

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """Everything agrees with the pods (by UID). Raises `Permanent`."""


def overriding(plugins: Sequence[Plugin], hook: str) -> tuple[Plugin, ...]:
    """Those that do something at this point, in order: the others need not be asked for every pod."""
    return tuple(plugin for plugin in plugins if getattr(type(plugin), hook) is not getattr(Plugin, hook))
