"""Moves that make room: for pods and gangs that wait, and to empty nodes (policy/rebalance/packing).

A pod fits on no node although enough is free in all, or few pods keep a node from being removed. Sets of pods proposed
by the policy are simulated in a trial: every pod must land elsewhere, and for a waiting pod the scheduler must place it
then; otherwise all of it is taken back. Within limits and budgets: a set that they do not admit at once is not begun,
except that a node is emptied over several rounds. Where the scheduler placed the waiting pods in the simulation is part
of the plan, so that the room can be kept for them.
Limits: at most `_ATTEMPTS` sets and `_NODES` nodes are tried for each pod; a waiting pod with gates or of another
scheduler is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.rebalancer.kind_context import FoundMove, KindContext
from cotenant.engine.rebalancer.plan import KeptPod, KindPlan, PlannedRoom
from cotenant.engine.rebalancer.settings import Defragmentation, Packing
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.demands import NO_DEMANDS, NO_HOLDINGS
from cotenant.model.cluster.taints import first_repelling
from cotenant.model.groups.migration import MoveAim
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, PODS_NAME
from cotenant.policy.rebalance.loads.order import LoadPod, sorted_pods
from cotenant.policy.rebalance.packing.emptying import NodeRequests, empty_nodes
from cotenant.policy.rebalance.packing.freeing import FreeableNode, Freeing, options
from cotenant.policy.rebalance.violations.node_rules import allows

DEFRAGMENTATION, PACKING = "Defragmentation", "HighNodeUtilization"
_NODES, _ATTEMPTS = 64, 12
_SUMS = frozenset(
    {CPU_NAME, MEMORY_NAME, PODS_NAME, "ephemeral-storage"}
)  # of other resources the parts matter, not only the sum
STATIC = ("it is a static pod", "it belongs to a DaemonSet")


def make_room(context: KindContext, settings: Defragmentation) -> None:
    """Add moves after which pods that wait can be placed."""
    waiting = _waiting(context, settings)
    solved = 0
    for members in waiting[: settings.max_waiting]:
        why = _free_for(context, settings, members)
        if why:
            context.kept.append(KeptPod(members[0].seen.pod.key, "", why, DEFRAGMENTATION))
        else:
            solved += 1
    context.kinds.append(KindPlan(DEFRAGMENTATION, len(waiting), solved))


def _waiting(context: KindContext, settings: Defragmentation) -> list[list[PodInfo]]:
    """Pods that have waited for long enough, those of one gang together, the most important and oldest first."""
    cluster = context.cluster
    groups: dict[str, list[PodInfo]] = {}
    for entry in cluster.every_pod():
        seen = entry.seen
        if (
            entry.state is not SchedulingState.QUEUED
            or seen.reservation
            or seen.scheduler not in cluster.settings.schedulers
        ):
            continue
        if context.now_s - seen.created_s >= settings.waits_s and settings.scope.covers(seen.pod):
            groups.setdefault(cluster.plugins.gangs.key_of(seen.uid) or seen.uid, []).append(entry)
    found = [sorted(group, key=lambda one: one.seen.pod.key) for group in groups.values()]
    return sorted(
        found, key=lambda group: (-group[0].seen.pod.priority, group[0].seen.created_s, group[0].seen.pod.key)
    )


def _free_for(context: KindContext, settings: Defragmentation, members: Sequence[PodInfo]) -> str:
    """Free room for one pod, or for all members of a gang; returns why there is none.

    The pods that leave a node for one member of a gang must not fill the node of another, so nodes that the gang is
    likely to use are offered to them only where nothing else works.
    """
    why = ""
    for avoided in (_likely_nodes(context, settings, members), frozenset[str]()):
        why = _free_all(context, settings, members, avoided)
        if not why or not avoided:
            break
    return why


def _likely_nodes(context: KindContext, settings: Defragmentation, members: Sequence[PodInfo]) -> frozenset[str]:
    """The nodes of the first option of each member of a gang, by requests alone; none for a single pod."""
    if len(members) == 1:
        return frozenset()
    names, resources, capacity, requested = context.cluster.requested()
    taken, found = np.zeros_like(capacity), set()
    for entry in members:
        need = _needs(entry, resources)
        options_of = _options(context, settings, entry, need, names, resources, capacity, requested + taken)
        if not options_of:
            return frozenset()
        option, pods = options_of[0]
        found.add(option.node)
        taken[names.index(option.node)] += need
        for pod in pods:
            taken[names.index(option.node)] -= _requests(context.choice.entries[pod.uid], resources)
    return frozenset(found)


def _needs(entry: PodInfo, resources: tuple[str, ...]) -> Int:
    return np.array([1 if name == PODS_NAME else entry.seen.pod.requests.get(name) for name in resources])


def _free_all(
    context: KindContext, settings: Defragmentation, members: Sequence[PodInfo], avoided: Collection[str]
) -> str:
    """Free room for each member in turn; nothing lands on the nodes `avoided`. Returns why there is none."""
    names, resources, capacity, requested = context.cluster.requested()
    taken = np.zeros_like(capacity)  # by the members before and by pods that landed, and freed by the pods that leave
    uids = [member.seen.uid for member in members]
    attempts, why = _ATTEMPTS, ""
    found: list[FoundMove] = []
    before = set(context.moved)
    with context.choice.trial() as whole:
        for number, entry in enumerate(members):
            need = _needs(entry, resources)
            why = "no node has pods enough that may move"
            tried = _options(context, settings, entry, need, names, resources, capacity, requested + taken)
            for option, pods in tried:
                if not pods and len(members) == 1:
                    continue  # the scheduler has looked at nodes where nothing is missing
                if attempts <= 0:
                    why = f"none of {_ATTEMPTS} sets of pods could be moved, the last: {why}"
                    break
                attempts -= 1
                with context.choice.trial() as trial:
                    moves, why = _move_all(context, option, pods, entry, members[0].seen.pod.key, avoided)
                    if not why and number == len(members) - 1 and not _are_placed(context, uids):
                        why = "with the room that they free the scheduler does not place it"
                    trial.kept = not why
                if why:
                    context.moved.difference_update(pod.uid for pod in pods)
                    continue
                found += moves
                taken[names.index(option.node)] += need
                for move in moves:
                    amounts = _requests(context.choice.entries[move.pod.uid], resources)
                    taken[names.index(option.node)] -= amounts
                    taken[names.index(move.target)] += amounts
                break
            else:
                break
            if why:
                break
        else:
            whole.kept = True
    if not whole.kept:
        context.moved.clear()
        context.moved.update(before)
        return why
    context.moves += found
    assigned = context.cluster.assigned()
    for entry in members:
        node, uid = assigned[entry.seen.uid], entry.seen.uid
        leaving = tuple(move.pod.uid for move in found if move.node == node)
        context.rooms.append(PlannedRoom(entry.seen.pod.key, uid, node, members[0].seen.pod.key, leaving))
    return ""


def _options(
    context: KindContext,
    settings: Defragmentation,
    entry: PodInfo,
    need: Int,
    names: tuple[str, ...],
    resources: tuple[str, ...],
    capacity: Int,
    requested: Int,
) -> list[tuple[Freeing, list[LoadPod]]]:
    """The first sets of pods to try for a waiting pod, in order."""
    nodes = context.nodes()
    missing = need - (capacity - requested)
    needed: Mask = np.asarray(need > 0)
    fits: Mask = np.asarray((capacity[:, needed] >= need[needed]).all(axis=1))
    shortage = (np.maximum(missing, 0)[:, needed] / need[needed]).sum(axis=1)
    rows: list[int] = []
    for row in np.argsort(np.where(fits, shortage, np.inf), kind="stable").tolist():
        node = nodes.get(names[row])
        if len(rows) >= _NODES or not fits[row]:
            break
        if node is None or not node.takes_pods or not allows(entry.seen.pod, node):
            continue
        if first_repelling(node.effective_taints, entry.seen.pod.tolerations) is None:
            rows.append(row)
    special = np.array([name not in _SUMS for name in resources]) & needed
    by_devices = bool(special.any()) or replace(entry.seen.demands, gang=None) != NO_DEMANDS
    movable: dict[int, list[LoadPod]] = {}
    for row in rows:
        pods = [context.load_pod(resident) for resident in context.residents(names[row])]
        movable[row] = [
            pod for pod in pods if pod.priority <= entry.seen.pod.priority and not context.admit(pod, names[row])
        ]
    ranked = sorted_pods([pod for pods in movable.values() for pod in pods], {}, {})
    rank = {load_pod.uid: number for number, load_pod in enumerate(ranked)}
    holders = []
    for row, pods in movable.items():
        held = np.array([_requests(context.choice.entries[pod.uid], resources) for pod in pods]).reshape(
            len(pods), len(resources)
        )
        ranks = np.array([rank[pod.uid] for pod in pods], dtype=np.int64)
        allocated = [context.choice.entries[pod.uid] for pod in pods]
        holds = np.array(
            [pod_info.holds != NO_HOLDINGS or pod_info.seen.holds != NO_HOLDINGS for pod_info in allocated],
            dtype=np.bool_,
        )
        lacks = np.where(needed, missing[row], 0)
        if by_devices and holds.any() and not (lacks > 0).any():
            holders.append(FreeableNode(names[row], lacks, held[holds], ranks[holds], True))
            movable[row] = [pod for pod, has in zip(pods, holds.tolist(), strict=True) if has]
        else:
            holders.append(FreeableNode(names[row], lacks, held, ranks))
    at = {names[row]: pods for row, pods in movable.items()}
    found = []
    for option in options(holders, settings.max_pods):
        found.append((option, [at[option.node][pod] for pod in option.pods]))
        if len(found) >= _ATTEMPTS:
            break
    return found


def _requests(entry: PodInfo, resources: tuple[str, ...]) -> Int:
    return np.array(
        [1 if name == PODS_NAME else entry.seen.pod.requests.get(name) for name in resources], dtype=np.int64
    )


def _move_all(
    context: KindContext,
    option: Freeing,
    pods: Sequence[LoadPod],
    waiting: PodInfo,
    about: str,
    avoided: Collection[str],
) -> tuple[list[FoundMove], str]:
    """Move these pods off the node; returns the moves, or why one cannot move."""
    targets = [
        name
        for name, node in context.nodes().items()
        if name != option.node and name not in avoided and not node.unschedulable
    ]
    why = f"frees room for {waiting.seen.pod.key}, which waits"
    found = []
    for pod in pods:
        refused = context.admit(pod, option.node)  # with those before it counted
        if not refused:
            landing = context.land(pod, option.node, targets, unharmed=True)
            found.append(FoundMove(pod, option.node, landing.node, DEFRAGMENTATION, why, about))
            refused = landing.reason if not landing.node else ""
        if refused:
            return [], f"{pod.key} of {option.node}: {refused}"
    return found, ""


def _are_placed(context: KindContext, uids: Sequence[str]) -> bool:
    """Whether the scheduler places all of these pods now."""
    context.choice.simulator.reopen()
    context.choice.simulator.place_waiting()
    assigned = context.cluster.assigned()
    return all(uid in assigned for uid in uids)


def pack(context: KindContext, settings: Packing) -> None:
    """Add moves that empty underused nodes."""
    names, resources, capacity, requested = context.cluster.requested()
    nodes = context.nodes()
    received = {move.target for move in context.moves}
    given = [
        NodeRequests(
            name,
            dict(zip(resources, requested[row].tolist(), strict=True)),
            dict(zip(resources, capacity[row].tolist(), strict=True)),
            nodes[name].takes_pods and not nodes[name].unschedulable,
        )
        for row, name in enumerate(names)
        if name in nodes and name not in received
    ]

    def empties(node: str, targets: Sequence[str]) -> Collection[str] | None:
        pods = [context.load_pod(resident) for resident in context.residents(node) if not resident.seen.terminating]
        pods = [pod for pod in pods if pod.refused not in STATIC]
        outside = next(
            (pod for pod in pods if not settings.scope.covers(context.choice.entries[pod.uid].seen.pod)), None
        )
        refused = next((pod for pod in pods if pod.refused), None)
        if not pods or outside is not None or refused is not None:
            if outside is not None or refused is not None:
                stuck = refused or outside
                assert stuck is not None
                context.kept.append(KeptPod(stuck.key, node, stuck.refused or "it is not in scope", PACKING))
            return None
        is_whole, moves = True, []
        with context.choice.landings() as whole:  # everything must fit, whatever the limits of this round
            for pod in sorted_pods(pods, {}, {}):
                is_whole = is_whole and not context.admit(pod, node)
                landing = context.choice.land(pod, node, targets, unharmed=True)
                if not landing.node:
                    context.kept.append(KeptPod(pod.key, node, landing.reason, PACKING))
                    return None
                moves.append((pod, landing.node))
            whole.kept = is_whole
        if not is_whole:
            return _begin(node, pods, targets)
        context.moved |= {pod.uid for pod in pods}
        context.moves += [_found(pod, node, target, len(pods)) for pod, target in moves]
        return {target for _, target in moves}

    def _begin(node: str, pods: Sequence[LoadPod], targets: Sequence[str]) -> Collection[str] | None:
        reached = set()
        for pod in sorted_pods(pods, {}, {}):
            refused = context.admit(pod, node)
            landing = context.land(pod, node, targets, unharmed=True) if not refused else None
            if landing is None or not landing.node:
                why = refused or (landing.reason if landing is not None else "")
                context.kept.append(KeptPod(pod.key, node, f"in a later round: {why}", PACKING))
                continue
            reached.add(landing.node)
            context.moves.append(_found(pod, node, landing.node, len(pods)))
        return reached or None

    found = empty_nodes(given, settings.thresholds, settings.number_of_nodes, empties, settings.most)
    notes = (found.note,) if found.note else ()
    context.kinds.append(KindPlan(PACKING, len(found.underused), len(found.emptied), notes))


def _found(pod: LoadPod, node: str, target: str, of: int) -> FoundMove:
    whole = "its only pod fits" if of == 1 else f"all of its {of} pods fit"
    why = f"{node} is underused, and {whole} elsewhere"
    return FoundMove(pod, node, target, PACKING, why, node, MoveAim(of))
