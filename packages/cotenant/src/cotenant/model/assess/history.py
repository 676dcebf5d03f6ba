"""Use over time, of pods, workloads or nodes: one row a series, one column a step.

Seven days of 50,000 pods in steps of five minutes are 100 million values of each resource, so values are float32 and
sums are made a block of columns at a time. NaN is *unknown*: no sample, a counter that was reset, a pod that did not
exist. A column's value is the mean over the step that ends at its time, as a rate over a step is.
Limits: float32 holds milli-CPU and MiB to seven digits; one step for all series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, isfinite

import numpy as np
from numpy.typing import NDArray

from cotenant.model.arrays import Int, Mask
from cotenant.model.assess.meters import NO_METERS, Meters
from cotenant.model.errors import InvalidInput

Float32 = NDArray[np.float32]
_LATEST_S = 253_402_300_800.0  # the year 10000, of which no calendar knows
_BLOCK_VALUES = 4_000_000  # of one resource, summed at a time


@dataclass(frozen=True, slots=True)
class AssessedHistory:
    """Use of `names` at `start_s + i * step_s`; arrays [series, steps], NaN where unknown."""

    start_s: float  # Unix time of the first column
    step_s: float
    names: tuple[str, ...]
    cpu_m: Float32
    memory_mib: Float32
    source: str = ""  # one sentence: where the values are from, and what they therefore cannot say

    def __post_init__(self) -> None:
        if not (isfinite(self.start_s) and isfinite(self.step_s) and self.step_s > 0):
            raise InvalidInput("history", (self.start_s, self.step_s), "a start and a step above 0, in seconds")
        if not (self.start_s >= 0 and self.start_s + self.cpu_m.shape[-1] * self.step_s <= _LATEST_S):
            raise InvalidInput("history", (self.start_s, self.step_s), "times from 1970 to 9999")
        for field, values in (("cpu_m", self.cpu_m), ("memory_mib", self.memory_mib)):
            if values.dtype != np.float32 or values.ndim != 2 or len(values) != len(self.names):
                expected = f"float32 [{len(self.names)} series, steps]"
                raise InvalidInput(f"history {field}", f"{values.dtype} {values.shape}", expected)
        if self.cpu_m.shape != self.memory_mib.shape:
            raise InvalidInput("history memory_mib", self.memory_mib.shape, f"as cpu_m, {self.cpu_m.shape}")

    @property
    def steps(self) -> int:
        """Columns."""
        return self.cpu_m.shape[1]

    @property
    def end_s(self) -> float:
        """Time of the column after the last."""
        return self.start_s + self.steps * self.step_s

    @property
    def known_share(self) -> float:
        """Share of CPU values that are known; 0 for a history without values."""
        return float(1.0 - np.isnan(self.cpu_m).mean()) if self.cpu_m.size else 0.0

    def rows(self, names: Sequence[str]) -> Int:
        """Row of each name; -1 where it has no series."""
        row = {name: i for i, name in enumerate(self.names)}
        return np.array([row.get(name, -1) for name in names], np.int64)

    def between(self, from_s: float, until_s: float) -> AssessedHistory:
        """The columns at times from `from_s` to below `until_s`, without a copy of their values."""
        first = min(self.steps, max(0, ceil((from_s - self.start_s) / self.step_s - 1e-6)))
        last = min(self.steps, max(first, ceil((until_s - self.start_s) / self.step_s - 1e-6)))
        return replace(
            self,
            start_s=self.start_s + first * self.step_s,
            cpu_m=self.cpu_m[:, first:last],
            memory_mib=self.memory_mib[:, first:last],
        )

    def of_rows(self, rows: Int) -> AssessedHistory:
        """The series of these rows, in this order."""
        names = tuple(self.names[row] for row in rows.tolist())
        return replace(self, names=names, cpu_m=self.cpu_m[rows], memory_mib=self.memory_mib[rows])

    def summed(self, groups: Sequence[str], min_known: float = 0.5) -> AssessedHistory:
        """The sum of the series of each group ("" = left out), groups in order of their names.

        A series is expected from its first known value to its last. Where some of a group's expected series have no
        value, the others' mean stands for them, while at least `min_known` of them are known; below that the sum is
        unknown, as it is where nothing is expected.
        """
        if len(groups) != len(self.names):
            raise InvalidInput("groups of a history", len(groups), f"one for each of {len(self.names)} series")
        labels = np.array(groups, dtype=np.str_) if groups else np.zeros(0, "U1")
        kept = np.flatnonzero(labels != "")
        order = kept[np.argsort(labels[kept], kind="stable")]
        names, starts = np.unique(labels[order], return_index=True)
        cpu_m = _summed(self.cpu_m, order, starts, min_known)
        memory_mib = _summed(self.memory_mib, order, starts, min_known)
        return replace(self, names=tuple(str(name) for name in names), cpu_m=cpu_m, memory_mib=memory_mib)


@dataclass(frozen=True, slots=True)
class PodHistory:
    """Pods' use with what joins them to the cluster: gone pods are in no snapshot, so each series brings its own."""

    use: AssessedHistory  # names: NAMESPACE/POD
    node: tuple[str, ...]  # of each series; "" = unknown
    workload: tuple[str, ...]  # NAMESPACE/KIND/NAME; NAMESPACE/Pod/NAME where nothing owns it, "" = unknown
    cpu_request_m: Float32  # of each series; NaN = unknown
    memory_request_mib: Float32

    def __post_init__(self) -> None:
        for field in ("node", "workload", "cpu_request_m", "memory_request_mib"):
            if len(getattr(self, field)) != len(self.use.names):
                expected = f"one for each of {len(self.use.names)} series"
                raise InvalidInput(f"pods' {field}", len(getattr(self, field)), expected)

    def joined(self, node: Mapping[str, str], workload: Mapping[str, str]) -> PodHistory:
        """With what a snapshot knows by NAMESPACE/POD, where the source knew nothing."""
        names = self.use.names
        return replace(
            self,
            node=tuple(own or node.get(name, "") for name, own in zip(names, self.node, strict=True)),
            workload=tuple(own or workload.get(name, "") for name, own in zip(names, self.workload, strict=True)),
        )

    def by_workload(self) -> AssessedHistory:
        """The use of each workload."""
        return self.use.summed(self.workload)

    def by_node(self, only: Mask | None = None) -> AssessedHistory:
        """The pods' use on each node, of those marked by `only` or of all."""
        groups = self.node
        if only is not None:
            groups = tuple(node if marked else "" for node, marked in zip(self.node, only.tolist(), strict=True))
        return self.use.summed(groups)


