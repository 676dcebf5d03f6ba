"""The founding judgement over the mirror's rows: filter by what is unused, score to the letter.

Problem: a call must not compute six terms for five hundred nodes when a handful of reports came in since the last one. Choice: the founding
score depends on the pod only through its base by priority, so a table keeps every row's score for every base, once as a fresh report makes
it and once without; rows that changed are computed anew together, by the very function of policy/placement/scores/founding.py. A call is two
gathers and a comparison of ages.
Filter: a fresh report rules a node out where a request exceeds allocatable minus used; without one, Kubernetes' allocatable minus the
residents' requests decides; where neither is known, the node passes. A pod that asks none of a resource is not ruled out for it.
Limits: without residents a node without report counts as half full in the score, so that silence neither attracts nor repels pods.
Source: founding document, "scheduler-extender".
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, Float, Int, Mask, Param, Report, ShapeArrays, Sum
from cotenant.model.report import REPORT_TTL_S
from cotenant.policy.placement.scores.founding import founding
from cotenant.services.extender.judge import BASES, Ask, Room, cores, holding, size
from cotenant.services.extender.mirror import Mirror

_AT = int(Report.REPORTED_AT)
UNUSED, NOT_REQUESTED, ALLOCATABLE = "unused", "not requested", "allocatable"


class FoundingJudge:
    """`from_ledger` takes free capacity and dominant share from requests instead of reports (profile founding-ledger)."""

    def __init__(self, mirror: Mirror, from_ledger: bool = False) -> None:
        self._mirror = mirror
        self._from_ledger = from_ledger
        self._shapes = _bases()
        self._by_report: Int = np.zeros((len(BASES), 0), dtype=np.int64)
        self._without: Int = np.zeros((len(BASES), 0), dtype=np.int64)
        self._left: Float = np.zeros((0, 2))  # what Kubernetes' figures leave; inf = not told
        self._whole: Float = np.zeros((0, 2))  # Kubernetes' allocatable; inf = not told
        self._texts: dict[tuple[int, bool], tuple[str, str]] = {}  # rooms in words, of rows that were refused

    def passing(self, ask: Ask, rows: Int, now_s: float) -> Mask:
        """See the protocol `Judge`."""
        self._look()
        free = self._choose(rows, now_s, self._mirror.offered, self._left)
        passes: Mask = np.ones(len(rows), dtype=np.bool_)
        if ask.cpu_milli > 0:
            passes &= free[:, CPU] >= ask.cpu_milli
        if ask.memory_bytes > 0:
            passes &= free[:, MEMORY] >= ask.memory_bytes
        return passes

    def hopeless(self, ask: Ask, rows: Int, now_s: float) -> Mask:
        """See the protocol `Judge`."""
        whole = self._choose(rows, now_s, self._mirror.whole, self._whole)
        return (whole[:, CPU] < ask.cpu_milli) | (whole[:, MEMORY] < ask.memory_bytes)

    def reasons(self, ask: Ask, rows: Int, now_s: float) -> list[str]:
        """See the protocol `Judge`."""
        free = self._choose(rows, now_s, self._mirror.offered, self._left)
        short_cpu = ((ask.cpu_milli > 0) & (free[:, CPU] < ask.cpu_milli)).tolist()
        short_memory = ((ask.memory_bytes > 0) & (free[:, MEMORY] < ask.memory_bytes)).tolist()
        ages_s = (now_s - self._mirror.nodes.report[rows, _AT]).tolist()
        cpu = f"cpu: pod asks {cores(ask.cpu_milli)}, node has "
        memory = f"memory: pod asks {size(ask.memory_bytes)}, node has "
        texts, said = self._texts, []
        for row, age_s, less_cpu, less_memory in zip(rows.tolist(), ages_s, short_cpu, short_memory, strict=True):
            fresh = age_s <= REPORT_TTL_S  # false where never reported (NaN)
            has = texts.get((row, fresh)) or self._text(row, fresh)
            since = f" (report {max(0, int(age_s))} s old)" if fresh else " (no fresh report)"
            if less_cpu and less_memory:
                said.append(cpu + has[CPU] + "; " + memory + has[MEMORY] + since)
            else:
                said.append((cpu + has[CPU] if less_cpu else memory + has[MEMORY]) + since)
        return said

    def room(self, row: int, now_s: float) -> Room:
        """See the protocol `Judge`."""
        rows = np.array([row])
        self._look()
        free = self._choose(rows, now_s, self._mirror.offered, self._left)[0].tolist()
        whole = self._choose(rows, now_s, self._mirror.whole, self._whole)[0].tolist()
        return Room(free[CPU], free[MEMORY], whole[CPU], whole[MEMORY])

    def scores(self, ask: Ask, rows: Int, now_s: float) -> Int:
        """See the protocol `Judge`."""
        self._look()
        fresh = now_s - self._mirror.nodes.report[rows, _AT] <= REPORT_TTL_S
        return np.where(fresh, self._by_report[ask.band][rows], self._without[ask.band][rows])

    def _choose(self, rows: Int, now_s: float, reported: Float, otherwise: Float) -> Float:
        """Each row's figures by its fresh report, else by what Kubernetes told."""
        fresh = now_s - self._mirror.nodes.report[rows, _AT] <= REPORT_TTL_S
        return np.where(fresh[:, None], reported[rows], otherwise[rows])

    def _text(self, row: int, fresh: bool) -> tuple[str, str]:
        """What a row has, in words: CPU and memory."""
        mirror = self._mirror
        free = (mirror.offered if fresh else self._left)[row].tolist()
        whole = (mirror.whole if fresh else self._whole)[row].tolist()
        words = UNUSED if fresh else NOT_REQUESTED if mirror.counted[row] else ALLOCATABLE
        said = (
            f"{holding(cores, free[CPU], whole[CPU])} cores {words}",
            f"{holding(size, free[MEMORY], whole[MEMORY])} {words}",
        )
        self._texts[row, fresh] = said
        return said

    def _look(self) -> None:
        """Compute the changed rows anew."""
        mirror = self._mirror
        mirror.settle()
        if not mirror.changed:
            return
        rows = np.fromiter(mirror.changed, dtype=np.int64, count=len(mirror.changed))
        for row in mirror.changed if self._texts else ():
            self._texts.pop((row, True), None)
            self._texts.pop((row, False), None)
        mirror.changed.clear()
        length = len(mirror.listed)
        if length > len(self._left):
            self._by_report = _wider(self._by_report, length)
            self._without = _wider(self._without, length)
            more = np.full((length - len(self._left), 2), np.inf)
            self._left, self._whole = np.concatenate([self._left, more]), np.concatenate([self._whole, more])
        nodes = mirror.nodes
        counted, listed = mirror.counted[rows, None], mirror.listed[rows, None]
        capacity = nodes.capacity[rows]
        requested = np.where(counted, nodes.requested[rows], capacity // 2)
        used = np.where(counted, nodes.requested[rows], 0)
        self._left[rows] = np.where(listed, capacity - used, np.inf)[:, : MEMORY + 1]
        self._whole[rows] = np.where(listed, capacity, np.inf)[:, : MEMORY + 1]
        report = nodes.report[rows].copy()
        silent = np.isnan(report[:, _AT])
        report[silent] = 0.0
        report[:, _AT] = 0.0
        for table, at_s in ((self._by_report, 0.0), (self._without, 2.0 * REPORT_TTL_S)):
            arrays = nodes._replace(capacity=capacity, requested=requested, report=report)
            every = np.arange(len(rows))
            for band in range(len(BASES)):
                table[band, rows] = founding(arrays, self._shapes, band, every, at_s, self._from_ledger)


def _bases() -> ShapeArrays:
    """A shape for each base by priority; the founding score reads nothing else of a shape."""
    count = len(BASES)
    params = np.zeros((count, len(Param)))
    params[:, Param.PRIORITY_BASE] = BASES
    return ShapeArrays(
        request=np.zeros((count, 3), dtype=np.int64),
        sums=np.zeros((count, len(Sum)), dtype=np.int64),
        params=params,
        tolerated=np.zeros(count, dtype=np.uint64),
        selector=np.zeros((count, 1), dtype=np.uint64),
        tenant=np.zeros(count, dtype=np.int64),
        group=np.full(count, -1, dtype=np.int64),
        group_limit=np.zeros(count, dtype=np.int64),
    )


def _wider(table: Int, rows: int) -> Int:
    grown = np.zeros((table.shape[0], rows), dtype=np.int64)
    grown[:, : table.shape[1]] = table
    return grown
