"""The founding filter and score over the mirror's rows: filter by what is unused, score to the letter.

A call must not compute six terms for five hundred nodes when a handful of reports arrived since the last one. The
founding score depends on the pod only through its base by priority and, where credit is considered, its tenant's level
of debt, so a table keeps every row's score for every pair of them, once with a fresh report and once without; rows that
changed are recomputed together, by the very function of policy/placement/scores/founding.py. A call is two gathers and
a comparison of ages. Filter: a fresh report rules a node out where a request exceeds allocatable minus used; without
one, Kubernetes' allocatable minus the residents' requests decides; where neither is known, the node passes. A pod that
requests none of a resource is not ruled out for it. Reasons: kube-scheduler counts equal texts together and writes all
others one after another into the pod's condition, so beyond a few nodes the text has the range of what they have, one
text for all nodes that lack the same.
Limits: without residents a node without a report counts as half full in the score, so that silence neither attracts nor
repels pods.
Source: founding document, "scheduler-extender".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cotenant.engine.plugins.quotas.credit import surcharge_of
from cotenant.model.arrays import CPU, MEMORY, Float, Int, Mask, Param, ReportColumn, ShapeArrays, Sum
from cotenant.model.cluster.report import REPORT_TTL_S
from cotenant.policy.placement.scores.founding import founding
from cotenant.services.extender.judge import BASES, NodeRoom, PodDemand, cores, size
from cotenant.services.extender.mirror import Mirror

_AT = int(ReportColumn.REPORTED_AT)
FEW = 8  # rejected nodes that each get a text with their own figures


class FoundingJudge:
    """`from_ledger` takes free capacity and dominant share from requests instead of reports (profile
    founding-ledger). `levels` of debt beside none; 0 without credit.
    """

    def __init__(self, mirror: Mirror, from_ledger: bool = False, levels: int = 0) -> None:
        self._mirror = mirror
        self._from_ledger = from_ledger
        self._levels = levels
        self._shapes = _bases(levels)
        self._by_report: Int = np.zeros((len(BASES) * (levels + 1), 0), dtype=np.int64)
        self._without: Int = np.zeros((len(BASES) * (levels + 1), 0), dtype=np.int64)
        self._left: Float = np.zeros((0, 2))  # allocatable minus requests by Kubernetes' figures; inf = unknown
        self._whole: Float = np.zeros((0, 2))  # Kubernetes' allocatable; inf = unknown

    def passing(self, ask: PodDemand, rows: Int, now_s: float) -> Mask:
        """See the protocol `Judge`."""
        self._update()
        free = self._choose(rows, now_s, self._mirror.offered, self._left)
        passes: Mask = np.ones(len(rows), dtype=np.bool_)
        if ask.cpu_milli > 0:
            passes &= free[:, CPU] >= ask.cpu_milli
        if ask.memory_bytes > 0:
            passes &= free[:, MEMORY] >= ask.memory_bytes
        return passes

    def unresolvable(self, ask: PodDemand, rows: Int, now_s: float) -> Mask:
        """See the protocol `Judge`."""
        whole = self._choose(rows, now_s, self._mirror.whole, self._whole)
        return (whole[:, CPU] < ask.cpu_milli) | (whole[:, MEMORY] < ask.memory_bytes)

    def reasons(self, ask: PodDemand, rows: Int, now_s: float) -> list[str]:
        """See the protocol `Judge`."""
        free = self._choose(rows, now_s, self._mirror.offered, self._left)
        short_cpu = (ask.cpu_milli > 0) & (free[:, CPU] < ask.cpu_milli)
        short_memory = (ask.memory_bytes > 0) & (free[:, MEMORY] < ask.memory_bytes)
        if len(rows) > FEW:
            return self._ranges(ask, rows, now_s, free, short_cpu, short_memory)
        ages_s = (now_s - self._mirror.at_s.take(rows)).tolist()
        whole = self._choose(rows, now_s, self._mirror.whole, self._whole)
        counted = self._mirror.counted[rows].tolist()
        said = []
        for i, age_s in enumerate(ages_s):
            fresh = age_s <= REPORT_TTL_S  # false where never reported (NaN)
            words = _words(fresh, counted[i])
            short = []
            if short_cpu[i]:
                has = f"{cores(free[i, CPU])} of {cores(whole[i, CPU])} cores"
                short.append(f"cpu: pod asks {cores(ask.cpu_milli)}, node has {has} {words}")
            if short_memory[i]:
                has = f"{size(free[i, MEMORY])} of {size(whole[i, MEMORY])}"
                short.append(f"memory: pod asks {size(ask.memory_bytes)}, node has {has} {words}")
            since = f"report {max(0, int(age_s))} s old" if fresh else "no fresh report"
            said.append(f"{'; '.join(short)} ({since})")
        return said

    def room(self, row: int, now_s: float) -> NodeRoom:
        """See the protocol `Judge`."""
        rows = np.array([row])
        self._update()
        free = self._choose(rows, now_s, self._mirror.offered, self._left)[0].tolist()
        whole = self._choose(rows, now_s, self._mirror.whole, self._whole)[0].tolist()
        return NodeRoom(free[CPU], free[MEMORY], whole[CPU], whole[MEMORY])

    def scores(self, ask: PodDemand, rows: Int, now_s: float) -> Int:
        """See the protocol `Judge`."""
        self._update()
        fresh = now_s - self._mirror.at_s.take(rows) <= REPORT_TTL_S
        kind = ask.band + len(BASES) * min(ask.debt, self._levels)
        return np.where(fresh, self._by_report[kind].take(rows), self._without[kind].take(rows))

    def _choose(self, rows: Int, now_s: float, reported: Float, otherwise: Float) -> Float:
        """Each row's figures by its fresh report, else by Kubernetes' figures."""
        fresh = now_s - self._mirror.at_s.take(rows) <= REPORT_TTL_S
        if fresh.all():
            return reported.take(rows, axis=0)
        return np.where(fresh[:, None], reported.take(rows, axis=0), otherwise.take(rows, axis=0))

    def _ranges(
        self, ask: PodDemand, rows: Int, now_s: float, free: Float, short_cpu: Mask, short_memory: Mask
    ) -> list[str]:
        """One text for all nodes that lack the same, with the least and the most that they have."""
        fresh = now_s - self._mirror.at_s.take(rows) <= REPORT_TTL_S
        counted = self._mirror.counted[rows]
        kinds = fresh * 8 + counted * 4 + short_cpu * 2 + short_memory * 1
        texts: dict[int, str] = {}
        for kind in np.unique(kinds).tolist():
            these = kinds == kind
            words = _words(bool(kind & 8), bool(kind & 4))
            short = []
            if kind & 2:
                has = _range(cores, free[these, CPU])
                short.append(f"cpu: pod asks {cores(ask.cpu_milli)}, nodes have {has} cores {words}")
            if kind & 1:
                has = _range(size, free[these, MEMORY])
                short.append(f"memory: pod asks {size(ask.memory_bytes)}, nodes have {has} {words}")
            texts[kind] = f"{'; '.join(short)}{'' if kind & 8 else ' (no fresh report)'}"
        return [texts[kind] for kind in kinds.tolist()]

    def _update(self) -> None:
        """Recompute the changed rows."""
        mirror = self._mirror
        mirror.apply()
        if not (mirror.changed or mirror.reported):
            return
        length = len(mirror.listed)
        if length > len(self._left):
            self._by_report = _wider(self._by_report, length)
            self._without = _wider(self._without, length)
            more = np.full((length - len(self._left), 2), np.inf)
            self._left, self._whole = np.concatenate([self._left, more]), np.concatenate([self._whole, more])
        if mirror.changed:
            rows = np.array(list(mirror.changed), dtype=np.int64)
            capacity, requested = mirror.nodes.capacity[rows], mirror.nodes.requested[rows]
            used = np.where(mirror.counted[rows, None], requested, 0)
            listed = mirror.listed[rows, None]
            self._left[rows] = np.where(listed, capacity - used, np.inf)[:, : MEMORY + 1]
            self._whole[rows] = np.where(listed, capacity, np.inf)[:, : MEMORY + 1]
            self._without[:, rows] = self._founding(rows, fresh=False)
        rows = np.array(list(mirror.reported | mirror.changed), dtype=np.int64)
        self._by_report[:, rows] = self._founding(rows, fresh=True)
        mirror.changed.clear()
        mirror.reported.clear()

    def _founding(self, rows: Int, fresh: bool) -> Float:
        """The founding score of rows for every level of debt and base, `float64[levels * len(BASES), len(rows)]`,
        as if their reports were fresh, or absent.
        """
        nodes, counted = self._mirror.nodes, self._mirror.counted[rows, None]
        capacity = nodes.capacity[rows]
        report = np.nan_to_num(nodes.report[rows])  # a row that never reported is never read as fresh
        report[:, _AT] = 0.0
        arrays = nodes._replace(
            capacity=capacity, requested=np.where(counted, nodes.requested[rows], capacity // 2), report=report
        )
        now_s = 0.0 if fresh else 2.0 * REPORT_TTL_S
        return founding(arrays, self._shapes, 0, np.arange(len(rows)), now_s, self._from_ledger)


def _words(fresh: bool, counted: bool) -> str:
    return "unused" if fresh else "not requested" if counted else "allocatable"


def _range(shown: Callable[[float], str], values: Float) -> str:
    least, most = shown(float(values.min())), shown(float(values.max()))
    return least if least == most else f"{least} to {most}"


def _bases(levels: int) -> ShapeArrays:
    """One shape with all bases by priority for each level of debt, as a column that broadcasts over the rows: the
    founding score reads nothing else of a shape.
    """
    params = np.zeros((1, len(Param), len(BASES) * (levels + 1), 1))
    params[0, Param.PRIORITY_BASE, :, 0] = BASES * (levels + 1)
    params[0, Param.VIOLATION_SURCHARGE, :, 0] = np.repeat([surcharge_of(i) for i in range(levels + 1)], len(BASES))
    return ShapeArrays(
        request=np.zeros((1, 3), dtype=np.int64),
        sums=np.zeros((1, len(Sum)), dtype=np.int64),
        params=params,
        tolerated=np.zeros(1, dtype=np.uint64),
        selector=np.zeros((1, 1), dtype=np.uint64),
        tenant=np.zeros(1, dtype=np.int64),
        group=np.full(1, -1, dtype=np.int64),
        group_limit=np.zeros(1, dtype=np.int64),
    )


def _wider(table: Int, rows: int) -> Int:
    grown = np.zeros((table.shape[0], rows), dtype=np.int64)
    grown[:, : table.shape[1]] = table
    return grown
