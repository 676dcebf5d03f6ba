"""Services whose objective keeps being missed: which of victim and culprits should move.

A pod beside its neighbours may miss its latency objective for as long as it stays, and moving the cause may be cheaper
than moving the service. Evidence is gathered over measured windows (misses.py) and a pod with enough of it is a victim,
the one with the largest miss first; for each, the pod and its neighbours are proposed in the order of what a move
costs, and the first one is chosen that lands where the predicted violation of all pods of both nodes falls by at least
`min_gain`, with hysteresis: a victim whose pods were moved is left alone for `rest_s`.
Limits: without predictions (policy/interference/predicted) only the victim itself is proposed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.policy.rebalance.misses import CLEAR, evidence

REQUESTS = 200  # of a window whose number of requests is not measured


@dataclass(frozen=True, slots=True)
class MissSettings:
    """When a pod counts as a victim, and what a move must gain."""

    windows: float = 3.0  # clear misses
    noise: float = 0.05
    min_gain: float = 0.1  # of predicted violation, in units of what each pod tolerates
    rest_s: float = 3600.0


@dataclass(slots=True)
class _Evidence:
    value: float = 0.0
    ratio: float = 0.0
    updated_s: float = -1.0


class Misses:
    """The evidence of all pods, by UID."""

    def __init__(self, settings: MissSettings) -> None:
        self.settings = settings
        self._pods: dict[str, _Evidence] = {}

    def window(self, uid: str, p99_ratio: float, measured_s: float) -> None:
        """A window of a pod; see `windows`."""
        self.windows((uid,), (p99_ratio,), measured_s)

    def windows(
        self, uids: Sequence[str], p99_ratio: Sequence[float], measured_s: float, requests: int = REQUESTS
    ) -> None:
        """A window of each of these pods: p99 over objective, and when it was measured; a window that was counted
        is not counted again.
        """
        known = [self._pods.setdefault(uid, _Evidence()) for uid in uids]
        new = [(entry, ratio) for entry, ratio in zip(known, p99_ratio, strict=True) if measured_s > entry.updated_s]
        before, ratios = np.array([entry.value for entry, _ in new]), np.array([ratio for _, ratio in new])
        values = evidence(before, ratios, np.full(len(new), requests), self.settings.noise)
        for (entry, ratio), value in zip(new, values.tolist(), strict=True):
            entry.value, entry.ratio, entry.updated_s = value, ratio, measured_s

    def last(self, uid: str) -> tuple[float, float] | None:
        """p99 over objective of the pod's last window, and when it was measured; None where none is known."""
        known = self._pods.get(uid)
        return (known.ratio, known.updated_s) if known is not None else None

    def keep(self, uids: Mapping[str, object]) -> None:
        """Forget pods that are gone."""
        self._pods = {uid: pod for uid, pod in self._pods.items() if uid in uids}

    def victims(self, now_s: float, expires_s: float) -> list[tuple[str, float, float]]:
        """UID, clear misses and last ratio of the pods that miss their objective, the worst first. Windows older
        than `expires_s` do not count.
        """
        found = [
            (uid, pod.value / CLEAR, pod.ratio)
            for uid, pod in self._pods.items()
            if pod.value >= self.settings.windows * CLEAR and pod.ratio > 1.0 and now_s - pod.updated_s <= expires_s
        ]
        return sorted(found, key=lambda entry: (-entry[2], entry[0]))
