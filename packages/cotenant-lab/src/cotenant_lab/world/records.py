"""Field layouts of the world's state, as NumPy records.

A record array keeps the fields of a pod adjacent in memory, is one argument to compiled code, and reads as
`pods[p].status` there and as the column `pods.status` elsewhere. Units are in the names; memory is in bytes.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from cotenant.model.arrays import Mask

Records: TypeAlias = np.recarray[Any, np.dtype[np.void]]


def records(n: int, dtype: np.dtype[np.void]) -> Records:
    """n records, all zero."""
    return np.zeros(n, dtype).view(np.recarray)


def where(table: Records, rows: Mask) -> Records:
    """The records marked by `rows`."""
    return table[rows].view(np.recarray)


POD = np.dtype(
    [
        # properties
        ("cpu_milli", "i8"),
        ("memory_bytes", "i8"),
        ("tenant", "i8"),
        ("service", "i8"),  # -1 for batch
        ("stage", "i8"),  # -1 for a replica
        ("use_cores", "f8"),
        ("use_memory", "f8"),
        ("sensitivity", "f8"),  # times the interference scale
        ("pressure", "f8"),
        ("duration_s", "f8"),
        ("imbalance", "f8"),  # of a replica's load
        ("swing_phase", "f8"),  # of a batch pod's CPU use
        # state
        ("status", "i8"),
        ("node", "i8"),  # -1 = none
        ("next", "i8"),  # neighbours in its node's list, -1 = end
        ("previous", "i8"),
        ("remaining_s", "f8"),  # of work alone
        ("speed", "f8"),
        ("slowdown", "f8"),
        ("busy_cores", "f8"),  # in use, after throttling
        ("restarts", "i8"),
        ("ready_s", "f8"),  # NaN until then, as are the next four
        ("started_s", "f8"),  # first time
        ("placed_s", "f8"),  # last time
        ("finished_s", "f8"),
        ("evicted_s", "f8"),  # last time
        ("evicted_cause", "i8"),
        ("evicted_memory", "f8"),  # in use when last evicted
        ("hold_until_s", "f8"),
        # as measured by an agent at the last tick
        ("seen_cores", "f8"),
        ("seen_memory", "f8"),
        ("seen_ratio", "f8"),  # a replica's sample p99 / objective
        ("seen_requests", "i8"),  # of that window; 0 = none, or it is still starting
        ("seen_violated", "?"),  # sample p99 over the objective
        ("map_node", "i8"),  # at the instant of the machine map
    ],
    align=True,
)

SERVICE = np.dtype(
    [
        ("cores", "i8"),
        ("time_s", "f8"),
        ("objective", "f8"),  # in service times
        ("table_row", "i8"),  # of the p99 table
        ("replicas", "i8"),
        ("live", "i8"),  # placed replicas
    ],
    align=True,
)

STAGE = np.dtype([("job", "i8"), ("pods", "i8"), ("first_pod", "i8"), ("left", "i8")], align=True)

JOB = np.dtype([("arrival_s", "f8"), ("first_stage", "i8"), ("stages", "i8"), ("finished_s", "f8")], align=True)

NODE = np.dtype(
    [
        ("first", "i8"),  # resident, -1 = none
        ("requested_milli", "i8"),
        ("requested_bytes", "i8"),
        ("updated_s", "f8"),  # time of the residents' remaining work
        ("used_share", "f8"),  # of CPU
        ("memory_share", "f8"),
        ("missed", "i8"),  # replicas that missed their objective, or were starting, in the last window
        ("up", "?"),
        # its measurements
        ("seen_s", "f8"),  # time of the last ones, -inf = never
        ("delivered", "?"),  # whether they arrived at the last tick
        ("late", "?"),  # whether they arrive at the next one
        # state of the guard, where nodes have one
        ("guard_mode", "i8"),
        ("ceiling_m", "i8"),  # milli-CPU that batch may use at most
        ("last_close_us", "i8"),  # when a replica was last close to its objective, -1 = never
        ("missed_us", "i8"),  # since when one has been missed, -1 = none is
        ("cool_until_us", "i8"),
    ],
    align=True,
)

TENANT = np.dtype(
    [
        ("held_milli", "i8"),
        ("held_bytes", "i8"),
        ("queued_milli", "i8"),
        ("queued_bytes", "i8"),
        ("share_sum", "f8"),  # of dominant shares over ticks
        ("wanted_sum", "f8"),
        ("on_node", "f8"),  # scratch, zero between uses
    ],
    align=True,
)

SHAPE = np.dtype([("cpu_milli", "i8"), ("memory_bytes", "i8")], align=True)

OUTAGE = np.dtype([("at_s", "f8"), ("row", "i8"), ("up", "?")], align=True)

TICK = np.dtype(
    [
        ("time_s", "f8"),
        ("requested_cpu", "f8"),  # fractions of the cluster
        ("used_cpu", "f8"),
        ("requested_memory", "f8"),
        ("used_memory", "f8"),
        ("service_cores", "f8"),  # demanded in this window
        ("violated_cores", "f8"),  # of placed replicas that missed their objective
        ("unplaced_cores", "f8"),
        ("replicas", "f8"),
        ("violated_replicas", "f8"),  # placed and missed, or unplaced
        ("violated_nodes", "f8"),  # with such a replica
        ("fragmentation", "f8"),  # fraction of the cluster's CPU, NaN where not taken at this tick
        ("queued_pods", "f8"),
        ("running_pods", "f8"),
    ],
    align=True,
)

RUN = np.dtype(
    [
        ("seed", "i8"),
        ("now_s", "f8"),
        ("next_tick_s", "f8"),
        ("last_tick_s", "f8"),
        # events not yet reported to the scheduler
        ("ready", "i8"),
        ("finished", "i8"),
        ("evicted", "i8"),
        # positions in the lists of future events
        ("jobs_arrived", "i8"),
        ("outages_begun", "i8"),
        ("ticks", "i8"),
        ("batch_left", "i8"),  # pods not finished
        ("tenant_ticks", "i8"),  # in the tenants' sums
        ("map_taken", "?"),
        # seconds of batch work alone: done = completed + lost + in progress
        ("work_done_s", "f8"),
        ("work_completed_s", "f8"),
        ("work_lost_s", "f8"),
    ],
    align=True,
)
