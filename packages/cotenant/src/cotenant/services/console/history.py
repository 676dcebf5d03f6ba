"""The last hour, for the time slider and the curves.

What happened ten minutes ago is the usual question, and a console must not need a database for it. A compressed
snapshot every `KEEP_S` for an hour, and the cluster's sums every `SUM_S`, in memory.
Limits: lost at a restart; 5,000 nodes cost about 27 MB for the hour.
"""

from __future__ import annotations

import zlib
from collections import deque

from cotenant.services.console.fleet import ClusterTotals

KEEP_S, SUM_S, SPAN_S = 30.0, 10.0, 3600.0


class SnapshotHistory:
    """Snapshots and sums of the last hour."""

    def __init__(self) -> None:
        self._snapshots: deque[tuple[float, bytes]] = deque(maxlen=round(SPAN_S / KEEP_S))
        self._sums: deque[tuple[float, ClusterTotals]] = deque(maxlen=round(SPAN_S / SUM_S))

    def wants_snapshot(self, now_s: float) -> bool:
        """Whether it is time for the next one."""
        return not self._snapshots or now_s - self._snapshots[-1][0] >= KEEP_S

    def wants_sums(self, now_s: float) -> bool:
        """Whether it is time for the next sums."""
        return not self._sums or now_s - self._sums[-1][0] >= SUM_S

    def keep(self, now_s: float, snapshot: bytes) -> None:
        """Keep a snapshot."""
        self._snapshots.append((now_s, zlib.compress(snapshot, 1)))

    def add(self, now_s: float, totals: ClusterTotals) -> None:
        """Keep the sums."""
        self._sums.append((now_s, totals))

    def times(self) -> list[float]:
        """Times of the snapshots, oldest first."""
        return [at for at, _ in self._snapshots]

    def at(self, unix_s: float) -> bytes | None:
        """The newest snapshot that is not younger; the oldest where all are, None where there is none."""
        found = next((data for at, data in reversed(self._snapshots) if at <= unix_s + 1e-3), None)
        if found is None and self._snapshots:
            found = self._snapshots[0][1]
        return None if found is None else zlib.decompress(found)

    def curves(self) -> dict[str, list[float | None]]:
        """The sums as columns; shares of the cluster's CPU, and counts. "requested" includes "lent", what is
        requested of lent CPU.
        """
        columns: dict[str, list[float | None]] = {
            name: [] for name in ("at", "requested", "used", "lent", "pending", "burning")
        }
        for at, sums in self._sums:
            cpu = sums.cpu_m or 1
            columns["at"].append(at)
            columns["requested"].append((sums.requested_m + sums.lent_requested_m) / cpu)
            columns["used"].append(None if sums.used_m is None else sums.used_m / cpu)
            columns["lent"].append(sums.lent_requested_m / cpu)
            columns["pending"].append(float(sums.pending))
            columns["burning"].append(float(sums.burning))
        return columns
