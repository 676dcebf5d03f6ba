"""Latency of services over the last hour, by pod.

NodeMetrics have the present p99 of a pod only, and an incident is understood by what came before it. The highest value
of each `SLOT_S` is kept, from the reports that the console sees anyway.
Limits: in memory, since the console's start; at most `MAX_PODS` pods, further ones are not kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

SLOT_S = 10
KEPT = 360  # slots: an hour
MAX_PODS = 2000


class Latencies:
    """A bounded series for each pod."""

    def __init__(self) -> None:
        self._by_pod: dict[str, deque[tuple[int, float]]] = {}

    def seen(self, at_s: float, latencies_ms: Mapping[str, float]) -> None:
        """What pods (namespace/name) reported now."""
        slot = int(at_s) // SLOT_S
        for pod, value in latencies_ms.items():
            kept = self._by_pod.get(pod)
            if kept is None:
                if len(self._by_pod) >= MAX_PODS and not self._forget(slot):
                    continue
                kept = self._by_pod[pod] = deque(maxlen=KEPT)
            if kept and kept[-1][0] >= slot:
                kept[-1] = (kept[-1][0], max(kept[-1][1], value))
            else:
                kept.append((slot, value))

    def of(self, pod: str, now_s: float) -> tuple[tuple[float, float], ...]:
        """Unix time and p99 in milliseconds, oldest first."""
        first = int(now_s) // SLOT_S - KEPT
        return tuple((slot * float(SLOT_S), value) for slot, value in self._by_pod.get(pod, ()) if slot > first)

    def _forget(self, slot: int) -> bool:
        """Drop series without a value within the hour; whether there is room then."""
        for pod in [pod for pod, kept in self._by_pod.items() if not kept or kept[-1][0] <= slot - KEPT]:
            del self._by_pod[pod]
        return len(self._by_pod) < MAX_PODS
