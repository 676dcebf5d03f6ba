"""The contribution of one pod to its node's sums, from its estimate.

A score that evaluates the effect of an incoming pod on every resident costs a loop over residents. The damage is linear
in the pressure, so residents enter only through a few sums (`model.arrays.Sum`); each pod adds a row of integers when
it is placed and the same row is subtracted when it leaves, so the sums never drift.
Limits: quantities that change while a pod runs (its slack) are fixed at placement or at the next update of its shape.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import CPU, MICRO, Float, Int, Param, Sum
from cotenant.model.compiled import njit

SMALLEST_ALLOWANCE = 0.1  # bounds the weight of intolerant pods to ten times that of a pod that tolerates a doubling
_SUMS = len(Sum)
_USE_CPU, _USE_MEMORY, _IS_SERVICE = int(Param.USE_CPU), int(Param.USE_MEMORY), int(Param.IS_SERVICE)
_LENT_CPU = int(Param.LENT_CPU)
_SENSITIVITY, _PRESSURE, _ALLOWANCE = int(Param.SENSITIVITY), int(Param.PRESSURE), int(Param.ALLOWANCE)
_S_USE_CPU, _S_USE_MEMORY, _S_PRESSURE = int(Sum.USE_CPU), int(Sum.USE_MEMORY), int(Sum.PRESSURE)
_S_SERVICE_CPU, _S_SERVICE_A, _S_SERVICE_AO = int(Sum.SERVICE_CPU), int(Sum.SERVICE_A), int(Sum.SERVICE_AO)
_S_SERVICE_W, _S_SERVICE_WA, _S_SERVICE_WAO = int(Sum.SERVICE_W), int(Sum.SERVICE_WA), int(Sum.SERVICE_WAO)
_S_BATCH_CPU, _S_BATCH_A = int(Sum.BATCH_CPU), int(Sum.BATCH_A)
_S_BATCH_W, _S_BATCH_WA = int(Sum.BATCH_W), int(Sum.BATCH_WA)


@njit
def contribution(request: Int, params: Float, half_node_cores: float, pressure_factor: float) -> Int:
    """Compiled form of `plain_contribution`: engines compute it for a few shapes at a time, many times a second."""
    sums = np.zeros((request.shape[0], _SUMS), dtype=np.int64)
    for k in range(request.shape[0]):
        cores = request[k, CPU] / 1000.0 + params[k, _LENT_CPU]
        use = params[k, _USE_CPU]
        sensitivity, pressure = params[k, _SENSITIVITY], params[k, _PRESSURE]
        weight = 1.0 / max(SMALLEST_ALLOWANCE, params[k, _ALLOWANCE])
        own = pressure * use / half_node_cores
        service = params[k, _IS_SERVICE] > 0
        sums[k, _S_USE_CPU] = int(np.rint(use * 1000.0))
        sums[k, _S_USE_MEMORY] = int(np.rint(params[k, _USE_MEMORY]))
        sums[k, _S_PRESSURE] = int(np.rint((1.0 if service else pressure_factor) * pressure * use * MICRO))
        if service:
            sums[k, _S_SERVICE_CPU] = request[k, CPU] + int(np.rint(params[k, _LENT_CPU] * 1000.0))
            sums[k, _S_SERVICE_A] = int(np.rint(cores * sensitivity * MICRO))
            sums[k, _S_SERVICE_AO] = int(np.rint(cores * sensitivity * own * MICRO))
            sums[k, _S_SERVICE_W] = int(np.rint(cores * weight * MICRO))
            sums[k, _S_SERVICE_WA] = int(np.rint(cores * weight * sensitivity * MICRO))
            sums[k, _S_SERVICE_WAO] = int(np.rint(cores * weight * sensitivity * own * MICRO))
        else:
            sums[k, _S_BATCH_CPU] = request[k, CPU] + int(np.rint(params[k, _LENT_CPU] * 1000.0))
            sums[k, _S_BATCH_A] = int(np.rint(cores * sensitivity * MICRO))
            sums[k, _S_BATCH_W] = int(np.rint(cores * weight * MICRO))
            sums[k, _S_BATCH_WA] = int(np.rint(cores * weight * sensitivity * MICRO))
    return sums


def plain_contribution(request: Int, params: Float, half_node_cores: float, pressure_factor: float) -> Int:
    """`sums[K, len(Sum)]` for shapes with `request[K, R]` and `params[K, len(Param)]`.

    `half_node_cores` is the unit of own pressure (K of the pressure law); `pressure_factor` is the share of batch
    pressure that remains with a node's cache partition (1 = no partition).
    """
    cores = request[:, CPU] / 1000.0 + params[:, Param.LENT_CPU]
    cpu_m = request[:, CPU] + np.rint(params[:, Param.LENT_CPU] * 1000.0).astype(np.int64)
    use = params[:, Param.USE_CPU]
    service = params[:, Param.IS_SERVICE] > 0
    sensitivity, pressure = params[:, Param.SENSITIVITY], params[:, Param.PRESSURE]
    weight = 1.0 / np.maximum(SMALLEST_ALLOWANCE, params[:, Param.ALLOWANCE])
    own = pressure * use / half_node_cores
    sums = np.zeros((request.shape[0], len(Sum)), dtype=np.int64)

    def micro(values: Float, where: np.ndarray) -> Int:
        return np.rint(np.where(where, values, 0.0) * MICRO).astype(np.int64)

    all_shapes = np.ones_like(service)
    sums[:, Sum.USE_CPU] = np.rint(use * 1000.0).astype(np.int64)
    sums[:, Sum.USE_MEMORY] = np.rint(params[:, Param.USE_MEMORY]).astype(np.int64)
    sums[:, Sum.PRESSURE] = micro(np.where(service, 1.0, pressure_factor) * pressure * use, all_shapes)
    sums[:, Sum.SERVICE_CPU] = np.where(service, cpu_m, 0)
    sums[:, Sum.SERVICE_A] = micro(cores * sensitivity, service)
    sums[:, Sum.SERVICE_AO] = micro(cores * sensitivity * own, service)
    sums[:, Sum.SERVICE_W] = micro(cores * weight, service)
    sums[:, Sum.SERVICE_WA] = micro(cores * weight * sensitivity, service)
    sums[:, Sum.SERVICE_WAO] = micro(cores * weight * sensitivity * own, service)
    sums[:, Sum.BATCH_CPU] = np.where(service, 0, cpu_m)
    sums[:, Sum.BATCH_A] = micro(cores * sensitivity, ~service)
    sums[:, Sum.BATCH_W] = micro(cores * weight, ~service)
    sums[:, Sum.BATCH_WA] = micro(cores * weight * sensitivity, ~service)
    return sums
