"""What a shape requests and is expected to use, as array rows.

Filters and scores read a pod's requests, estimate and class as numbers. One row of requests and one of parameters per
shape; a pod without an estimate is taken to use what it requests, lent resources included: they are of the same CPUs
and memory.
Limits: what a pod adds to its node's sums is computed separately, for many shapes at once.
"""

from __future__ import annotations

from cotenant.model.arrays import CPU, MEMORY, PODS, Param, ShapeArrays
from cotenant.model.cluster.pod import PodEstimate, Shape
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.resources import LENT_CPU, LENT_MEMORY, ResourceAxis

# The founding score's base by priority: its document gives the maximum of 35; the other bands fall evenly.
PRIORITY_BASE = {
    PriorityClass.PROD: 35.0,
    PriorityClass.MID: 25.0,
    PriorityClass.BATCH: 15.0,
    PriorityClass.FREE: 5.0,
    PriorityClass.NONE: 0.0,
}


def write_shape_params(arrays: ShapeArrays, axis: ResourceAxis, row: int, shape: Shape) -> None:
    """Write a shape's requests and parameters into its row."""
    request = axis.row(shape.requests)
    request[PODS] = 1
    arrays.request[row] = request
    lent_cpu_m = sum(map(shape.requests.get, LENT_CPU))
    lent_bytes = sum(map(shape.requests.get, LENT_MEMORY))
    estimate = shape.estimate or PodEstimate((request[CPU] + lent_cpu_m) / 1000.0, request[MEMORY] + lent_bytes)
    arrays.params[row, Param.USE_CPU] = estimate.use_cpu_cores
    arrays.params[row, Param.USE_MEMORY] = estimate.use_memory_bytes
    arrays.params[row, Param.SENSITIVITY] = estimate.sensitivity
    arrays.params[row, Param.PRESSURE] = estimate.pressure
    arrays.params[row, Param.ALLOWANCE] = estimate.allowance
    arrays.params[row, Param.IS_SERVICE] = float(shape.is_service)
    arrays.params[row, Param.PRIORITY_BASE] = PRIORITY_BASE[shape.priority_class]
    arrays.params[row, Param.LOAD_LIMIT] = shape.load_limit
    arrays.params[row, Param.DURATION] = estimate.duration_s
    arrays.params[row, Param.LENT_CPU] = lent_cpu_m / 1000.0
    arrays.params[row, Param.LENT_MEMORY] = lent_bytes
    arrays.params[row, Param.VIOLATION_SURCHARGE] = shape.violation_surcharge
