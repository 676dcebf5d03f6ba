"""How long the bytes of a request are kept, and what is given up first."""

from __future__ import annotations

import numpy as np

from cotenant.engine.traces.request_bodies import RequestBodies


def release(bodies: RequestBodies, *requests: int) -> None:
    bodies.release(np.array(requests, dtype=np.int32))


def test_a_span_is_the_part_of_its_requests_bytes() -> None:
    bodies = RequestBodies(100)
    first, second = bodies.add(b"abcdef", 1), bodies.add(b"ghi", 1)
    assert (bodies.message(first, 2, 3), bodies.message(second, 0, 3)) == (b"cde", b"ghi")


def test_bytes_stay_until_the_last_of_their_spans_is_released() -> None:
    bodies = RequestBodies(100, max_bytes=10)
    kept, other = bodies.add(b"abcde", 3), bodies.add(b"12345", 1)
    release(bodies, kept, other)
    release(bodies, kept)
    assert (bodies.message(kept, 0, 5), bodies.message(other, 0, 5)) == (b"abcde", b"")
    release(bodies, kept)
    assert bodies.message(kept, 0, 5) == b""


def test_what_is_released_makes_room() -> None:
    bodies = RequestBodies(100, max_bytes=10)
    for _ in range(20):
        number = bodies.add(b"0123456789", 2)
        assert bodies.message(number, 0, 10) == b"0123456789"
        release(bodies, number, number)
    assert bodies.dropped == 0


def test_beyond_the_bound_the_oldest_lose_theirs_and_the_newest_is_kept_whatever_its_size() -> None:
    bodies = RequestBodies(100, max_bytes=10)
    a, b = bodies.add(b"aaaaa", 1), bodies.add(b"bbbbb", 1)
    assert bodies.dropped == 0  # the bound itself is allowed
    c = bodies.add(b"c", 1)
    assert [bodies.message(number, 0, 1) for number in (a, b, c)] == [b"", b"b", b"c"]
    huge = bodies.add(b"h" * 50, 1)
    assert [bodies.message(number, 0, 1) for number in (b, c, huge)] == [b"", b"", b"h"]
    assert bodies.dropped == 3
    release(bodies, a, b, c)  # spans whose bytes were dropped end without a word
    assert bodies.message(huge, 49, 1) == b"h"
