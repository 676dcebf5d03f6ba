"""A copy of the engine, made from its facts, in which a change may be carried out.

Whether a change helps a pod depends on everything that decides: gangs, quotas, reservations, preemption, and the pods
before it in the queue. A formula about one pod and one node is wrong as soon as one of them matters. The facts (nodes,
pods with their nodes, budgets, objects of plugins, reports, learned estimates) are captured, and a second engine is
built from them, which then runs the same cycle. Capturing costs a pass over the pods; the copy is built later and reads
nothing of the original, so it can be built and run in another thread.
Limits: back-offs begin again; pods that come after the pod in question in the queue are left out unless there are
quotas; a pod that holds a node for its gang begins as nominated for it, and as bound where it is of another gang.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from cotenant.engine.cycle.closed_nodes import ClosedNodes
from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.cycle.queue import rank
from cotenant.engine.framework.contracts import Evicting
from cotenant.engine.framework.instructions import Instruction
from cotenant.engine.framework.pod_state import DECIDED, PodInfo, SchedulingState
from cotenant.engine.framework.queueing import QueueStanding
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.state.estimates import Learned
from cotenant.engine.state.learned_profiles import ProfileStore
from cotenant.model.arrays import Float
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, NamespaceFacts, NodeStorage, ObservedPod

_MAX_AHEAD = 512  # waiting pods that come before the pod in question
_MAX_BEHIND = 2048


class Engine(Protocol):
    """What is used of an engine's copy."""

    def node_seen(self, node: Node) -> None:
        """See `Cluster`."""
        ...

    @property
    def closed(self) -> ClosedNodes:
        """See `Cluster`."""
        ...

    def namespace_seen(self, facts: NamespaceFacts) -> None:
        """See `Cluster`."""
        ...

    def budget_seen(self, budget: DisruptionBudget) -> None:
        """See `Cluster`."""
        ...

    def node_storage_seen(self, storage: NodeStorage) -> None:
        """See `Cluster`."""
        ...

    def report_all(self, nodes: Sequence[str], values: Float) -> None:
        """See `Cluster`."""
        ...

    def adopt(self, learned: tuple[Learned, ...], now_s: float, profiles: ProfileStore | None = None) -> None:
        """See `Cluster`."""
        ...

    def pod_seen(self, seen: ObservedPod, now_s: float) -> None:
        """See `Cluster`."""
        ...

    def pod_gone(self, uid: str, now_s: float) -> None:
        """See `Cluster`."""
        ...

    def sending(self, uid: str, now_s: float) -> bool:
        """See `Cluster`."""
        ...

    def bound(self, uid: str, now_s: float) -> None:
        """See `Cluster`."""
        ...

    def decide(self, now_s: float) -> tuple[Instruction, ...]:
        """See `Cluster`."""
        ...

    def next_s(self) -> float:
        """See `Cluster`."""
        ...


Make = Callable[[PluginRegistry], Engine]


@dataclass(frozen=True, slots=True)
class Captured:
    """The facts of an engine at one moment."""

    now_s: float
    make: Make
    plugins: Callable[[], PluginRegistry]
    nodes: tuple[Node, ...]
    reports: Float  # `float64[len(nodes), len(Report)]`
    namespaces: tuple[NamespaceFacts, ...]
    budgets: tuple[DisruptionBudget, ...]
    storages: tuple[NodeStorage, ...]
    learned: tuple[Learned, ...]
    profiles: ProfileStore | None  # a copy
    placed: tuple[ObservedPod, ...]
    waiting: tuple[
        ObservedPod, ...
    ]  # the pod in question, its gang, the pods before it, and where quotas count requests those behind it
    own: frozenset[str]  # UIDs of those of `waiting` that are the pod or of its gang
    ahead: frozenset[str]  # UIDs of those that come before it
    cut: bool = False  # whether there are more pods before it
    overtaken: bool = (
        False  # whether one of `ahead` is behind it in the queue, and is tried before the end of its back-off
    )
    closed: frozenset[str] = frozenset()  # nodes on which another scheduler places

    def node(self, name: str) -> Node:
        """A node by name."""
        return next(entry for entry in self.nodes if entry.name == name)

    def build(
        self, pods: Mapping[str, ObservedPod], nodes: Mapping[str, Node], without: frozenset[str] = frozenset()
    ) -> Engine:
        """A copy in which these pods (by UID) and nodes (by name) are as given, and the waiting pods `without` are
        behind scheduling gates.
        """
        made = self.make(self.plugins())
        made.closed.close(self.closed, self.now_s)
        for node in self.nodes:
            made.node_seen(nodes.get(node.name, node))
        for facts in self.namespaces:
            made.namespace_seen(facts)
        for budget in self.budgets:
            made.budget_seen(budget)
        for storage in self.storages:
            made.node_storage_seen(storage)
        made.report_all([node.name for node in self.nodes], self.reports)
        waiting = [pods.get(seen.uid, seen) for seen in self.waiting]
        waiting = [
            replace(seen, gates=("left out",), nominated_node="") if seen.uid in without else seen for seen in waiting
        ]  # not absent: quotas count what they request
        # a gang with a placed member whose other members are not known counts as complete; a nomination needs its
        # victims
        for seen in waiting:
            if not seen.nominated_node:
                made.pod_seen(seen, self.now_s)
        for seen in self.placed:
            made.pod_seen(pods.get(seen.uid, seen), self.now_s)
        for seen in waiting:
            if seen.nominated_node:
                made.pod_seen(seen, self.now_s)
        made.adopt(self.learned, self.now_s, self.profiles.copy() if self.profiles is not None else None)
        return made


