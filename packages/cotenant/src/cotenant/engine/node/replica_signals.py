"""The measured signals of the node's replicas, as the trace process sends them.

A replica may have several objectives, and the trace process may become silent while it burns. The last signal of each
replica and objective is kept with its age; while one that the guard may use is fresh, it replaces the service's own
report and objective. A silent source leaves the own report where that is fresh, else no latency, and the guard uses run
delay or pressure; the age stays visible.
Limits: a signal is dropped after `FORGOTTEN_US` without another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import ServiceHealth
from cotenant.model.machine.replica_signal import FRESH_US, ReplicaSignal

FORGOTTEN_US = 600_000_000
MAX_EACH = 32  # objectives of one replica
_LONGEST_US = 3600 * 1_000_000


class ReplicaSignals:
    """By pod UID and objective."""

    def __init__(self) -> None:
        self._last: dict[str, dict[str, tuple[int, ReplicaSignal]]] = {}

    def reported(self, uid: str, signal: ReplicaSignal, now_us: int) -> None:
        """Store a signal of a known pod. One with an impossible value raises `InvalidInput`; the earlier one stays."""
        check_signal(signal)
        of_pod = self._last.setdefault(uid, {})
        of_pod.pop(signal.objective, None)
        if len(of_pod) >= MAX_EACH:
            of_pod.pop(next(iter(of_pod)))
        of_pod[signal.objective] = (now_us, signal)

    def withdrawn(self, uid: str, objective: str) -> None:
        """The objective no longer concerns the pod."""
        self._last.get(uid, {}).pop(objective, None)

    def is_guarded(self, uid: str) -> bool:
        """Whether the last word of an objective of the pod was that the guard may act for it, however long ago."""
        return any(signal.guard for _, signal in self._last.get(uid, {}).values())

    def keep(self, uids: Iterable[str]) -> None:
        """Drop the signals of all other pods."""
        self._last = {uid: self._last[uid] for uid in uids if uid in self._last}

    def of(self, uid: str, now_us: int) -> tuple[ReplicaSignal, ...]:
        """The last signals of a pod with their ages now: fresh ones first, of those the highest burn rate first."""
        found = []
        for received_us, signal in self._last.get(uid, {}).values():
            age_us = signal.age_us + max(0, now_us - received_us)
            if age_us <= FORGOTTEN_US:
                found.append(replace(signal, age_us=age_us))
        return tuple(
            sorted(
                found,
                key=lambda replica_signal: (
                    not fresh(replica_signal),
                    -(replica_signal.burn_milli or 0),
                    replica_signal.objective,
                ),
            )
        )


def fresh(signal: ReplicaSignal) -> bool:
    """Whether the source is not silent."""
    return signal.age_us <= FRESH_US


def judged(
    pod: NodePod, health: ServiceHealth | None, signals: tuple[ReplicaSignal, ...]
) -> tuple[NodePod, ServiceHealth | None]:
    """The pod with the objective that counts now, and its health by that objective."""
    worst = next((signal for signal in signals if signal.guard and fresh(signal)), None)
    if worst is None:
        return pod, health
    measured = ServiceHealth(
        worst.window_us,
        worst.requests,
        worst.p99_us,
        worst.bad,
        worst.age_us,
        objective=worst.objective,
        budget_ppm=worst.budget_ppm,
        at_target_us=worst.at_target_us,
        self_p99_us=worst.self_p99_us,
    )
    return replace(pod, objective_p99_us=worst.threshold_us), measured


def check_signal(signal: ReplicaSignal) -> None:
    """Raises `InvalidInput` for an impossible signal."""
    for name in ("requests", "bad", "p99_us", "at_target_us", "age_us"):
        if getattr(signal, name) < 0:
            raise InvalidInput(name, getattr(signal, name), "0 or more")
    if signal.self_p99_us is not None and signal.self_p99_us < 0:
        raise InvalidInput("self_p99_us", signal.self_p99_us, "0 or more")
    if signal.bad > signal.requests:
        raise InvalidInput("bad", signal.bad, f"at most the {signal.requests} requests")
    if not 0 < signal.budget_ppm < 1_000_000:
        raise InvalidInput("budgetPpm", signal.budget_ppm, "above 0 and below 1000000")
    if not 0 < signal.window_us <= _LONGEST_US:
        raise InvalidInput("windowUs", signal.window_us, f"above 0, at most {_LONGEST_US}")
    if signal.threshold_us is not None and not 0 < signal.threshold_us <= _LONGEST_US:
        raise InvalidInput("thresholdUs", signal.threshold_us, f"above 0, at most {_LONGEST_US}")
