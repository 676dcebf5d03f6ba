"""The predicted effect of a move on objectives, from what the engine knows of the pods of both nodes.

The parameters are those of the placement scores: learned per application where the profile learns (`cotenant-learned`),
else declared estimates. Computed after the move was simulated, when the pod counts on the target.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rebalancer.plan import PredictedEffect
from cotenant.model.arrays import Float, Param
from cotenant.model.resources import CPU_NAME
from cotenant.policy.interference.predicted import objective_use, shortfall, violation

PRIOR = "prior"  # basis of an effect: nothing is known of the moved pod but what is assumed of every application


def predicted_on(cluster: Cluster, node: str, pods: Sequence[PodInfo]) -> Float:
    """`float64[P]`: how much of what it tolerates each of these pods would use if they were the pods of the node;
    NaN = not predicted.
    """
    found = cluster.node(node)
    if found is None or not pods:
        return np.full(len(pods), np.nan)
    params, knobs = cluster.expected_of(pods), cluster.profile.knobs
    service = params[:, Param.IS_SERVICE] > 0
    pressure = params[:, Param.PRESSURE] * np.where(service, 1.0, knobs.pressure_factor)
    allowance = np.where(service, params[:, Param.ALLOWANCE], np.inf)
    return objective_use(
        found.allocatable.get(CPU_NAME) / 1000.0,
        params[:, Param.USE_CPU],
        params[:, Param.SENSITIVITY],
        pressure,
        allowance,
        knobs.smt_loss,
    )


def reliefs(cluster: Cluster, node: str, candidates: Sequence[PodInfo]) -> list[float]:
    """By how much the predicted shortfall of the node's pods falls if each of these pods of it left, its own with
    it; in requested cores. A bound of what its move can gain.
    """
    pods = list(cluster.pods_on(node))
    cores = np.array([pod.seen.pod.requests.get(CPU_NAME) / 1000.0 for pod in pods])
    now = shortfall(predicted_on(cluster, node, pods), cores)
    found = []
    for candidate in candidates:
        stay = [row for row, pod in enumerate(pods) if pod is not candidate]
        found.append(now - shortfall(predicted_on(cluster, node, [pods[row] for row in stay]), cores[stay]))
    return found


def effect_of(cluster: Cluster, moved: PodInfo, node: str, target: str) -> PredictedEffect | None:
    """The effect of a move from `node` to `target`, where the pod counts now; None where nothing of the pods of
    both nodes is predicted.
    """
    stay = [entry for entry in cluster.pods_on(node) if entry is not moved]
    there = [entry for entry in cluster.pods_on(target) if entry is not moved]
    source_before, source_after = predicted_on(cluster, node, [*stay, moved]), predicted_on(cluster, node, stay)
    target_before, target_after = predicted_on(cluster, target, there), predicted_on(cluster, target, [*there, moved])
    if all(np.isnan(row).all() for row in (source_before, target_after)):
        return None
    worst = int(np.nanargmax(target_after[:-1])) if _highest(target_after[:-1]) is not None else -1
    return PredictedEffect(
        _rounded(source_before[-1]),
        _rounded(target_after[-1]),
        _highest(source_before[:-1]),
        _highest(source_after),
        _highest(target_before),
        _highest(target_after[:-1]),
        there[worst].seen.pod.key if worst >= 0 else "",
        round(violation(source_before) + violation(target_before), 3),
        round(violation(source_after) + violation(target_after), 3),
        _basis(cluster, moved),
    )


def growth_of(effect: PredictedEffect | None) -> str:
    """Why a move does more harm than good; empty = it does not, or nothing is predicted."""
    if effect is None or effect.violation_after <= effect.violation_before:
        return ""
    return f"predicted violations would grow from {effect.violation_before:.2f} to {effect.violation_after:.2f}"


def _basis(cluster: Cluster, moved: PodInfo) -> str:
    profile = cluster.workload_profile(moved.seen.pod)
    if profile is not None and profile.is_learned:
        return "learned"
    return "declared" if moved.seen.pod.estimate is not None else PRIOR


def _highest(used: Float) -> float | None:
    return None if not len(used) or np.isnan(used).all() else _rounded(float(np.nanmax(used)))


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 3)
