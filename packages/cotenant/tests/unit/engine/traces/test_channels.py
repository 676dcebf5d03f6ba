"""Closed channels: what is left out is exactly what they name, counted, for as long as they are closed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.fakes.servers.spans import EPOCH_S, Given, batch_of

from cotenant.engine.traces.channels import MAX_FOR_S, MAX_SERVICES, Channels
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.spans import SpanKind

NOW_S = float(EPOCH_S)


@pytest.mark.parametrize("seed", range(10))
def test_what_is_left_out_is_what_a_look_at_each_span_says(seed: int) -> None:
    generator = np.random.default_rng(seed)
    pick = lambda *names: names[generator.integers(len(names))]  # noqa: E731
    channels, left_out = Channels(), 0
    until: dict[str, float] = {}
    for step in range(60):
        now_s = NOW_S + step
        name = pick("cart", "shop/cart", "shop/web", "i1", "i2")
        if generator.random() < 0.3:
            for_s = float(generator.integers(1, 9))
            channels.close(name, for_s, now_s)
            until[name] = now_s + for_s
        elif generator.random() < 0.2:
            is_shut = until.pop(name, 0.0) > now_s
            channels.tick(now_s)
            assert (channels.open(name) is not None) is is_shut
        spans = [
            Given(number, service=pick("cart", "web"), namespace=pick("", "shop"), instance=pick("", "i1", "i2"))
            for number in range(1, 6)
        ]
        shut = {name for name, at_s in until.items() if at_s > now_s}
        expected = [
            span.span
            for span in spans
            if not shut & {span.service, f"{span.namespace}/{span.service}".lstrip("/"), span.instance}
        ]
        left_out += len(spans) - len(expected)
        assert channels.admitted(batch_of(*spans), now_s).columns.span_id.tolist() == expected
        assert {channel.name for channel in channels.closed(now_s)} == shut
    assert channels.spans == left_out > 0


def test_an_instance_remembers_whose_spans_it_left_out_and_a_refusal_closes_nothing() -> None:
    channels = Channels(max_closed=2)
    channels.close("guid-1", 60, NOW_S)
    for number in range(MAX_SERVICES + 5):
        channels.admitted(batch_of(Given(1, service=f"s{number}", namespace="shop", instance="guid-1")), NOW_S)
    (closed,) = channels.closed(NOW_S)
    assert len(closed.services) == MAX_SERVICES
    assert closed.spans == MAX_SERVICES + 5
    assert [channel.name for channel in channels.of_instances("shop", "s3")] == ["guid-1"]
    assert channels.of_service("shop", "s3") is None
    channels.close("web", 60, NOW_S)
    for name, for_s in (("third", 60.0), ("", 60.0), ("a\nb", 60.0), ("web", 0.0), ("web", MAX_FOR_S * 2)):
        with pytest.raises(InvalidInput):
            channels.close(name, for_s, NOW_S)
    assert [channel.until_s for channel in channels.closed(NOW_S)] == [NOW_S + 60] * 2
    channels.close("third", 60, NOW_S + 61)  # the others opened by themselves


def test_what_was_closed_is_closed_after_a_restart_unless_its_time_is_over() -> None:
    before = Channels()
    before.close("web", 10, NOW_S)
    before.close("cart", 100, NOW_S)
    before.admitted(batch_of(Given(1, service="cart")), NOW_S)
    after = Channels()
    after.restore(before.closed(NOW_S), NOW_S + 20)
    assert after.closed(NOW_S + 20) == (replace(before.closed(NOW_S)[1]),)
    assert after.closed(NOW_S + 20)[0].spans == 1


def test_the_engine_counts_nothing_of_a_closed_service_and_all_of_the_others() -> None:
    engine = TraceEngine(NOW_S, lambda _: {})
    engine.channels.close("shop/cart", 60, NOW_S)
    batch = batch_of(
        Given(1, 0, "GET /", SpanKind.SERVER, service="web", namespace="shop"),
        Given(2, 1, "POST", SpanKind.SERVER, service="cart", namespace="shop"),
    )
    receipt = engine.add(batch, NOW_S)
    assert (receipt.rejected, engine.counts.spans, engine.channels.spans) == (0, 1, 1)
    assert engine.add(batch.take(np.array([1])), NOW_S).rejected == 0  # a batch of which nothing is left
    engine.tick(NOW_S + 60)
    engine.add(batch, NOW_S + 61)
    assert engine.counts.spans == 2  # web's is a repetition
