"""Prediction of what prod pods of this node will not use of their requests, trained on the node's own measurements.

`policy/overcommit/reclaimable.py` is a function of histories; something has to feed it each minute with the right pods,
and keep the histories over a restart of the process. A state machine without I/O: measurements and elapsed time go in,
a prediction comes out; histories go out and in as plain numbers (`KeptHistories`).
Limits: kept histories of another version, or that make no sense, are refused as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite

import msgspec
import numpy as np

from cotenant.engine.node.report import NodeUsage
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import Use
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.policy.overcommit.histogram import DecayedHistogram
from cotenant.policy.overcommit.reclaimable import (
    Histories,
    ProdPod,
    Reclaimable,
    ReclaimableConfig,
    ReclaimableHistory,
    reclaimable,
    trained,
)

VERSION = 1
BELOW_PROD = (PriorityClass.MID, PriorityClass.BATCH, PriorityClass.FREE)


class KeptHistogram(msgspec.Struct, frozen=True):
    """Buckets with a weight, by their index."""

    at_s: float
    counts: dict[int, float]


class KeptHistory(msgspec.Struct, frozen=True):
    """`ReclaimableHistory`."""

    first_s: float
    last_s: float
    cpu: KeptHistogram
    memory: KeptHistogram


class KeptHistories(msgspec.Struct, frozen=True):
    """`Histories`, as a file has them."""

    version: int
    now_s: float
    pods: dict[str, KeptHistory]
    together: KeptHistory | None = None


@dataclass(slots=True)
class ProdPrediction:
    """Histories of one node's pods."""

    config: ReclaimableConfig
    histories: Histories = field(default_factory=Histories)

    def measured(self, usage: NodeUsage, elapsed_s: float) -> None:
        """Train with the averages of the last period. `elapsed_s`: since the last call."""
        beside = Use(usage.system_cpu_m or 0, usage.system_memory_bytes or 0)
        for application in usage.applications:
            if application.pod.priority_class not in BELOW_PROD:
                beside = beside.plus(Use(application.cpu_m or 0, application.memory_bytes or 0))
        use = {
            pod.pod.uid: Use(pod.cpu_m, pod.memory_bytes)
            for pod in usage.pods
            if pod.cpu_m is not None and pod.memory_bytes is not None
        }
        pods = prod_pods((pod.pod for pod in usage.pods), use)
        self.histories = trained(self.histories, pods, beside, elapsed_s, self.config)

    def current(self, pods: Iterable[NodePod], allocatable: Use) -> Reclaimable | None:
        """The prediction for these pods; None before the first measurement."""
        return reclaimable(self.histories, prod_pods(pods, {}), allocatable, self.config)

    def kept(self) -> KeptHistories:
        """The histories as plain numbers."""
        together = self.histories.together
        return KeptHistories(
            VERSION,
            self.histories.now_s,
            {uid: _kept(pod) for uid, pod in self.histories.pods.items()},
            None if together is None else _kept(together),
        )

    def restore(self, kept: KeptHistories) -> None:
        """Continue with kept histories. Raises `InvalidInput`."""
        if kept.version != VERSION:
            raise InvalidInput("version", kept.version, str(VERSION))
        self.histories = Histories(
            _time(kept.now_s, kept.now_s),
            {uid: _restored(pod, kept.now_s) for uid, pod in kept.pods.items()},
            None if kept.together is None else _restored(kept.together, kept.now_s),
        )


def prod_pods(pods: Iterable[NodePod], use: dict[str, Use]) -> Sequence[ProdPod]:
    """The pods whose unused requests may be lent: those of prod, and those without a class."""
    return [
        ProdPod(
            pod.uid,
            Use(pod.cpu_request_m, pod.memory_request_bytes),
            use.get(pod.uid),
            own_cpus=bool(pod.own_cpus),
        )
        for pod in pods
        if pod.priority_class not in BELOW_PROD and not pod.host_application and pod.phase is not NodePodPhase.OVER
    ]


def _kept(history: ReclaimableHistory) -> KeptHistory:
    return KeptHistory(
        round(history.first_s, 3),
        round(history.last_s, 3),
        _kept_histogram(history.cpu),
        _kept_histogram(history.memory),
    )


def _kept_histogram(histogram: DecayedHistogram) -> KeptHistogram:
    counts = {int(i): float(f"{histogram.counts[i]:.5g}") for i in np.flatnonzero(histogram.counts > 1e-6)}
    return KeptHistogram(round(histogram.at_s, 3), counts)


def _restored(kept: KeptHistory, now_s: float) -> ReclaimableHistory:
    empty = ReclaimableHistory(_time(kept.first_s, now_s), _time(kept.last_s, now_s))
    return ReclaimableHistory(
        empty.first_s,
        empty.last_s,
        _restored_histogram(kept.cpu, empty.cpu, now_s),
        _restored_histogram(kept.memory, empty.memory, now_s),
    )


def _restored_histogram(kept: KeptHistogram, empty: DecayedHistogram, now_s: float) -> DecayedHistogram:
    counts = empty.counts.copy()
    for bucket, weight in kept.counts.items():
        if not (0 <= bucket < len(counts) and isfinite(weight) and weight >= 0):
            raise InvalidInput("histogram", f"{bucket}: {weight}", f"a weight of one of {len(counts)} buckets")
        counts[bucket] = weight
    return DecayedHistogram(
        empty.least,
        empty.half_life_s,
        _time(kept.at_s, now_s),
        counts,
        float(counts.sum()),
        growth=empty.growth,
    )


def _time(value: float, latest: float) -> float:
    if not (isfinite(value) and 0 <= value <= latest):
        raise InvalidInput("time", value, "seconds from 0 to now")
    return value
