"""The client-side rate and in-flight limits."""

from __future__ import annotations

import asyncio
from math import inf

import pytest

from cotenant.drivers.kube.client.limits import RequestLimiter, TokenBucket
from cotenant.model.errors import InvalidInput


def test_burst_then_rate() -> None:
    bucket = TokenBucket(10.0, 3)
    assert [round(bucket.take(0.0), 3) for _ in range(5)] == [0.0, 0.0, 0.0, 0.1, 0.2]
    assert bucket.take(10.0) == 0.0


def test_the_burst_is_all_that_is_saved_up() -> None:
    bucket = TokenBucket(10.0, 2)
    bucket.take(0.0)
    assert [bucket.take(1000.0) > 0 for _ in range(3)] == [False, False, True]


def test_a_clock_that_goes_back_adds_nothing() -> None:
    bucket = TokenBucket(1.0, 1)
    assert bucket.take(100.0) == 0.0
    assert bucket.take(0.0) == pytest.approx(1.0)


def test_no_limit() -> None:
    bucket = TokenBucket(inf, 1)
    assert not any(bucket.take(0.0) for _ in range(100))


@pytest.mark.parametrize(("qps", "burst", "in_flight"), [(0.0, 1, 1), (float("nan"), 1, 1), (1.0, 0, 1), (1.0, 1, 0)])
def test_nonsense_is_refused(qps: float, burst: int, in_flight: int) -> None:
    with pytest.raises(InvalidInput):
        RequestLimiter(qps, burst, in_flight, lambda: 0.0)


def test_in_flight() -> None:
    async def main() -> list[int]:
        gate = RequestLimiter(inf, 1, 2, lambda: 0.0)
        seen = []

        async def one() -> None:
            await gate.enter()
            seen.append(gate.under_way)
            await asyncio.sleep(0)
            gate.leave()

        await asyncio.gather(*(one() for _ in range(6)))
        return [*seen, gate.under_way]

    seen = asyncio.run(main())
    assert max(seen[:-1]) == 2
    assert seen[-1] == 0


def test_a_cancelled_wait_gives_its_place_back() -> None:
    async def main() -> int:
        gate = RequestLimiter(0.001, 1, 1, lambda: 0.0)
        await gate.enter()
        gate.leave()
        waiting = asyncio.create_task(gate.enter())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
        return gate.under_way

    assert asyncio.run(main()) == 0
