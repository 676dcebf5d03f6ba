"""The logs of one host: each with its ring, and the files that stand in it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from cotenant.drivers.logs.tail import Tail
from cotenant.engine.logs.log_stream import LogStream
from cotenant.engine.logs.ring import LogRing
from cotenant.model.fleet.logs import LogPiece, LogPlace

_PIECES = 4  # of one file, one after another; then the next file has its turn


class LogFile:
    """One file with its rotations. `fault`: why it cannot be read."""

    def __init__(self, key: str, path: Path, ring: LogRing, place: LogPlace | None, backlog_bytes: int) -> None:
        self.key = key
        self.fault = ""
        self.stream = LogStream(ring, place, key)
        self.sent: LogPlace | None = place  # behind the last line that the collector has
        self._tail = Tail(path, place, backlog_bytes)

    def poll(self) -> bool:
        """Take what is new; whether more may be there."""
        for _ in range(_PIECES):
            piece = self._piece()
            if piece is None:
                return False
            self.stream.feed(piece)
        return True

    def close(self) -> None:
        """Close what is open."""
        self._tail.close()

    def _piece(self) -> LogPiece | None:
        try:
            piece = self._tail.poll()
        except OSError as error:
            self.fault = error.strerror or str(error)
            return None
        self.fault = ""
        return piece


class KeptLog:
    """One container's, or one pod's. `names`: by which it is asked for; the first is its usual one."""

    def __init__(self, names: tuple[str, ...], attributes: Mapping[str, str], max_bytes: int, max_age_s: float) -> None:
        self.names = names
        self.attributes = attributes  # of the resource, for the collector
        self.ring = LogRing(max_bytes, max_age_s)
        self.ring_id = secrets.token_hex(4)
        self.sources: dict[str, LogFile] = {}
        self.sent = 0  # number of the last line that the collector has, or need not have
        self.unsent = 0  # dropped before they could be sent
        self.gone_s: float | None = None  # since when its files are no longer there
        self.fault = ""

    @property
    def lost(self) -> int:
        """Gaps in what could be read."""
        return sum(source.stream.lost for source in self.sources.values())

    def close(self) -> None:
        """Close all files."""
        for source in self.sources.values():
            source.close()
