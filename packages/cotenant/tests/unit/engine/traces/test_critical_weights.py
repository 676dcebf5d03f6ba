"""Critical paths over thinned traces: weighted by the probability they are those of all traces."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.engine.traces.kept import APART, KeptSpan, KeptTrace
from cotenant.engine.traces.operations import SpanOperation
from cotenant.engine.traces.search import critical_of
from cotenant.model.traces.probability import ALL
from cotenant.model.traces.spans import SpanKind, SpanSource

WEB = SpanOperation("", "web", "GET", SpanKind.SERVER)
FAST, SLOW = (SpanOperation("", name, name, SpanKind.SERVER) for name in ("cache", "database"))


def trace(number: int, below: SpanOperation, below_ns: int, threshold: int = 0, kept_for: str = "chance") -> KeptTrace:
    spans = tuple(
        KeptSpan(place + 1, place - 1, operation, SpanSource(), 0, end_ns, 0, 0, False, False, b"")
        for place, (operation, end_ns) in enumerate(((WEB, below_ns + 1000), (below, below_ns)))
    )
    return KeptTrace(0, number, 0, spans, False, 2, 0.0, threshold, kept_for)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("slowest", [1.0, 0.1])
def test_thinned_traces_give_the_shares_of_all(seed: int, slowest: float) -> None:
    generator = np.random.default_rng(seed)
    is_slow = generator.random(2500) < 0.05
    below_ns = np.where(is_slow, 50_000, 5_000) + generator.integers(0, 2_000, 2500)
    everything = [
        trace(number, SLOW if slow else FAST, int(ns))
        for number, (slow, ns) in enumerate(zip(is_slow, below_ns, strict=True))
    ]
    usual = ALL - ALL // 16  # as a budget does: slow ones are kept, of the others one of sixteen
    kept = [
        trace(one.low, one.spans[1].operation, one.spans[1].end_ns, 0 if slow else usual)
        for one, slow in zip(everything, is_slow, strict=True)
        if slow or generator.random() < 1 / 16
    ]
    assert len(kept) < len(everything) / 5
    exact, found = critical_of(everything, "web", slowest), critical_of(kept, "web", slowest)
    assert found.represented == pytest.approx(exact.requests, rel=0.15)
    shares = {share.operation: share.share for share in found.shares}
    for share in exact.shares:
        assert shares[share.operation] == pytest.approx(share.share, abs=0.05), share.operation
    assert sum(shares.values()) == pytest.approx(1.0)
    unweighted = critical_of([trace(one.low, *_below(one)) for one in kept], "web", slowest)
    of_database = {share.operation: share.share for share in unweighted.shares}[SLOW]
    assert of_database > {share.operation: share.share for share in exact.shares}[SLOW] + 0.1


def test_traces_that_are_kept_apart_from_the_budget_do_not_count() -> None:
    found = critical_of([trace(1, FAST, 10), trace(2, SLOW, 10**9, kept_for=APART)], "web")
    assert (found.requests, found.represented) == (1, 1.0)
    assert critical_of([], "web").requests == 0


def _below(one: KeptTrace) -> tuple[SpanOperation, int]:
    return one.spans[1].operation, one.spans[1].end_ns