@dataclass(frozen=True, slots=True)
class ClusterHistory:
    """All that is known of a cluster's use over time."""

    pods: PodHistory
    nodes: AssessedHistory  # names of nodes; whole machines where the source measures them, else the sums of their pods
    faults: tuple[str, ...] = ()  # what could not be read, a sentence each; the rest is here
    meters: Meters = NO_METERS


def no_history(source: str, start_s: float = 0.0, step_s: float = 300.0) -> ClusterHistory:
    """Nothing is known; `source` says why."""
    empty = np.zeros((0, 0), np.float32)
    use = AssessedHistory(start_s, step_s, (), empty, empty, source)
    none = np.zeros(0, np.float32)
    return ClusterHistory(PodHistory(use, (), (), none, none), use)


def _summed(values: Float32, order: Int, starts: Int, min_known: float) -> Float32:
    steps = values.shape[1]
    found = np.full((len(starts), steps), np.nan, np.float32)
    if not len(order) or not steps:
        return found
    first, last = _extent(values)
    block = max(1, _BLOCK_VALUES // len(order))
    for begin in range(0, steps, block):
        columns = np.arange(begin, min(steps, begin + block))
        part = values[order, begin : begin + block]
        known = ~np.isnan(part)
        expected = (columns >= first[order, None]) & (columns <= last[order, None])
        total = np.add.reduceat(np.where(known, part, np.float32(0.0)), starts, axis=0, dtype=np.float64)
        count = np.add.reduceat(known, starts, axis=0, dtype=np.int64)
        wanted = np.add.reduceat(expected, starts, axis=0, dtype=np.int64)
        enough = (count > 0) & (count >= min_known * wanted)
        whole = total * (wanted / np.maximum(count, 1))
        found[:, begin : begin + block] = np.where(enough, whole, np.nan)
    return found


def _extent(values: Float32) -> tuple[Int, Int]:
    """The first and the last known column of each row; an empty range where nothing is known."""
    steps = values.shape[1]
    first, last = np.full(len(values), steps, np.int64), np.full(len(values), -1, np.int64)
    block = max(1, _BLOCK_VALUES // max(1, steps))
    for begin in range(0, len(values), block):
        known = ~np.isnan(values[begin : begin + block])
        any_known = known.any(axis=1)
        first[begin : begin + block] = np.where(any_known, known.argmax(axis=1), steps)
        last[begin : begin + block] = np.where(any_known, steps - 1 - known[:, ::-1].argmax(axis=1), -1)
    return first, last
