"""What is said of a node's lent resources: offered, held, by whom, and who lends them."""

from __future__ import annotations

import json
from math import nan

import pytest

from cotenant.engine.rules.use.use_view import LentHolder, UseView
from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, Amounts

BY_HAND = "lent by another manager, or by hand: the node has no terms of the amounts"
UNREADABLE = "lent by cotenant manager: the terms of the amounts cannot be read"


def view(
    *held: int, written: str = "", pods: int = 3, by_request: int = 0, age_s: float = 5.0, fresh: bool = True
) -> UseView:
    """A node whose pods p0, p1 ... hold so much batch CPU."""
    holders = tuple(
        LentHolder(f"jobs/p{number}", Amounts.of({BATCH_CPU: amount, BATCH_MEMORY: 1 << 30}))
        for number, amount in enumerate(held)
    )
    offered = Amounts.of({BATCH_CPU: 8000, BATCH_MEMORY: 4 << 30})
    use = Use(2000, 2 << 30)
    return UseView(
        "n1", Use(8000, 8 << 30), Use(0, 0), use, pods, by_request, age_s, fresh, 0.01, offered, holders, written
    )


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ((), "n1 offers 8000 kubernetes.io/batch-cpu, 0 pods hold 0"),
        ((0,), "n1 offers 8000 kubernetes.io/batch-cpu, 0 pods hold 0"),
        ((1,), "n1 offers 8000 kubernetes.io/batch-cpu, 1 pod holds 1"),
        ((1, 0, 2000), "n1 offers 8000 kubernetes.io/batch-cpu, 2 pods hold 2001"),
    ],
)
def test_what_is_held_is_the_sum_of_those_that_hold_some(held: tuple[int, ...], said: str) -> None:
    assert view(*held).lent(BATCH_CPU) == said


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ((), []),
        ((0, 0), []),
        ((1, 0, 3, 2), ["3 jobs/p2", "2 jobs/p3", "1 jobs/p0"]),
        ((5, 5), ["5 jobs/p0", "5 jobs/p1"]),
        (tuple(range(1, 9)), [f"{number} jobs/p{number - 1}" for number in range(8, 0, -1)]),
        (tuple(range(1, 10)), [*(f"{number} jobs/p{number - 1}" for number in range(9, 1, -1)), "and 1 more"]),
        ((1,) * 12, [*(f"1 jobs/p{number}" for number in (0, 1, 10, 11, 2, 3, 4, 5)), "and 4 more"]),
    ],
)
def test_the_largest_holders_are_named_and_the_rest_counted(held: tuple[int, ...], said: list[str]) -> None:
    assert list(view(*held).largest(BATCH_CPU)) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", BY_HAND),
        ("{", UNREADABLE),
        ("[]", UNREADABLE),
        ("{}", UNREADABLE),
        ('{"amounts": []}', UNREADABLE),
        ('{"amounts": {"batch-cpu": 7}}', UNREADABLE),
        ('{"amounts": {"batch-memory": {"policy": "usage"}}}', UNREADABLE),
        (
            json.dumps({"amounts": {"batch-cpu": {"policy": "usage"}}}),
            "lent by cotenant manager, by usage; `cotenant explain node n1` has the terms",
        ),
        (
            json.dumps({"amounts": {"batch-cpu": {"policy": "usage"}}, "strategy": "night"}),
            "lent by cotenant manager, by usage, strategy: night; `cotenant explain node n1` has the terms",
        ),
    ],
)
def test_who_lends_is_what_the_terms_say(written: str, said: str) -> None:
    assert view(written=written).lender(BATCH_CPU) == said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"age_s": nan}, "by requests, since the node was never measured"),
        ({"fresh": False, "age_s": 90.0}, "by requests, since the node's measurement is 90 s old"),
        ({"by_request": 2}, "2 of them by request, not measured yet"),
        ({}, "measured 5 s ago"),
    ],
)
def test_from_what_the_prediction_is_made(more: dict[str, float], said: str) -> None:
    made = view(**more)
    assert made.source() == said
    assert made.sentence() == (
        f"3 pods on n1 are predicted to use 2 of 8 cpu and 2Gi of 8Gi memory at 1 % risk, {said}"
    )
