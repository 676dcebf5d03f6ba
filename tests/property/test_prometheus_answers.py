"""Whatever a server behind the query API answers, or a file of prices holds, ends in values or in an error of ours."""

from __future__ import annotations

import json
from contextlib import suppress

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from cotenant.drivers.prometheus.answers import read_answer
from cotenant.drivers.prometheus.ranges import placed
from cotenant.model.assess.prices import PricedNode, read_prices
from cotenant.model.errors import InvalidInput, Permanent, Transient

STEPS = 8
GOOD = json.dumps(
    {
        "status": "success",
        "data": {"resultType": "matrix", "result": [{"metric": {"pod": "a"}, "values": [[60, "1.5"], [120, "NaN"]]}]},
    }
).encode()
SAMPLE = st.one_of(
    st.tuples(st.integers(-100, 1000), st.floats(allow_nan=True, allow_infinity=True).map(repr)),
    st.tuples(st.integers(-100, 1000), st.sampled_from(["+Inf", "NaN", "-Inf", "1e400", "", "x", "1,2", "0x10"])),
    st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.just("1")),
    st.text(max_size=3),
    st.none(),
)
ROW = st.fixed_dictionaries({}, optional={
    "metric": st.one_of(st.dictionaries(st.sampled_from(["pod", "x"]), st.text(max_size=4)), st.integers()),
    "values": st.one_of(st.lists(SAMPLE, max_size=5), st.text(max_size=5)),
    "value": SAMPLE,
})  # fmt: skip


def tried(body: bytes) -> None:
    with suppress(Permanent, Transient):
        answer = read_answer(body)
        part = placed(answer, lambda labels: labels.get("pod", ""), 60.0, 60.0, STEPS)
        assert part.values.shape == (len(part.names), STEPS)
        known = part.values[~np.isnan(part.values)]
        assert (known >= 0).all()
        assert not np.isinf(known).any()


@given(st.lists(ROW, max_size=4))
@example([{"metric": {"pod": "a"}, "values": [[60, "1e39"]]}])
@example([{"metric": {"pod": "a"}, "values": [[1e300, "1"]]}])
def test_any_series(rows: list[dict[str, object]]) -> None:
    tried(json.dumps({"status": "success", "data": {"result": rows}}).encode())


@given(st.integers(0, len(GOOD)), st.binary(max_size=4), st.integers(0, 6))
def test_an_answer_that_was_damaged(at: int, put: bytes, cut: int) -> None:
    tried(GOOD[:at] + put + GOOD[at + cut :])


@given(st.one_of(st.binary(max_size=200), st.text(alphabet="nodes:[]{} perHour1.-,\n", max_size=80).map(str.encode)))
def test_any_file_of_prices(text: bytes) -> None:
    for given_text in (text, b"InstanceID,AssetClass,InstanceIDField,MarketPriceHourly\n" + text):
        with suppress(InvalidInput):
            price = read_prices(given_text, "prices").of(PricedNode("n", 1000, 1024))
            assert price is None or price.per_hour >= 0
