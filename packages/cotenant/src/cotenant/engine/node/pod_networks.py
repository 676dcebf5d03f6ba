"""What pods send and receive: rates between two readings of their network counters.

Counters of a network namespace are read once a report, not once a tick: each costs two files. The share of the uplink
is that of the busier direction.
Limits: pods of the host's own network have no counters; traffic between two pods of one node counts as if it used the
uplink.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from cotenant.model.machine.node_metric import PodSignals


class NetworkUse(NamedTuple):
    """Bytes per second, and the share of the uplink; None where its speed is not known."""

    bps: int
    share: float | None

    def added(self, signals: PodSignals) -> PodSignals:
        """The signals with these."""
        return replace(signals, network_use=self.share, network_bps=self.bps)


class PodNetworks:
    """The last counters of each pod, by UID. Mutable."""

    def __init__(self, uplink_bps: int | None) -> None:
        """`uplink_bps`: bytes per second in one direction; None = not known."""
        self._uplink_bps = uplink_bps
        self._last: dict[str, tuple[int, int]] = {}
        self._at_s = 0.0

    def measured(self, counters: Mapping[str, tuple[int, int]], at_s: float) -> dict[str, NetworkUse]:
        """What was moved since the last reading; nothing for pods that are new or whose counters began again. Pods
        that are not read are forgotten.
        """
        before, elapsed_s = self._last, at_s - self._at_s
        self._last, self._at_s = dict(counters), at_s
        found = {}
        for uid, now in counters.items():
            earlier = before.get(uid)
            if earlier is None or elapsed_s <= 0.0 or now[0] < earlier[0] or now[1] < earlier[1]:
                continue
            received, sent = ((now[way] - earlier[way]) / elapsed_s for way in (0, 1))
            link = self._uplink_bps
            share = round(min(1.0, max(received, sent) / link), 4) if link else None
            found[uid] = NetworkUse(round(received + sent), share)
        return found
