"""What model servers have counted since they were last read.

Histograms go back to the start of a process that may have run for weeks before anybody looked, and begin anew where it
restarts. A first reading is where counting begins; of a process that started after its address was first looked at,
everything is new. A restart is seen by the start time, or by any bucket that has less than before; what a restarted
process shows is new, what was counted between the last reading and its end is lost.
Limits: a restarted server without a start time that passes every bucket of its predecessor between two readings is
taken for one that went on. A series, an engine or a rank, that is new on a running server begins with its next reading.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from cotenant.model.errors import InvalidInput
from cotenant.model.traces.model_server import (
    ModelMeasure,
    ModelServerReading,
    NewObservations,
    ServerHistogram,
)

MAX_NEW = 50_000_000  # observations between two readings: no server makes more
_SAME_START_S = 2.0  # some compute the start time anew, from whole seconds
MAX_READ_GAP_S = 300.0  # what came in a longer gap has no time, and is not counted
_Series = tuple[ModelMeasure, str]


@dataclass(slots=True)
class _Server:
    looked_s: float  # when its address was first looked at
    read_s: float | None = None
    started_s: float | None = None
    name: str = ""
    last: dict[_Series, ServerHistogram] = field(default_factory=dict)
    tokens: int | None = None
    tokens_per_s: float | None = None


class ServerCounts:
    """By address. Times are Unix seconds."""

    def __init__(self) -> None:
        self._servers: dict[str, _Server] = {}
        self.restarts = 0

    def looks_at(self, address: str, now_s: float) -> None:
        """An address is looked at, whether it answers or not."""
        self._servers.setdefault(address, _Server(now_s))

    def forget(self, address: str) -> None:
        """It is not looked at any more."""
        self._servers.pop(address, None)

    def tokens_per_s(self, address: str) -> float | None:
        """Generated tokens a second between the last two readings; None where that is not known."""
        found = self._servers.get(address)
        return None if found is None else found.tokens_per_s

    def take(self, address: str, reading: ModelServerReading, now_s: float) -> tuple[NewObservations, ...]:
        """The observations since the last reading, where there are any. Raises `InvalidInput` where a server claims
        what no server does; counting then begins anew with this reading.
        """
        self.looks_at(address, now_s)
        server = self._servers[address]
        before, last, is_first = server.read_s, server.last, server.read_s is None
        restarted = self._is_restarted(server, reading)
        self.restarts += restarted
        began_under_our_eyes = reading.started_s is not None and reading.started_s >= server.looked_s
        counts_whole = restarted or (is_first and began_under_our_eyes)
        missed = before is not None and now_s - before > MAX_READ_GAP_S
        self._set_tokens(server, reading, now_s, restarted)
        server.read_s, server.started_s, server.name = now_s, reading.started_s, reading.server
        server.last = {(histogram.measure, histogram.series): histogram for histogram in reading.histograms}
        if missed:
            return ()
        found = []
        for key, histogram in server.last.items():
            earlier = None if restarted else last.get(key)
            if earlier is None and not counts_whole:
                continue
            counts = _difference(histogram, earlier)
            if sum(counts) > MAX_NEW:
                what = f"{reading.server} {histogram.measure}"
                raise InvalidInput(what, f"{sum(counts)} since the last reading", f"at most {MAX_NEW}")
            if any(counts):
                found.append(NewObservations(histogram.measure, histogram.model, histogram.edges_us, counts))
        return tuple(found)

    @staticmethod
    def _is_restarted(server: _Server, reading: ModelServerReading) -> bool:
        if server.read_s is None:
            return False
        if reading.server != server.name:
            return True
        started_s = reading.started_s, server.started_s
        if None not in started_s and abs((started_s[0] or 0) - (started_s[1] or 0)) > _SAME_START_S:
            return True
        for histogram in reading.histograms:
            earlier = server.last.get((histogram.measure, histogram.series))
            if earlier is not None and (
                earlier.edges_us != histogram.edges_us or any(count < 0 for count in _difference(histogram, earlier))
            ):
                return True
        return False

    @staticmethod
    def _set_tokens(server: _Server, reading: ModelServerReading, now_s: float, restarted: bool) -> None:
        server.tokens_per_s = None
        if (
            not restarted
            and server.read_s is not None
            and server.tokens is not None
            and reading.generated_tokens is not None
            and now_s > server.read_s
            and reading.generated_tokens >= server.tokens
        ):
            server.tokens_per_s = (reading.generated_tokens - server.tokens) / (now_s - server.read_s)
        server.tokens = reading.generated_tokens


def _difference(histogram: ServerHistogram, earlier: ServerHistogram | None) -> tuple[int, ...]:
    """Observations of each bucket; below zero where it has fewer than before."""
    now = _buckets(histogram)
    if earlier is None or earlier.edges_us != histogram.edges_us:
        return now
    return tuple(later - before for later, before in zip(now, _buckets(earlier), strict=True))


def _buckets(histogram: ServerHistogram) -> tuple[int, ...]:
    return tuple(later - earlier for earlier, later in pairwise((0, *histogram.at_most, histogram.total)))
