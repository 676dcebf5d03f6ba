"""Histories of pods' use as an agent reports them: a scheduler that continues one predicts as if it had measured
itself.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.drivers.kube.kinds.custom.node_metric import ExtensionsPart, _history
from cotenant.drivers.kube.kinds.custom.node_metric_writing import extensions_of
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import NO_SIGNALS, ReportedHistory, Use, UseSpread
from cotenant.policy.overcommit.predicted_use import (
    UNMEASURED,
    PodHistories,
    PredictedUseSettings,
    continued,
    predicted_use,
)

import msgspec  # isort: skip

SETTINGS = PredictedUseSettings()
REQUEST = Use(4000, 4 << 30)
KNOWN = ReportedHistory(10, 9.5, UseSpread(1000.0, 100.0, 1300.0), UseSpread(1e9, 1e7, 1.1e9))


@given(st.lists(st.integers(0, 4000), min_size=1, max_size=40), st.integers(0, 4000))
def test_continued_histories_predict_what_own_ones_do(uses: list[int], after: int) -> None:
    agent, own = PodHistories(), UNMEASURED
    at_s, found = 0.0, {}
    for use in uses:
        at_s += 60.0
        measured = Use(use, use << 20)
        found = agent.measured({"u": measured}, at_s)
        own = own.measured(measured, at_s, SETTINGS)
    written = extensions_of(NO_SIGNALS, found["u"])
    read = _history(msgspec.json.decode(msgspec.json.encode(written), type=ExtensionsPart))
    assert read is not None
    mine = continued(read, Use(uses[-1], uses[-1] << 20), at_s)
    for _ in range(2):
        expected, got = (predicted_use(REQUEST, use_history, True, SETTINGS) for use_history in (own, mine))
        assert got.cpu_m == pytest.approx(expected.cpu_m, abs=3)
        assert got.memory_bytes == pytest.approx(expected.memory_bytes, rel=1e-3, abs=1 << 20)
        at_s += 60.0
        own, mine = (use_history.measured(Use(after, after << 20), at_s, SETTINGS) for use_history in (own, mine))


def test_a_pod_that_is_not_measured_begins_anew() -> None:
    agent = PodHistories()
    agent.measured({"a": Use(1, 1), "b": Use(1, 1)}, 60.0)
    agent.measured({"b": Use(1, 1)}, 120.0)
    found = agent.measured({"a": Use(1, 1), "b": Use(1, 1)}, 180.0)
    assert (found["a"].samples, found["b"].samples) == (1, 3)


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": 0},
        {"weight": 0.0},
        {"weight": 11.0},
        {"weight": nan},
        {"cpu": UseSpread(-1.0, 0.0, 0.0)},
        {"cpu": UseSpread(1.0, nan, 0.0)},
        {"memory": UseSpread(1.0, 0.0, inf)},
    ],
)
def test_a_history_that_measurements_cannot_give_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        replace(KNOWN, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ['{"cotenant": {"useHistory": {"samples": 3}}}', '{"cotenant": {}}', "{}"])
def test_an_unusable_report_is_none(text: str) -> None:
    assert _history(msgspec.json.decode(text, type=ExtensionsPart)) is None


def test_a_negative_measurement_is_refused() -> None:
    with pytest.raises(InvalidInput):
        continued(KNOWN, Use(-1, 0), 0.0)
