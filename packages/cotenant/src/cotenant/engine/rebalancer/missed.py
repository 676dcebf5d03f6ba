"""Moves for pods whose objective keeps being missed: of the pod, or of a neighbour that is the cause.

The pod that suffers is often the dearest to move, and few moves are allowed. The victim and the neighbours that are
predicted to press most on it are candidates; of those whose leaving relieves the node by at least half of what the best
of them does, for as long as they are expected to run, the first in the order of what a move costs (class, priority,
QoS, costs), then the others, whose landing lowers the victim's predicted use of its objective by the configured gain
without a larger predicted violation on both nodes. Victims are relieved in the order of the best relief, those of
burning budgets first. With an allowance (policy/rebalance/allowance.py) no more pods move than are left of it. Which
pods are victims: where ServiceObjectives cover a service (policy/rebalance/standings.py), their alerts decide and the
worst replica is the victim; elsewhere, and where they have no data, the pods' own reports.
Limits: where nothing is predicted, only the victim moves, to a node that the scheduler prefers; windows are those of
NodeMetrics, whose number of requests is not reported.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan

import numpy as np

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rebalancer.kind_context import FoundMove, KindContext
from cotenant.engine.rebalancer.plan import KeptPod, KindPlan
from cotenant.engine.rebalancer.prediction import growth_of, predicted_on, reliefs
from cotenant.engine.rebalancer.round_limits import controller
from cotenant.engine.rebalancer.settings import MissedObjectives
from cotenant.model.arrays import Param
from cotenant.model.groups.migration import MoveAim
from cotenant.model.traces.objective import ObjectiveStatus
from cotenant.policy.rebalance.loads.order import LoadPod, sorted_pods
from cotenant.policy.rebalance.objectives import Misses
from cotenant.policy.rebalance.standings import MoveEvidence, Standings

MISSED = "MissedObjectives"
_LEAST_OF_BEST = 0.5  # of the best relief: a cheaper move may relieve so much less


@dataclass(frozen=True, slots=True)
class _Case:
    """A pod that may be relieved. `about`: see `FoundMove`; `stays`: why not, empty = it may."""

    uid: str
    about: str
    why: str
    stays: str = ""
    aim: MoveAim | None = None


def relieve(
    context: KindContext,
    settings: MissedObjectives,
    misses: Misses,
    standings: Standings,
    expires_s: float,
    done: Collection[str],
    left: int | None = None,
) -> None:
    """Add moves for victims to the context. `done`: kinds of moves, such as `MissedObjectives/POD`, that were made
    lately; `left`: of the allowance, None = no limit.
    """
    entries = {pod_info.seen.uid: pod_info for pod_info in context.cluster.every_pod()}
    nodes = context.nodes()
    cases = _cases(context, misses, standings, expires_s, entries)
    keys = {case.uid: entries[case.uid].seen.pod.key for case in cases}
    considered = solved = 0
    for case in _by_relief(context, settings, cases, entries):
        victim = context.cluster.find(keys[case.uid])  # looked up again: a trial takes pods out and puts them back
        if (
            victim is None
            or victim.seen.uid != case.uid
            or victim.node not in nodes
            or not settings.scope.covers(victim.seen.pod)
        ):
            continue
        considered += 1
        key, node = victim.seen.pod.key, victim.node
        if case.stays:
            context.kept.append(KeptPod(key, node, f"{case.why}; {case.stays}", MISSED))
            continue
        if f"{MISSED}/{case.about}" in done:
            context.kept.append(KeptPod(key, node, "a pod was moved for it less than an hour ago", MISSED))
            continue
        if left is not None and solved >= left:
            context.kept.append(KeptPod(key, node, "the allowance of moves is spent", MISSED))
            continue
        if solved >= settings.most:
            context.kept.append(KeptPod(key, node, f"{settings.most} victims are relieved in a round", MISSED))
            continue
        solved += _relieve_one(context, settings, victim, case)
    context.kinds.append(KindPlan(MISSED, considered, solved))


def _cases(
    context: KindContext, misses: Misses, standings: Standings, expires_s: float, entries: Mapping[str, PodInfo]
) -> list[_Case]:
    """The worst replicas of services whose budget burns, then the pods that report misses, where no objective says
    otherwise.
    """
    worst: dict[str, str] = {}  # UID of the pod by objective
    for status in standings.statuses():
        entry = _pod_of(context, status, entries)
        if entry is not None:
            worst[status.key] = entry.seen.uid
            owner = controller(entry)
            if owner is not None:
                standings.has_replica(status.key, owner.uid)
    found: dict[str, _Case] = {}
    for element in standings.burning(context.now_s):
        uid = worst.get(element.status.key)
        if uid is not None:
            window, rate = next(iter(element.status.burn.items()), ("", 0.0))
            aim = MoveAim(objective=element.status.key, window=window, burn_before=rate)
            why = (
                f"{element.words}; {entries[uid].seen.pod.key} is its worst replica with "
                f"{element.status.worst_burn:.1f}"
            )
            found.setdefault(uid, _Case(uid, f"objective {element.status.key}", why, aim=aim))
    for uid, missed, ratio in misses.victims(context.now_s, expires_s):
        entry = entries.get(uid)
        if entry is None or uid in found:
            continue
        pod, owner = entry.seen.pod, controller(entry)
        why = f"{pod.key} misses its objective: p99 is {ratio:.2f} of it, {missed:.1f} clear misses"
        standing = standings.of(pod.namespace, pod.labels, owner.uid if owner is not None else "", context.now_s)
        stays = ""
        if standing is not None and standing.evidence is MoveEvidence.HOLDS:
            stays = standing.words
        elif standing is not None and standing.evidence is MoveEvidence.BURNS and standing.status.key in worst:
            stays = f"{standing.words}, and {entries[worst[standing.status.key]].seen.pod.key} is its worst replica"
        elif standing is not None:
            known = standing.evidence is MoveEvidence.NO_DATA
            why = (
                f"{why} by its reports, since "
                f"{standing.words}{'' if known else ' and no replica is known as its worst'}"
            )
        found[uid] = _Case(uid, pod.key, why, stays)
    return list(found.values())


def _by_relief(
    context: KindContext, settings: MissedObjectives, cases: list[_Case], entries: Mapping[str, PodInfo]
) -> list[_Case]:
    """Those of budgets that burn, then those of pods that report misses; of each those with the largest predicted
    relief first, and where nothing is predicted as they are, at the end.
    """

    def order(case: _Case) -> tuple[bool, float]:
        victim, best = entries[case.uid], 0.0
        if victim.node:
            best = max(_reliefs(context, settings, (victim, *_pressing(context, settings, victim))))
        return case.aim is None, -best

    return sorted(cases, key=order)


def _reliefs(context: KindContext, settings: MissedObjectives, pods: Sequence[PodInfo]) -> list[float]:
    """What the move of each of these pods of one node can gain at most, by the share of the rest after it in which
    the pod would still press there.
    """
    found = reliefs(context.cluster, pods[0].node, pods)
    rest_s = settings.misses.rest_s
    return [much * _lasts(pod_info, context.now_s, rest_s) for much, pod_info in zip(found, pods, strict=True)]


def _lasts(entry: PodInfo, now_s: float, rest_s: float) -> float:
    """The share of the next `rest_s` in which the pod is expected to run: a service all of it; another pod as long
    as its estimate leaves it, else, also where it has run for longer than that, as long as it has run so far.
    """
    seen = entry.seen
    if seen.pod.is_service or rest_s <= 0:
        return 1.0
    ran_s = now_s - (seen.created_s if isnan(seen.started_s) else seen.started_s)
    estimate = seen.pod.estimate
    left_s = estimate.duration_s - ran_s if estimate is not None and isfinite(estimate.duration_s) else 0.0
    return min(1.0, max(0.0, left_s if left_s > 0 else ran_s) / rest_s)


def _pod_of(context: KindContext, status: ObjectiveStatus, entries: Mapping[str, PodInfo]) -> PodInfo | None:
    """The worst replica, which a status names by namespace/name, by name, or by UID."""
    if not status.worst:
        return None
    by_name = status.worst if "/" in status.worst else f"{status.key.partition('/')[0]}/{status.worst}"
    return entries.get(status.worst) or context.cluster.find(by_name)


def _relieve_one(context: KindContext, settings: MissedObjectives, victim: PodInfo, case: _Case) -> bool:
    node, key, why = victim.node, victim.seen.pod.key, case.why
    targets = [name for name, entry in context.nodes().items() if name != node and not entry.unschedulable]
    entries = (victim, *_pressing(context, settings, victim))
    relief = _reliefs(context, settings, entries)
    candidates = [context.load_pod(entry) for entry in entries]
    best = {pod.uid for pod, much in zip(candidates, relief, strict=True) if much >= _LEAST_OF_BEST * max(relief)}
    reasons = []
    for pod in sorted(sorted_pods(candidates, {}, {}), key=lambda load_pod: load_pod.uid not in best):
        refused = context.admit(pod, node)
        if refused:
            reasons.append(f"{pod.key}: {refused}")
            continue
        before = _of_victim(context, victim, node)
        with context.choice.trial() as trial:
            landing = context.choice.land(pod, node, targets)
            refused = (
                landing.reason
                if not landing.node
                else _no_gain(context, settings, victim, pod, node, landing.node, before)
            )
            trial.kept = not refused
        if refused:
            reasons.append(f"{pod.key}: {refused}")
            continue
        context.moved.add(pod.uid)
        cause = why if pod.uid == victim.seen.uid else f"{why}; moving {pod.key} costs less"
        context.moves.append(FoundMove(pod, node, landing.node, MISSED, cause, case.about, case.aim))
        return True
    context.kept.append(KeptPod(key, node, f"{why}; {'; '.join(reasons)}", MISSED))
    return False


def _pressing(context: KindContext, settings: MissedObjectives, victim: PodInfo) -> list[PodInfo]:
    """The neighbours that are predicted to press most."""
    others = [resident for resident in context.residents(victim.node) if resident.seen.uid != victim.seen.uid]
    others = [pod_info for pod_info in others if not pod_info.seen.terminating]
    if not others or _of_victim(context, victim, victim.node) is None:
        return []
    params = context.cluster.expected_of(others)
    pressure = params[:, Param.PRESSURE] * params[:, Param.USE_CPU]
    order = np.argsort(-pressure, kind="stable")[: settings.neighbours]
    return [others[row] for row in order.tolist() if pressure[row] > 0]


def _of_victim(context: KindContext, victim: PodInfo, node: str) -> float | None:
    """The victim's predicted use of its objective on this node with the pods that are there; None = not predicted."""
    pods = list(context.cluster.pods_on(node))
    at = next((row for row, pod in enumerate(pods) if pod.seen.pod.key == victim.seen.pod.key), -1)
    used = predicted_on(context.cluster, node, pods)
    return None if at < 0 or np.isnan(used[at]) else float(used[at])


def _no_gain(
    context: KindContext,
    settings: MissedObjectives,
    victim: PodInfo,
    pod: LoadPod,
    node: str,
    target: str,
    before: float | None,
) -> str:
    """Why the simulated move does not help enough; empty = it does."""
    is_victim = pod.uid == victim.seen.uid
    after = _of_victim(context, victim, target if is_victim else node)
    effect = context.choice.effects.get(pod.uid)
    if before is None or after is None or effect is None:
        return "" if is_victim else "its effect is not predicted"
    gain = before - after
    if gain < settings.misses.min_gain:
        return f"on {target} the victim is predicted to use {after:.2f} of what it tolerates instead of {before:.2f}"
    harm = growth_of(effect)
    return f"on {target} {harm}" if harm else ""
