"""Replicas by themselves: rows are added, given back and used again, and nobody's requests become another's."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.engine.traces.replicas import FORGOTTEN_S, SLOT_S, WINDOW_S, ObservedReplicas, ReplicaFigures
from cotenant.model.traces.spans import SpanSource

NOW = 1_000_000.0  # the beginning of a slot
MS = 1_000_000  # in nanoseconds


def _source(number: int) -> SpanSource:
    return SpanSource(f"pod-{number}", f"uid-{number}", "n")


def _send(
    replicas: ObservedReplicas,
    number: int,
    now_s: float,
    *,
    count: int = 1,
    bad: int = 0,
    ms: int = 8,
    calls: bool = False,
) -> int:
    row = replicas.row("shop/fast", _source(number), now_s, count)
    replicas.add(
        np.full(count, row),
        np.full(count, ms * MS),
        np.arange(count) < bad,
        np.full(count, ms * MS // 4),
        np.full(count, calls),
    )
    return row


def _figures(replicas: ObservedReplicas, number: int, now_s: float) -> ReplicaFigures:
    found = replicas.figures("shop/fast", _source(number), 0.9, now_s)
    assert found is not None
    return found


@pytest.mark.parametrize("known", [15, 16, 17, 33])  # rows are doubled at 16 and 32
def test_more_replicas_than_rows_keep_their_own_figures(known: int) -> None:
    replicas = ObservedReplicas()
    for number in range(known):
        _send(replicas, number, NOW, count=number + 1, bad=number, ms=1 + number, calls=True)

    for number in range(known):
        found = _figures(replicas, number, NOW)
        assert (found.requests, found.bad) == (number + 1, number)
        assert found.p99_us == pytest.approx(1000 * (1 + number), rel=0.1)
        assert found.self_p99_us == pytest.approx(250 * (1 + number), rel=0.1)


def test_a_row_that_is_used_again_has_nothing_of_its_former_replica() -> None:
    replicas = ObservedReplicas()
    former = _send(replicas, 1, NOW, count=50, bad=20, ms=500, calls=True)
    other = _send(replicas, 2, NOW, count=3)
    replicas.drop_objective("shop/slow")
    assert len(replicas) == 2
    replicas.drop_objective("shop/fast")
    assert len(replicas) == 0
    assert replicas.figures("shop/fast", _source(1), 0.9, NOW) is None

    rows = {_send(replicas, 3, NOW, ms=2), _send(replicas, 4, NOW, ms=2)}

    assert rows == {former, other}
    for number in (3, 4):
        found = _figures(replicas, number, NOW)
        assert (found.requests, found.bad, found.self_p99_us) == (1, 0, None)
        assert found.p99_us == pytest.approx(2000, rel=0.1)
    _send(replicas, 3, NOW, ms=2, calls=True)
    assert _figures(replicas, 3, NOW).self_p99_us == pytest.approx(500, rel=0.1)


def test_room_of_a_replica_that_was_forgotten_is_given_back() -> None:
    replicas = ObservedReplicas(most=4)
    number = 0
    while _send(replicas, number, NOW, count=2) >= 0:
        number += 1
    assert (len(replicas), replicas.overflowed) == (number, 2)

    replicas.forget(NOW + FORGOTTEN_S)
    assert len(replicas) == number
    _send(replicas, 0, NOW + FORGOTTEN_S)
    replicas.forget(NOW + FORGOTTEN_S + 1)

    assert [source for _, source in replicas.all()] == [_source(0)]
    assert _send(replicas, number, NOW + FORGOTTEN_S + 1) >= 0


def test_a_new_replica_takes_the_row_of_the_forgotten_one_and_no_other() -> None:
    replicas = ObservedReplicas()
    forgotten = _send(replicas, 1, NOW)
    stays = _send(replicas, 2, NOW + FORGOTTEN_S, count=5)
    replicas.forget(NOW + FORGOTTEN_S + 1)

    assert _send(replicas, 3, NOW + FORGOTTEN_S + 1, count=7) == forgotten
    assert _send(replicas, 4, NOW + FORGOTTEN_S + 1) not in (forgotten, stays)

    assert [_figures(replicas, number, NOW + FORGOTTEN_S + 1).requests for number in (2, 3, 4)] == [5, 7, 1]


def test_figures_are_of_the_last_seconds_and_say_of_how_many() -> None:
    replicas = ObservedReplicas()
    _send(replicas, 1, NOW, count=10, bad=5)
    assert _figures(replicas, 1, NOW).window_s == 0.25  # requests of one export are no rate
    assert _figures(replicas, 1, NOW + 3).window_s == 3.0

    _send(replicas, 1, NOW + SLOT_S, count=1)
    assert _figures(replicas, 1, NOW + WINDOW_S - 0.5).requests == 11
    left = _figures(replicas, 1, NOW + WINDOW_S + 0.5)

    assert (left.requests, left.bad, left.window_s) == (1, 0, WINDOW_S - SLOT_S + 0.5)
    assert replicas.counts("shop/fast", NOW + WINDOW_S + 0.5) == [(_source(1), 1, 0)]
    assert _figures(replicas, 1, NOW + 2 * WINDOW_S).p99_us == 0
