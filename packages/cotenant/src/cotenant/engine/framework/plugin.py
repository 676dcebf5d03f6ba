"""The contract of a plugin: the extension points of the Kubernetes scheduling framework, by their names.

Gangs, quotas, reservations, and whatever others add, decide with facts and deadlines of their own, and the scheduling
cycle must know none of them. One base class with neutral answers. The engine calls a point only of plugins that
override it, and for a pod only of those that do not skip it: `skips` is the framework's status Skip, given once for all
pods that are alike (engine/framework/roster.py). Two contracts stand beside, for plugins that place pods together or
say who may be evicted (engine/framework/contracts.py).

PreEnqueue, QueueSort, PreFilter, Filter, PostFilter, PreScore, Score, Reserve, Permit, PreBind, Bind, PostBind and
Unreserve are the framework's. `sign` is its SignPod; `events` with `queueing_hint` its EventsToRegister. Deviations:
PreFilter takes the pods of a run together, Bind the instructions of a round, and Filter and Score all nodes at once.
Plugins are called in the order of the registry, and do not know one another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType

from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.instructions import Instruction
from cotenant.engine.framework.jobs import PlacedJob
from cotenant.engine.framework.node_rules import RuleResult
from cotenant.engine.framework.node_view import NodeView
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import PlacementVerdict
from cotenant.model.arrays import Float, Int
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.decisions.record import DecisionRecord


class Cycle:
    """What the scheduling cycle gives to plugins that place pods themselves; see `engine/cycle/access.py`."""


@dataclass(frozen=True, slots=True)
class PodRefused:
    """Why a pod is not evaluated now. Pods that are rejected alike have equal messages; the figures are in
    `missing`.
    """

    plugin: str
    message: str
    missing: str = ""
    is_told: bool = True  # False where it is over in a moment: the pod's owner is not told
    about_nodes: bool = False  # more nodes would help: autoscalers may act on it


@dataclass(frozen=True, slots=True)
class PluginHost:
    """What the engine offers to its plugins."""

    say: Callable[[Instruction], None]  # sends an instruction
    happened: Callable[[EventKind], None]  # reports an event that may help rejected pods
    reconsider: Callable[[str], None]  # by UID: the gate or the queue key of the pod may have changed
    count: Callable[[str], None]  # counts an anomaly, by name
    is_going: Callable[[PodInfo], bool] = lambda entry: entry.seen.terminating  # or a preemptor waits for its end
    breaks_budget: Callable[[PodInfo], bool] = lambda entry: False  # whether a disruption budget forbids its eviction
    # whether budgets allow that all of the first are evicted, beside the second that go already
    bears: Callable[[Sequence[PodInfo], Sequence[PodInfo]], bool] = lambda entries, going: True
    job_of: Callable[[PodInfo], PlacedJob | None] = lambda entry: None  # the job that loses this pod
    lacks: Callable[[PodInfo], int] = lambda entry: 1  # how many pods must be placed together with it, itself counted
    may_go: Callable[[Iterable[PodInfo]], None] = lambda entries: None  # reports placed pods that may be evictable now
    unskip: Callable[[Plugin], None] = lambda plugin: None  # reports as arrived, and reserved, what it skipped so far
    cycle: Cycle = field(default_factory=Cycle)


_NO_HOST = PluginHost(lambda given: None, lambda event: None, lambda uid: None, lambda what: None)


class Plugin:
    """Neutral answers: no pod is rejected. A pod is reported in this order: arrived, (reserve, unreserve)*, left."""

    name = ""  # in refusals and records
    events: Mapping[str, frozenset[EventKind]] = MappingProxyType(
        {}
    )  # by filter name: what may help its refusals; others: any
    gathers = False  # `pre_enqueue` often admits a pod a moment later: its reason is told when it is reconsidered
    is_idle = False  # nothing is due: `turn`, `next_s`, `bind`, `pre_score` and whole groups are not asked
    host: PluginHost = _NO_HOST

    def skips(self, pod: Pod, demands: Demands) -> bool:
        """Whether pods like this one pass through no point of this plugin. It must follow from namespace, labels,
        requests, classes and demands; call `host.unskip` where less is skipped than before.
        """
        return False

    # ---- the points, in order

    def pre_enqueue(self, entry: PodInfo) -> str:
        """Why the pod must not enter the queue yet; empty if it may."""
        return ""

    def queue_sort(self, entry: PodInfo) -> float:
        """By how many seconds it counts as having arrived earlier; negative = later. It matters among pods of equal
        priority.
        """
        return 0.0

    def sign(self, entry: PodInfo) -> Hashable:
        """Distinguishes pods of equal labels, requests and demands. A `WholeGroup`: all pods of that key are placed by
        `Grouping.place_group`.
        """
        return None

    def queueing_hint(self, entry: PodInfo) -> bool:
        """Whether the events since may help a pod that this plugin rejected."""
        return True

    def pre_filter(self, pods: Sequence[PodInfo], now_s: float) -> Mapping[int, PodRefused]:
        """The pods, by position, that are not evaluated now. The others count as admitted, in this order, until
        `reserve` or `unreserve`.
        """
        return {}

    def filter(self, pod: Pod, nodes: NodeView) -> RuleResult | None:
        """The nodes on which the pod may be, and why not on the others; None = on all."""
        return None

    def post_filter(self, pods: Sequence[PodInfo], verdict: PlacementVerdict, now_s: float) -> PlacementVerdict:
        """No node was found for the pod; or this plugin rejected a group of which these would be enough: others may be
        evicted for it. Returns what is told.
        """
        return verdict

    def pre_score(self, seen: ObservedPod) -> float:
        """By which share the founding score's violation term is larger for the pod, 0 to 0.5. Asked when the pod
        arrives, or arrives again with other demands.
        """
        return 0.0

    def score(self, pod: Pod, nodes: NodeView, rows: Int) -> Float | None:
        """Points from 0 to 100 for each of these rows, all of which are feasible, added to the profile's score; None =
        no preference.
        """
        return None

    def reserve(self, entry: PodInfo, node: str) -> None:
        """A pod counts on a node: placed by the cycle, or reported there. A plugin with `filter` hears of it before the
        next pod is judged.
        """

    def unreserve(self, entry: PodInfo) -> None:
        """A pod no longer counts on its node; or `pre_filter` admitted it, and it found none (`entry.node` is
        empty).
        """

    def permit(self, entry: PodInfo) -> bool:
        """Whether a pod that is about to be assigned may be bound at once. Otherwise it keeps the node and waits until
        a plugin allows it.
        """
        return True

    def pre_bind(self, entry: PodInfo, record: DecisionRecord, together: int) -> DecisionRecord:
        """The record that is bound with the pod; `together` pods were assigned in the same step."""
        return record

    def bind(self, instructions: tuple[Instruction, ...], now_s: float) -> tuple[Instruction, ...]:
        """Instructions before they leave the engine, those about this plugin's own stand-ins as instructions about
        their objects.
        """
        return instructions

    def post_bind(self, entry: PodInfo) -> None:
        """The API server confirmed the bind."""

    # ---- facts and time

    def node_changed(self, name: str, node: Node | None) -> None:
        """A node was created or changed; None = deleted."""

    def pod_arrived(self, entry: PodInfo) -> None:
        """A pod is known, or known again with other demands."""

    def pod_left(self, entry: PodInfo) -> None:
        """A pod is gone, or will arrive again; its `seen` may already be the new one."""

    def pod_updated(self, entry: PodInfo) -> None:
        """A pod's claims, holdings or phase changed."""

    def pod_ended(self, uid: str, seen: ObservedPod | None) -> None:
        """A pod has run to its end, or was deleted (None); also one that was never known, and repeatedly."""

    def turn(self, now_s: float) -> None:
        """Do what is due, before every round, also one without pods."""

    def next_s(self) -> float:
        """When `turn` or a round will next have something to do: -inf at once, inf never."""
        return inf

    # ---- state

    def attach(self, host: PluginHost) -> None:
        """Start empty: no pod is known; facts of other kinds are kept."""
        self.host = host

    def capture(self) -> Callable[[], Plugin]:
        """A maker of a plugin with the same facts and no pods, for a copy of the engine (engine/explain/copying.py).

        To be overridden by a plugin that has facts other than pods, or arguments. What is returned must read nothing of
        this plugin when it is called.
        """
        return type(self)

    def snapshot(self) -> Callable[[], None]:
        """What it remembers now, as a function that puts it back after a simulation (engine/cycle/undo.py).

        The pods are as before when it is called, the same objects, but came and went through the calls above meanwhile.
        To be overridden by a plugin that remembers more than follows from these, such as deadlines and what it asked
        for.
        """
        return lambda: None

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """Check its state against the pods (by UID). Raises `Permanent`."""


def overriding(plugins: Sequence[Plugin], point: str) -> tuple[Plugin, ...]:
    """The plugins that override this point, in order."""
    return tuple(plugin for plugin in plugins if getattr(type(plugin), point) is not getattr(Plugin, point))
