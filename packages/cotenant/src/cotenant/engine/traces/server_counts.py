"""What model servers have counted since they were last read.

Histograms go back to the start of a process that may have run for weeks before anybody looked, and begin anew where it
restarts. A first reading is where counting begins; of a process that started after its address was first looked at,
everything is new. A restart is seen by the start time; what a restarted process shows is new, what was counted between
the last reading and its end is lost. A series of which a bucket has less than before was made anew, such as that of a
model that was loaded again: what it shows is new, and other series go on.
One address may hide several servers, of which another answers each time. Then every answer would look like a restart
and weeks would be counted as new: a process that ran before the last reading of another one, or counters that go back
twice within minutes, are refused with that sentence.
Limits: a server without a start time that passes every bucket of its predecessor between two readings is taken for one
that went on. A series, an engine or a rank, that is new on a running server begins with its next reading. Of several
servers without a start time the first two answers of another may count, until the second time that counters go back.
"""

from __future__ import annotations

from collections.abc import Mapping
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
STEADY_S = 300.0  # within which counters do not go back twice
CLOCKS_APART_S = 60.0  # of a server's clock and ours
SETTLED = 5  # answers in a row after which another process is taken for the one that is here
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
    fell_s: float | None = None  # when counters last went back
    refused_until_s: float = 0.0
    others: tuple[float, int] = (0.0, 0)  # a start time that is not the known one, and how often it came in a row


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
        what no server does, after which counting begins anew, or where several servers answer at one address.
        """
        self.looks_at(address, now_s)
        server = self._servers[address]
        before, last, is_first = server.read_s, server.last, server.read_s is None
        is_other = self._is_other(server, reading)
        if is_other and before is not None and not self._began_since(reading, before):
            self._settle(server, reading)
            is_other = False
            before, last = None, {}
        fell = not is_other and any(_fell(histogram, last) for histogram in reading.histograms)
        self.restarts += is_other or fell
        began_under_our_eyes = reading.started_s is not None and reading.started_s >= server.looked_s
        counts_whole = is_other or (is_first and began_under_our_eyes)
        missed = before is not None and now_s - before > MAX_READ_GAP_S
        self._set_tokens(server, reading, now_s, is_other or fell)
        server.read_s, server.started_s, server.name = now_s, reading.started_s, reading.server
        server.others = (0.0, 0)
        server.last = {(histogram.measure, histogram.series): histogram for histogram in reading.histograms}
        self._check_steady(server, fell, now_s)
        if missed:
            return ()
        found = []
        for key, histogram in server.last.items():
            earlier = None if is_other else last.get(key)
            if earlier is None and not counts_whole:
                continue
            counts = _buckets(histogram) if _fell(histogram, last) else _difference(histogram, earlier)
            if sum(counts) > MAX_NEW:
                what = f"{reading.server} {histogram.measure}"
                raise InvalidInput(what, f"{sum(counts)} since the last reading", f"at most {MAX_NEW}")
            if any(counts):
                found.append(NewObservations(histogram.measure, histogram.model, histogram.edges_us, counts))
        return tuple(found)

    @staticmethod
    def _is_other(server: _Server, reading: ModelServerReading) -> bool:
        """Whether another process answers than before."""
        if server.read_s is None:
            return False
        if reading.server != server.name:
            return True
        now_s, before_s = reading.started_s, server.started_s
        return now_s is not None and before_s is not None and abs(now_s - before_s) > _SAME_START_S

    @staticmethod
    def _began_since(reading: ModelServerReading, read_s: float) -> bool:
        """Whether it began after another one was last read, so that it has taken that one's place."""
        return reading.started_s is not None and reading.started_s >= read_s - CLOCKS_APART_S

    @staticmethod
    def _settle(server: _Server, reading: ModelServerReading) -> None:
        """Refuse another process beside the known one, unless it alone has answered for a while."""
        started_s = reading.started_s or 0.0
        known_s, times = server.others
        times = times + 1 if abs(started_s - known_s) <= _SAME_START_S else 1
        server.others = (started_s, times)
        if times < SETTLED:
            raise _several("another process than before, which did not begin since")

    @staticmethod
    def _check_steady(server: _Server, fell: bool, now_s: float) -> None:
        if fell:
            if server.fell_s is not None and now_s - server.fell_s < STEADY_S:
                server.refused_until_s = now_s + STEADY_S
            server.fell_s = now_s
        if now_s < server.refused_until_s:
            raise _several(f"counters that went back twice within {STEADY_S:g} s")

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


def _several(shown: str) -> InvalidInput:
    hint = "several servers behind one address are not told apart: name each replica, or `pods` by their labels"
    return InvalidInput("/metrics", shown, "one server at an address", hint)


def _fell(histogram: ServerHistogram, last: Mapping[_Series, ServerHistogram]) -> bool:
    """Whether a series has less than before in some bucket, or other edges: it was made anew."""
    earlier = last.get((histogram.measure, histogram.series))
    if earlier is None:
        return False
    return earlier.edges_us != histogram.edges_us or any(count < 0 for count in _difference(histogram, earlier))


def _difference(histogram: ServerHistogram, earlier: ServerHistogram | None) -> tuple[int, ...]:
    """Observations of each bucket; below zero where it has fewer than before."""
    now = _buckets(histogram)
    if earlier is None or earlier.edges_us != histogram.edges_us:
        return now
    return tuple(later - before for later, before in zip(now, _buckets(earlier), strict=True))


def _buckets(histogram: ServerHistogram) -> tuple[int, ...]:
    return tuple(later - earlier for earlier, later in pairwise((0, *histogram.at_most, histogram.total)))