def capture(
    components: ClusterComponents,
    pods: Pods,
    plugins: PluginRegistry,
    namespaces: Iterable[NamespaceFacts],
    budgets: Iterable[DisruptionBudget],
    make: Make,
    about: PodInfo | None,
    now_s: float,
) -> Captured:
    """The facts of an engine for a question about this pod, or with every waiting pod where there is no `about`."""
    assignments, profile = components.assignments, components.profile
    rows = assignments.encoder.node_rows
    learns = profile.measures_use or profile.weighs_slack
    gang = _gang(plugins, plugins.gangs.placed_with(about)) if about is not None else frozenset()
    evicting = [plugin for plugin in plugins.in_order() if isinstance(plugin, Evicting)]
    placed: list[ObservedPod] = []
    own: list[ObservedPod] = []
    others: list[PodInfo] = []
    after: list[PodInfo] = []
    overtaken = False
    for entry in pods.by_uid.values():
        if entry.seen.reservation:
            continue  # made anew from the reservation
        is_own = entry is about or entry.seen.uid in gang
        if entry is not about and (entry.state in DECIDED or (entry.state is SchedulingState.WAITING and not is_own)):
            is_going = components.nominations.is_doomed(entry.seen.uid) or any(
                element.is_leaving(entry.seen.uid) for element in evicting
            )
            placed.append(_placed(entry, is_going, now_s))
        elif is_own:
            own.append(_waiting(entry, components))
        elif about is None or _is_before(entry, about, components):
            others.append(entry)
        elif _overtakes(entry, about, components, now_s):
            others.append(entry)
            overtaken = True
        else:
            after.append(entry)
    keys = {key for entry in others for key in plugins.gangs.placed_with(entry)}
    mates = _gang(plugins, keys) if keys else frozenset()
    others += [entry for entry in after if entry.seen.uid in mates]  # a gang comes with all of its members
    others.sort(key=lambda pod_info: (-pod_info.seen.pod.priority, rank(pod_info.seen, profile, pod_info.advance_s)))
    ahead = [_waiting(entry, components) for entry in others[:_MAX_AHEAD]]
    if about is not None and plugins.quotas.quota_of(about.seen.uid)[0]:
        # what a quota may use depends on what is requested of all, also by pods behind
        behind = [_waiting(entry, components) for entry in after if entry.seen.uid not in mates][:_MAX_BEHIND]
    else:
        behind = []
    return Captured(
        now_s,
        make,
        plugins.capture(),
        tuple(
            replace(assignments.encoder.node(row), images=assignments.narrowing.images.of(name))
            for name, row in rows.items()
        ),
        assignments.encoder.nodes().report[list(rows.values())].copy(),
        tuple(namespaces),
        tuple(budgets),
        assignments.narrowing.volumes.limits.storages(),
        assignments.estimates.learned() if learns else (),
        components.profiles.copy() if components.profiles is not None else None,
        tuple(placed),
        (*own, *ahead, *behind),
        frozenset(observed_pod.uid for observed_pod in own),
        frozenset(observed_pod.uid for observed_pod in ahead),
        len(others) > _MAX_AHEAD,
        overtaken,
        frozenset(assignments.encoder.closed),
    )


def _placed(entry: PodInfo, is_going: bool, now_s: float) -> ObservedPod:
    """The pod as the API server will have it once everything that is on its way is written."""
    seen = entry.seen
    if seen.node != entry.node:
        seen = replace(seen, node=entry.node)
    if seen.holds == NO_HOLDINGS and entry.holds != NO_HOLDINGS:
        seen = replace(seen, holds=entry.holds)
    return replace(seen, ends_s=now_s) if is_going and not seen.terminating else seen


def _waiting(entry: PodInfo, components: ClusterComponents) -> ObservedPod:
    seen = entry.seen
    nominated = entry.node if entry.state is SchedulingState.WAITING else components.nominations.node_of(seen.uid)
    if seen.node:  # the question is about a placed pod, as if it were not there yet
        seen = replace(seen, node="", holds=NO_HOLDINGS)
    return seen if seen.nominated_node == nominated else replace(seen, nominated_node=nominated)


def _is_before(entry: PodInfo, about: PodInfo, components: ClusterComponents) -> bool:
    """Whether a waiting pod may take room before this one: it comes first in the queue, or has a nominated node."""
    if entry.seen.uid in components.nominations:
        return True
    mine, its = about.seen, entry.seen
    if its.pod.priority != mine.pod.priority:
        return its.pod.priority > mine.pod.priority
    profile = components.profile
    return rank(its, profile, entry.advance_s) <= rank(mine, profile, about.advance_s)


def _overtakes(entry: PodInfo, about: PodInfo, components: ClusterComponents, now_s: float) -> bool:
    """Whether an event that helps both pods lets this one be tried first: its group's back-off ends earlier."""
    mine, its = (components.queue.group_of(info.seen.uid) for info in (about, entry))
    if mine is None or its is None or mine.standing is QueueStanding.ACTIVE or mine.until_s <= now_s:
        return False
    return its.standing is QueueStanding.ACTIVE or its.until_s < mine.until_s


def _gang(plugins: PluginRegistry, keys: Iterable[str]) -> frozenset[str]:
    """UIDs of the pods of these gangs."""
    found = (plugins.gangs.get(key) for key in keys)
    return frozenset(uid for gang in found if gang is not None for uid in gang.members)


def fresh_rng() -> np.random.Generator:
    """The random generator of a copy: decisions of the original draw nothing from it."""
    return np.random.default_rng(0)
