"""What has a memory of its own beside the seats: gangs, quotas, reservations.

Problem: such things decide whether a pod may wait, may be judged, or may be bound, and have deadlines and facts of their own; and the
scheduler of a cluster must not know each of them. Choice: one base class with neutral answers, told of every pod's coming, sitting, leaving and
going; it is asked before pods enter the queue (`gate`) and before they are judged (`admit`), says what it wants done through its `Host`, and
can be held against the pods (`validate`). Points are named as in the Kubernetes scheduling framework where it has them. What a *node* must have
is not here (engine/framework/node_rules.py). Limits: plugins are asked in order, and do not know one another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from cotenant.engine.framework.events import Event
from cotenant.engine.framework.instructions import Instruction
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.gangs.members import Job
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a pod is not judged now. Equal words for pods that are refused alike; `missing` has the figures."""

    plugin: str
    message: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    """What a plugin may ask of the engine that it belongs to."""

    say: Callable[[Instruction], None]  # something is to be done
    happened: Callable[[Event], None]  # something that may help pods that were refused
    reconsider: Callable[
        [str], None
    ]  # what holds the pod of this UID back, or whom it is judged with, may have changed
    count: Callable[[str], None]  # something was odd
    breaks_budget: Callable[[PodInfo], bool] = lambda entry: (
        False
    )  # whether a disruption budget has nothing left for this pod
    bears: Callable[[Sequence[PodInfo]], bool] = lambda entries: (
        True
    )  # whether disruption budgets bear that all of these go
    job_of: Callable[[PodInfo], Job | None] = lambda entry: (
        None
    )  # the Strict gang that is lost without this pod, or some of it
    lacks: Callable[[PodInfo], int] = lambda entry: (
        1
    )  # how many more of the pod's gang must be placed with it, itself counted


class Plugin:
    """Answers nothing, refuses nobody. A pod is told of in this order: opened, (seated, stood)*, closed."""

    name = ""
    gathers = False  # its gate often opens a moment later: a new pod is told of it only when it is looked at again

    def attach(self, host: Host) -> None:
        """Begin anew: no pod is known; facts of other kinds stay."""
        self.host = host

    def node_seen(self, node: Node) -> None:
        """A node is there, or has changed."""

    def node_gone(self, name: str) -> None:
        """A node was deleted."""

    def pod_arrived(self, entry: PodInfo) -> None:
        """A pod is known, or known anew with other demands."""

    def pod_left(self, entry: PodInfo) -> None:
        """It is gone, or will be opened anew; its `seen` may already be the new one."""

    def assigned(self, entry: PodInfo) -> None:
        """It counts on `entry.node`: decided, or told by the API server."""

    def unassigned(self, entry: PodInfo) -> None:
        """It counts there no more."""

    def pod_updated(self, entry: PodInfo) -> None:
        """A pod's claims, holdings or phase were told anew."""

    def pod_ended(self, seen: ObservedPod) -> None:
        """A pod has run to its end, also one that was never known; told again with every event about it."""

    def pod_deleted(self, uid: str) -> None:
        """A pod was deleted, also one that was never known."""

    def gate(self, entry: PodInfo) -> str:
        """Why the pod must not enter the queue yet; empty = it may (PreEnqueue)."""
        return ""

    def kind_of(self, entry: PodInfo) -> Hashable:
        """What makes pods different that placement alone could not tell apart."""
        return None

    def admit(self, pods: Sequence[PodInfo], now_s: float) -> Mapping[int, Refused]:
        """Which of these, by position, are not judged now; the others count as admitted, in this order, until `seated` or `cancel` (PreFilter)."""
        return {}

    def cancel(self, entry: PodInfo) -> None:
        """An admitted pod found no node."""

    def make_room(self, pods: Sequence[PodInfo], name: str, now_s: float) -> None:
        """A gang of which so many are enough was turned down here as a whole: others may be told to go for it (PostFilter). `name` is for people."""

    def may_help(self, entry: PodInfo) -> bool:
        """Whether what happened may help a pod that this plugin refused (QueueingHint)."""
        return True

    def turn(self, now_s: float) -> None:
        """Before every judgement: what is due."""

    def next_s(self) -> float:
        """When `turn` will next have something to do; -inf at once, inf never."""
        return inf

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """Everything agrees with the pods (by UID). Raises `Permanent`."""
