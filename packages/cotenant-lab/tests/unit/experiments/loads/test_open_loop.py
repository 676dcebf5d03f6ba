"""The generator against servers that stall: the stall must show in the latencies of all requests due meanwhile."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic_ns

import pytest
from tests.fakes.waiting import patience

from cotenant.model.errors import Permanent
from cotenant_lab.experiments.loads.open_loop import LatencySlots, due_times, run
from cotenant_lab.experiments.measures.histogram import Histogram

RATE = 2000.0
HELD = 40  # requests that the stalling server collects before it answers the first
SLOT_US = 50_000


class OneByte:
    """A request is "q", a reply is "a"."""

    def request(self, number: int) -> bytes:
        return b"q"

    def replies(self, received: bytearray) -> int:
        count = len(received)
        received.clear()
        return count


@contextmanager
def served(answer: Callable[[socket.socket, int], None]) -> Iterator[socket.socket]:
    """A connection to a server that calls `answer` with how many requests have come, each time some came."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        count = 0
        with theirs, suppress(OSError):  # reset: the client has gone
            while data := theirs.recv(4096):
                count += len(data)
                answer(theirs, count)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    ours.setblocking(False)
    try:
        yield ours
    finally:
        ours.close()
        thread.join(patience(5))


def _before(next_due: Callable[[], int], until: int) -> list[int]:
    found = []
    while (due := next_due()) < until:
        found.append(due)
    return found


class Stalling:
    """Holds every reply back until `HELD` requests have come; then answers at once."""

    def __init__(self) -> None:
        self.answered = 0

    def __call__(self, connection: socket.socket, count: int) -> None:
        if count >= HELD:
            connection.sendall(b"a" * (count - self.answered))
            self.answered = count


class Log(LatencySlots):
    """A tally that keeps each latency and each lag too."""

    def __init__(self, began: int) -> None:
        super().__init__(SLOT_US, began)
        self.each: list[tuple[int, int]] = []
        self.lags: list[tuple[int, int]] = []

    def sent(self, due_us: int, now_us: int) -> None:
        super().sent(due_us, now_us)
        self.lags.append((due_us, now_us - due_us))

    def first(self, of: list[tuple[int, int]]) -> Histogram:
        """Those due in the first slot."""
        found = Histogram()
        for due_us, value_us in of:
            if due_us - self.began_us < SLOT_US:
                found.add(value_us)
        return found

    def answered(self, due_us: int, now_us: int) -> None:
        super().answered(due_us, now_us)
        self.each.append((due_us, now_us - due_us))


def asked(answer: Callable[[socket.socket, int], None]) -> tuple[Log, list[int], int]:
    began = monotonic_ns() // 1000
    until = began + 80_000
    tally = Log(began)
    with served(answer) as connection:
        run([connection], OneByte(), due_times(RATE, 7, began), tally, until)
    return tally, _before(due_times(RATE, 7, began), until), until


def test_a_stall_counts_for_every_request_that_fell_due_in_it() -> None:
    tally, due, _ = asked(Stalling())
    assert len(due) > HELD + 20
    assert [at for at, _ in tally.each] == due  # none was left out because the server stalled
    last = due[HELD - 1]  # before this one was sent, nothing was answered
    for at, latency in tally.each[:HELD]:
        assert latency >= last - at
    assert tally.each[0][1] >= last - due[0] > 5_000


def test_requests_without_an_answer_count_with_the_time_they_waited() -> None:
    tally, due, until = asked(lambda connection, count: None)
    assert tally.each == [(at, until - at) for at in due]


def test_lag_of_sending_is_separate_from_latency() -> None:
    tally, due, _ = asked(lambda connection, count: None)
    slots = tally.slots()
    assert sum(slot.lag.total for slot in slots) == sum(slot.latency.total for slot in slots) == len(due)
    assert [at for at, _ in tally.lags] == due
    first = slots[0]
    for share in (0.1, 0.5, 0.9):  # not which of them is longer: this process may get no CPU until all is over
        assert first.lag.quantile_us(share) == tally.first(tally.lags).quantile_us(share)
        assert first.latency.quantile_us(share) == tally.first(tally.each).quantile_us(share)


def test_arrivals_are_the_same_for_a_seed_and_of_the_rate() -> None:
    first, again = _before(due_times(1000.0, 3, 0), 20_000_000), _before(due_times(1000.0, 3, 0), 20_000_000)
    assert first == again
    assert first != _before(due_times(1000.0, 4, 0), 20_000_000)
    assert 19_500 < len(first) < 20_500


def test_a_server_that_closes_is_an_error_and_not_a_good_latency() -> None:
    began = monotonic_ns() // 1000
    with (
        served(lambda connection, count: connection.shutdown(socket.SHUT_RDWR)) as connection,
        pytest.raises(Permanent, match=r"clos|broke|took no more"),
    ):
        run([connection], OneByte(), due_times(RATE, 7, began), LatencySlots(SLOT_US, began), began + 10_000_000)
