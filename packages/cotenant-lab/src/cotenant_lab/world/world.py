"""The scheduler's interface to the simulated world: it reports events, and accepts starts and evictions.

Comparisons of schedulers need the same truth for all of them, and no access to it. `World` takes a `Truth` and returns
events, node reports and measurements that a real agent could take; it is independent of queues, scores and rounds.
Limits: it does not check requests against capacity or group limits (real nodes can be overcommitted); that is the
ledger's task.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotenant.model.arrays import Float, Int
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant_lab.world import accounting, loop, state
from cotenant_lab.world.accounting import RunMetrics
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.truth import Truth, check

_STATUS = ("not yet ready", "ready", "running", "finished", "evicted and not yet reported")
_REFUSALS = (
    "",
    "no such pod",
    "not waiting for a node",
    "held back after an eviction",
    "no such node",
    "the node is down",
)


class IllegalTransition(CotenantError):
    """A pod cannot do what was requested; the message has its history."""

    def __init__(self, pod: int, asked: str, why: str, story: str) -> None:
        self.pod = pod
        self.story = story
        super().__init__(f"pod {pod}: cannot {asked}: {why}; {story}")


class WorldEvents(NamedTuple):
    """Events since the last call, each group in order of time. A pod is in each group at most once."""

    ready: Int  # pods waiting for a node for the first time; evicted pods wait again without being listed here
    ready_s: Float
    finished: Int
    finished_s: Float
    evicted: Int  # pods that start again from zero, not before `hold_until_s`
    evicted_s: Float
    hold_until_s: Float
    cause: Int  # index into `CAUSES`: memory, node failure, asked
    evicted_memory_bytes: Float  # in use when evicted: what the kernel's accounting shows
    nodes_down: Int  # rows
    nodes_down_s: Float
    nodes_up: Int
    nodes_up_s: Float


class ArrivedMeasurements(NamedTuple):
    """Measurements of agents that arrived at the last tick, for pods that still run. Use has log-normal noise; a
    p99 is that of a sample.
    """

    at_s: float
    pods: Int
    rows: Int
    cpu_cores: Float  # in use
    memory_bytes: Float  # in use
    replicas: Int  # indices into `pods` of services' replicas that served requests
    p99_ratio: Float  # sample p99 / objective of the last window, aligned with `replicas`
    requests: Int  # of that window


_NO_INT = np.empty(0, np.int64)
_NO_FLOAT = np.empty(0, np.float64)
_NOTHING = WorldEvents(
    _NO_INT, _NO_FLOAT, _NO_INT, _NO_FLOAT, _NO_INT, _NO_FLOAT, _NO_FLOAT, _NO_INT, _NO_FLOAT, _NO_INT, _NO_FLOAT,
    _NO_INT, _NO_FLOAT
)  # fmt: skip


class World:
    """A simulated cluster that runs a workload. Equal arguments and equal calls give equal runs."""

    def __init__(self, truth: Truth, config: WorldConfig, seed: int) -> None:
        """Raises `InvalidInput` for a workload that cannot run on these nodes."""
        check(truth, config)
        if seed < 0:
            raise InvalidInput("seed", seed, "0 or more")
        self._truth = truth
        self._config = config
        self._seed = seed
        self._state = state.build(truth, config, seed)
        self._law = state.law(config)
        self._now_s = 0.0
        self._outages = 0  # outages so far
        self._touched = np.zeros(config.nodes, np.int64)
        pods, outages = self._state.pods, self._state.outages
        # plain views of columns: reading one through a record array costs more than most calls of `advance`
        self._ready_s, self._finished_s, self._evicted_s = (
            np.asarray(pods[name]) for name in ("ready_s", "finished_s", "evicted_s")
        )
        self._hold_until_s, self._cause, self._evicted_memory = (
            np.asarray(pods[name]) for name in ("hold_until_s", "evicted_cause", "evicted_memory")
        )
        self._status = np.asarray(pods["status"])
        self._outage_s, self._outage_row, self._outage_up = (
            np.asarray(outages[name]) for name in ("at_s", "row", "up")
        )

    @property
    def now_s(self) -> float:
        """The world's time."""
        return self._now_s

    @property
    def done(self) -> bool:
        """Whether the horizon has passed and all batch has finished, or the run has reached its limit."""
        if self._now_s < self._config.horizon_s:
            return False
        return self._now_s >= self._config.limit_s or int(self._state.run.batch_left[0]) == 0

    def advance(self, until_s: float) -> WorldEvents:
        """Run until exactly `until_s`, and return the events. Raises `InvalidInput` if the clock would go backwards."""
        if not (isfinite(until_s) and until_s >= self._now_s):
            raise InvalidInput(
                "until_s", until_s, f"a time not before {self._now_s} s", "the clock never goes backwards"
            )
        s, outages = self._state, self._outages
        n_ready, n_finished, n_evicted, begun = loop.run_until(s, self._law, float(until_s))
        self._now_s, self._outages = float(until_s), begun
        if n_ready == 0 and n_finished == 0 and n_evicted == 0 and begun == outages:
            return _NOTHING
        ready, finished, evicted = (
            s.ready[:n_ready].copy(),
            s.finished[:n_finished].copy(),
            s.evicted[:n_evicted].copy(),
        )
        for name in ("ready", "finished", "evicted"):
            s.run[name] = 0
        self._status[evicted] = state.READY
        at, row = self._outage_s[outages:begun], self._outage_row[outages:begun]
        up = self._outage_up[outages:begun]
        return WorldEvents(
            ready=ready,
            ready_s=self._ready_s[ready],
            finished=finished,
            finished_s=self._finished_s[finished],
            evicted=evicted,
            evicted_s=self._evicted_s[evicted],
            hold_until_s=self._hold_until_s[evicted],
            cause=self._cause[evicted],
            evicted_memory_bytes=self._evicted_memory[evicted],
            nodes_down=row[~up],
            nodes_down_s=at[~up],
            nodes_up=row[up],
            nodes_up_s=at[up],
        )

    def start(self, pods: Int, rows: Int) -> None:
        """Start `pods[i]` on node `rows[i]` now, all or none.

        A node over its memory evicts at once; the next `advance` reports it. Raises `IllegalTransition` for a pod that
        is not waiting, is held or is named twice, and for a node that is down or unknown.
        """
        pods, rows = _column("pods", pods), _column("rows", rows)
        if len(pods) != len(rows):
            raise InvalidInput("rows", len(rows), f"as many rows as pods ({len(pods)})")
        i, why = loop.start_pods(self._state, self._law, pods, rows, self._touched)
        if i >= 0:
            pod = int(pods[i])
            raise IllegalTransition(pod, f"start on node {rows[i]}", self._why(why, pods[:i], pod), self.story(pod))

    def evict(self, pods: Int) -> None:
        """Evict running pods now, all or none; the next `advance` reports them, and they start again from zero."""
        pods = _column("pods", pods)
        i = loop.evict_pods(self._state, self._law, pods, self._touched)
        if i >= 0:
            pod = int(pods[i])
            why = "named twice" if pod in pods[:i] else "not running"
            raise IllegalTransition(pod, "evict", why, self.story(pod))

    def reports(self) -> Float:
        """The last report of each node that has arrived: float64[N, len(Report)], NaN where none has.

        A node that is down, or whose reports are late or lost, keeps its last one; `ReportColumn.REPORTED_AT` shows
        its age.
        """
        return self._state.report.copy()

    def assigned(self, pods: Int) -> tuple[Int, Int]:
        """The row of each of these pods, -1 for one that is on no node, and how often each was evicted so far."""
        return self._state.pods.node[pods].astype(np.int64), self._state.pods.restarts[pods].astype(np.int64)

    def ready_s(self, pods: Sequence[int]) -> Float:
        """When each of these pods became ready for the first time; NaN for one that has not."""
        return self._ready_s[np.array(pods, dtype=np.int64)]

    @property
    def replicas(self) -> Int:
        """The numbers of the services' pods."""
        return self._state.replica_pods

    def measured(self) -> ArrivedMeasurements:
        """The measurements that arrived at the last tick, of pods that ran since before they were taken and still do.

        Nodes whose measurements are late or lost are missing.
        """
        s = self._state
        at = float(s.run.last_tick_s[0])
        running = np.flatnonzero(s.pods.status == state.RUNNING)
        rows = s.pods.node[running]
        pods = running[s.nodes.delivered[rows] & (s.pods.placed_s[running] < s.nodes.seen_s[rows])]
        # seeded by the tick, so that repeated calls return equal values
        rng = np.random.default_rng((self._seed, int(np.nan_to_num(at) * 1000.0), 1))
        noise = np.exp(self._config.measurement_error * rng.standard_normal((2, len(s.pods.status))))
        replicas = np.flatnonzero((s.pods.service[pods] >= 0) & (s.pods.seen_requests[pods] > 0))
        return ArrivedMeasurements(
            at_s=at,
            pods=pods,
            rows=s.pods.node[pods],
            cpu_cores=s.pods.seen_cores[pods] * noise[0, pods],
            memory_bytes=s.pods.seen_memory[pods] * noise[1, pods],
            replicas=replicas,
            p99_ratio=s.pods.seen_ratio[pods[replicas]],
            requests=s.pods.seen_requests[pods[replicas]],
        )

    def account(self) -> RunMetrics:
        """The metrics of the run so far."""
        return accounting.account(self._truth, self._state, self._config)

    def story(self, pod: int) -> str:
        """The events of a pod so far, in one line."""
        s = self._state
        if not 0 <= pod < len(s.pods.status):
            return f"pods are numbered 0 to {len(s.pods.status) - 1}"
        stage = int(s.pods.stage[pod])
        service = int(s.pods.service[pod])
        kind = f"a replica of service {service}" if service >= 0 else f"of stage {stage}, job {s.stages.job[stage]}"
        parts = [f"it is {kind}, {_STATUS[s.pods.status[pod]]}"]
        steps = (
            ("ready", s.pods.ready_s),
            ("first started", s.pods.started_s),
            ("evicted", s.pods.evicted_s),
            ("last started", s.pods.placed_s),
            ("finished", s.pods.finished_s),
        )
        seen = sorted(
            (float(column[pod]), i, word) for i, (word, column) in enumerate(steps) if not np.isnan(column[pod])
        )
        parts += [f"{word} at {at:.1f} s" for at, _, word in seen]
        if s.pods.node[pod] >= 0:
            parts.append(f"on node {s.pods.node[pod]}")
        if s.pods.restarts[pod]:
            parts.append(f"{s.pods.restarts[pod]} restarts, held until {s.pods.hold_until_s[pod]:.1f} s")
        return ", ".join(parts)

    def _why(self, refusal: int, earlier: Int, pod: int) -> str:
        if refusal == loop.NOT_READY and pod in earlier:
            return "named twice"
        return _REFUSALS[refusal]


def _column(name: str, values: NDArray[np.generic]) -> Int:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInput(name, f"{array.dtype}[{array.shape}]", "a column of integers")
    return np.ascontiguousarray(array, np.int64)
