"""Requests that thinned ones stand for: exact where a batch is small, within a bound of work where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fakes.servers.spans import Given, batch_of

from cotenant.engine.traces.represented import MAX_READ, Represented
from cotenant.model.traces.probability import ALL
from cotenant.model.traces.spans import SpanKind


class Reader:
    """Gives every span one threshold, and counts how many were read."""

    def __init__(self, probability: float) -> None:
        self.read = 0
        self._threshold = round(ALL * (1 - probability))

    def __call__(self, message: bytes) -> tuple[int | None, int | None]:
        self.read += 1
        return None, self._threshold


def _beyond(count: int, reader: Reader, kind: SpanKind = SpanKind.SERVER, state: str = "ot=th:c") -> float:
    batch = batch_of(*(Given(number + 1, tracestate=state, kind=kind) for number in range(count)))
    represented = Represented(reader)
    represented.add(np.zeros(count, np.int32), batch)
    return float(represented.beyond[0])


def test_each_of_a_usual_batch_is_read() -> None:
    reader = Reader(1 / 4)
    assert _beyond(100, reader) == pytest.approx(300.0)
    assert reader.read == 100


@pytest.mark.slow
def test_of_a_huge_batch_a_bounded_part_is_read_and_stands_for_the_rest() -> None:
    reader = Reader(1 / 4)
    count = 2 * MAX_READ + 10
    assert _beyond(count, reader) == pytest.approx(3 * count, rel=0.001)
    assert reader.read <= MAX_READ


@pytest.mark.parametrize("kind", [SpanKind.INTERNAL, SpanKind.CLIENT])
def test_what_is_no_request_stands_for_none(kind: SpanKind) -> None:
    reader = Reader(1 / 4)
    assert _beyond(5, reader, kind) == 0.0
    assert reader.read == 0


def test_spans_without_a_threshold_are_not_read() -> None:
    reader = Reader(1 / 4)
    assert _beyond(5, reader, state="") == 0.0
    assert reader.read == 0
