"""The cluster and its pods as arrays.

A placement must look at thousands of nodes in microseconds, and its sums must not drift. One row per node and one row
per *shape* (pods of one shape are interchangeable), integer columns that change by whole integers only, in NamedTuples
that NumPy code and compiled kernels both read.
Limits: int64 columns (9.2e18 bytes at most); kernels convert to float64, which is exact below 2^53.

Units: CPU in milli-CPU, memory in bytes, dimensionless factors in micro (1e6 = 1.0), core-weighted sums in micro-cores.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Mask = NDArray[np.bool_]
Word = NDArray[np.uint64]

MICRO = 1_000_000

# The first three columns of every resource axis; further resources follow in the order of the axis' names.
CPU, MEMORY, PODS = 0, 1, 2


class Sum(IntEnum):
    """Columns of `NodeArrays.sums`: estimated totals over the pods of a node. Each is an integer sum over pods.

    c = requested cores, native and lent, u = estimated cores in use, a = sensitivity, b = pressure, w = 1 / tolerated
    excess slowdown (service: tolerated slowdown - 1; batch: slack ratio - 1), o = own pressure b u as a share of half a
    node.
    """

    USE_CPU = 0  # milli-CPU estimated in use
    USE_MEMORY = 1  # bytes estimated in use
    PRESSURE = 2  # micro-cores: b u
    SERVICE_CPU = 3  # milli-CPU requested by services
    SERVICE_A = 4  # micro-cores: c a
    SERVICE_AO = 5  # micro-cores: c a o
    SERVICE_W = 6  # micro-cores: c w
    SERVICE_WA = 7  # micro-cores: c w a
    SERVICE_WAO = 8  # micro-cores: c w a o
    BATCH_CPU = 9  # milli-CPU requested by batch
    BATCH_A = 10  # micro-cores: c a
    BATCH_W = 11  # micro-cores: c w
    BATCH_WA = 12  # micro-cores: c w a


class ReportColumn(IntEnum):
    """Columns of `NodeArrays.report`: the node's last report (fields of the founding document), NaN where it never
    reported.
    """

    CPU_USED = 0  # fraction of allocatable
    MEMORY_USED = 1  # fraction of allocatable
    LATENCY_P99_MS = 2  # worst service on the node, milliseconds
    VIOLATION = 3  # fraction of the node's services violating
    DOMINANT_SHARE = 4  # max(cpu used, memory used)
    FAIRNESS = 5  # Jain's index over the tenants on the node
    REPORTED_AT = 6  # seconds


class Param(IntEnum):
    """Columns of `ShapeArrays.params`: expected behaviour of a shape's pods, by estimate."""

    USE_CPU = 0  # cores
    USE_MEMORY = 1  # bytes
    SENSITIVITY = 2  # a
    PRESSURE = 3  # b
    ALLOWANCE = 4  # tolerated excess slowdown (1 / w)
    IS_SERVICE = 5  # 1 or 0
    PRIORITY_BASE = 6  # the founding score's base by priority, 0..35
    LOAD_LIMIT = 7  # largest estimated CPU fraction of a node this shape may lead to; inf = no limit
    DURATION = 8  # seconds, estimated, alone
    LENT_CPU = 9  # cores requested as batch-cpu or mid-cpu, beside the native request
    LENT_MEMORY = 10  # bytes requested as batch-memory or mid-memory
    VIOLATION_SURCHARGE = 11  # by which the founding score's violation term is larger: 0.5 = half again


class NodeArrays(NamedTuple):
    """One row per node. N nodes, R resources, S = len(Sum), M = len(Report), L label words, G groups."""

    capacity: Int  # [N, R] allocatable
    requested: Int  # [N, R] sum of the residents' requests
    sums: Int  # [N, S]
    report: Float  # [N, M]
    taints: Word  # [N] one bit a distinct taint that repels
    labels: Word  # [N, L] one bit a distinct requirement that the node satisfies
    ready: Mask  # [N] up and schedulable
    group_count: Int  # [N, G] residents of each anti-affinity group


class ShapeArrays(NamedTuple):
    """One row per shape. K shapes; the other axes as in `NodeArrays`, P = len(Param)."""

    request: Int  # [K, R]
    sums: Int  # [K, S] what one pod adds to a node's sums
    params: Float  # [K, P]
    tolerated: Word  # [K] taints that do not repel it
    selector: Word  # [K, L] requirements a node must satisfy, all of them
    tenant: Int  # [K]
    group: Int  # [K] anti-affinity group, -1 = none
    group_limit: Int  # [K] most residents of the group on one node


class PendingArrays(NamedTuple):
    """Pods waiting for a node, aligned columns of length m, in order of arrival in the queue."""

    pod: Int  # identity, unique among all pods of the cluster
    shape: Int  # row of ShapeArrays
    tenant: Int
    job: Int  # -1 for a service's replica
    stage: Int  # pods of one stage are interchangeable; unique over jobs; a service's number for replicas
    is_service: Mask
    ready_s: Float  # when it became ready to run
    deadline_s: Float  # of its job; inf = none
    path_s: Float  # estimated seconds alone from this pod's start to its job's end
    work: Float  # estimated remaining work of its job: seconds x normalised demand

    def at(self, index: NDArray[Any]) -> PendingArrays:
        """The rows at `index` (integers or a mask), all columns."""
        return PendingArrays._make(column[index] for column in self)

    def then(self, others: PendingArrays) -> PendingArrays:
        """These rows followed by others."""
        return PendingArrays._make(np.concatenate(pair) for pair in zip(self, others, strict=True))


class TenantArrays(NamedTuple):
    """One row per tenant: its current allocation. Dominant share = max over resources of allocated / cluster
    capacity.
    """

    allocated: Int  # [T, R]
    weight: Float  # [T]


class ResidentArrays(NamedTuple):
    """Node of every pod: one row per pod ever seen, P of them; the pod's identity is its index."""

    row: Int  # [P] node, -1 = none
    shape: Int  # [P] row of ShapeArrays; meaningless without a node
