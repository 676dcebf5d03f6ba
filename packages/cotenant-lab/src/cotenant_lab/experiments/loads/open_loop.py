"""An open-loop load generator: requests have due times independent of replies, and latency counts from the due time.

A client that waits for a reply before its next request stops sending while the server stalls, so its tail hides the
stall (coordinated omission). Due times are drawn beforehand, exponential gaps at one rate, and never move; a request
that cannot be sent in time is sent late and its latency still counts from when it was due. Requests are pipelined over
several connections; replies come in the order of a connection's requests. Lateness of sending is counted separately,
since a lagging generator would otherwise blame the server.
Limits: one thread, about 5,000 requests a second; what is unanswered at the end counts with the time that it has waited
by then.

Source: G. Tene, "How not to measure latency" (coordinated omission); exponential arrivals as wrk2 and mutilate have
them.
"""

from __future__ import annotations

import random
import select
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Protocol

from cotenant.model.errors import Permanent
from cotenant_lab.experiments.measures.histogram import Histogram

_READ = 65_536
_LONGEST_WAIT_S = 0.05


class Wire(Protocol):
    """How requests are written and replies separated."""

    def request(self, number: int) -> bytes:
        """The bytes of the request of this number."""
        ...

    def replies(self, received: bytearray) -> int:
        """Remove the complete replies from the front of `received`. Returns their number. Raises `Permanent` for an
        error reply.
        """
        ...


@dataclass(frozen=True, slots=True)
class Slot:
    """Latency and lag of the requests due within one slot of time."""

    index: int  # slots since the zero that its maker counts from
    latency: Histogram
    lag: Histogram  # due to sent


@dataclass(slots=True)
class LatencySlots:
    """Latencies by slot of the due time."""

    slot_us: int
    began_us: int
    latency: dict[int, Histogram] = field(default_factory=dict)
    lag: dict[int, Histogram] = field(default_factory=dict)

    def answered(self, due_us: int, now_us: int) -> None:
        """Count a reply."""
        self.latency.setdefault((due_us - self.began_us) // self.slot_us, Histogram()).add(now_us - due_us)

    def sent(self, due_us: int, now_us: int) -> None:
        """Count a sent request."""
        self.lag.setdefault((due_us - self.began_us) // self.slot_us, Histogram()).add(now_us - due_us)

    def slots(self) -> list[Slot]:
        """All slots, in order."""
        return [
            Slot(index, self.latency.get(index, Histogram()), self.lag.get(index, Histogram()))
            for index in sorted(self.latency.keys() | self.lag.keys())
        ]


def due_times(rate: float, seed: int, began_us: int) -> Callable[[], int]:
    """The next due time at each call, microseconds on the monotonic clock: a Poisson process of `rate` a second."""
    drawn = random.Random(seed)
    at = float(began_us)

    def next_due() -> int:
        nonlocal at
        at += drawn.expovariate(rate) * 1e6
        return int(at)

    return next_due


def run(
    sockets: Sequence[socket.socket],
    wire: Wire,
    next_due: Callable[[], int],
    tally: LatencySlots,
    until_us: int,
    each_loop: Callable[[int], None] = lambda _: None,
) -> None:
    """Send until `until_us`, and stop there. `each_loop` gets the time after each step; it must be quick.

    `sockets` are connected and non-blocking. Raises `Permanent` where the server closes a connection or answers with an
    error.
    """
    waiting: dict[socket.socket, deque[int]] = {entry: deque() for entry in sockets}
    unsent: dict[socket.socket, bytearray] = {entry: bytearray() for entry in sockets}
    received: dict[socket.socket, bytearray] = {entry: bytearray() for entry in sockets}
    due, number = next_due(), 0
    while True:
        now = monotonic_ns() // 1000
        while due <= now and due < until_us:
            connection = sockets[number % len(sockets)]
            unsent[connection] += wire.request(number)
            _flush(connection, unsent[connection])
            sent_at = monotonic_ns() // 1000
            waiting[connection].append(due)
            tally.sent(due, sent_at)
            due, number = next_due(), number + 1
        if now >= until_us:
            break
        blocked = [entry for entry in sockets if unsent[entry]]
        wait_s = min(_LONGEST_WAIT_S, max(0, min(due, until_us) - monotonic_ns() // 1000) / 1e6)
        readable, writable, _ = select.select(sockets, blocked, (), wait_s)
        now = monotonic_ns() // 1000
        for connection in readable:
            _receive(connection, received[connection])
            for _ in range(wire.replies(received[connection])):
                tally.answered(waiting[connection].popleft(), now)
        for connection in writable:
            _flush(connection, unsent[connection])
        each_loop(now)
    for pending in waiting.values():
        for due in pending:
            tally.answered(due, until_us)


def _flush(connection: socket.socket, unsent: bytearray) -> None:
    try:
        count = connection.send(unsent)
    except BlockingIOError:
        return
    except OSError as error:
        raise Permanent(f"the server took no more requests: {error}") from error
    del unsent[:count]


def _receive(connection: socket.socket, received: bytearray) -> None:
    try:
        data = connection.recv(_READ)
    except BlockingIOError:
        return
    except OSError as error:
        raise Permanent(f"the server's connection broke: {error}") from error
    if not data:
        raise Permanent("the server closed a connection")
    received += data
