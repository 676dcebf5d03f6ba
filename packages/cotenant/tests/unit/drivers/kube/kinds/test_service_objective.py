"""ServiceObjectives as they are written, and those that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.drivers.kube.kinds.custom.service_objective import budget_ppm, read_spec, window_s
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.replica_signal import MaxAction
from cotenant.model.traces.model_server import GoalSource, ModelGoal, ModelMeasure
from cotenant.model.traces.objective import AlertSeverity, Indicator

SPEC: dict[str, Any] = {
    "service": {"namespace": "shop", "name": "cart", "operation": "GET /cart"},
    "indicator": {"latency": {"below": "200ms"}},
    "target": "99.9",
    "window": "28d",
    "alerting": {"severities": {"fast": "page", "slow": ""}, "minEvents": 20},
    "protect": {"guard": True, "maxAction": "evict"},
}
LEAST: dict[str, Any] = {"service": {"name": "cart"}, "indicator": {"errors": {}}, "target": 99}


def test_every_field() -> None:
    found = read_spec("ns", "cart", SPEC, uid="u", generation=3)
    assert found.wrong == ()
    assert (found.key, found.qualified_service, found.operation) == ("ns/cart", "shop/cart", "GET /cart")
    assert (found.indicator, found.threshold_us, found.budget_ppm) == (Indicator.LATENCY, 200_000, 1000)
    assert (found.window_s, found.labels, found.min_events) == (28 * 86_400, {AlertSeverity.FAST: "page"}, 20)
    assert (found.guard, found.max_action, found.uid, found.generation) == (True, MaxAction.EVICT, "u", 3)


def test_what_is_left_out_has_defaults() -> None:
    found = read_spec("ns", "cart", LEAST)
    assert found.wrong == ()
    assert (found.qualified_service, found.indicator, found.max_action) == ("ns/cart", Indicator.ERRORS, MaxAction.CAP)
    assert found.labels == {AlertSeverity.FAST: "critical", AlertSeverity.SLOW: "warning"}
    assert read_spec("ns", "cart", {**LEAST, "service": {"name": "c", "namespace": ""}}).qualified_service == "c"
    assert read_spec("ns", "cart", {**LEAST, "alerting": {"disabled": True}}).labels == {}


@pytest.mark.parametrize(
    ("target", "budget"),
    [("99.9", 1000), (99.9, 1000), (99, 10_000), ("99.99%", 100), ("99.9999", 1), (50, 500_000), ("0.5", 995_000)],
)
def test_a_target_is_exact(target: object, budget: int) -> None:
    assert budget_ppm(target, "target") == budget


@pytest.mark.parametrize(
    "target", [100, 0, -1, "99.99999", "1e400", "1e-400", "NaN", "inf", None, True, [], {}, "", "ninety", 10**400]
)
def test_an_absurd_target_is_refused(target: object) -> None:
    with pytest.raises(InvalidInput):
        budget_ppm(target, "target")


@pytest.mark.parametrize("target", [1, 1.0, "1.0", 0.999, "0.999", "0.99%", 0.9])
def test_a_target_given_as_a_share_is_refused_with_the_percent_that_is_expected(target: object) -> None:
    objective = read_spec("shop", "cart", {**LEAST, "target": target})
    assert objective.wrong == (
        f'spec.target: {target}: expected percent above 0 and below 100, such as "99.9"; '
        "0.9 to 1 is taken for a share: 0.999 is 99.9",
    )


@pytest.mark.parametrize(("text", "seconds"), [("28d", 2_419_200), ("4w", 2_419_200), ("1h", 3600), ("36h", 129_600)])
def test_windows(text: str, seconds: int) -> None:
    assert window_s(text, "window") == seconds


@pytest.mark.parametrize("text", ["1m", "91d", "999999w", "", "-1d", "1.5d", "d", None, 28, "1e9h", "9" * 400 + "h"])
def test_an_absurd_window_is_refused(text: object) -> None:
    with pytest.raises(InvalidInput):
        window_s(text, "window")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"service": {}}, "spec.service.name"),
        ({"service": {"name": ""}}, "spec.service.name"),
        ({"service": {"name": "x" * 201}}, "spec.service.name"),
        ({"service": None}, "spec.service"),
        ({"indicator": {}}, "spec.indicator"),
        ({"indicator": {"latency": {"below": "1ms"}, "errors": {}}}, "spec.indicator"),
        ({"indicator": {"latency": {"below": "0s"}}}, "spec.indicator.latency.below"),
        ({"indicator": {"latency": {"below": "2h"}}}, "spec.indicator.latency.below"),
        ({"indicator": {"latency": {}}}, "spec.indicator.latency.below"),
        ({"indicator": {"selfReported": "p50"}}, "spec.indicator.selfReported"),
        ({"indicator": {"saturation": {}}}, "spec.indicator"),
        ({"indicator": {"modelServer": {}}}, "spec.indicator.modelServer"),
        ({"indicator": {"modelServer": {"model": "llama"}}}, "spec.indicator.modelServer"),
        ({"indicator": {"modelServer": {"ttft": "1s"}}}, "spec.indicator.modelServer"),
        ({"indicator": {"modelServer": {"timeToFirstToken": 500}}}, "spec.indicator.modelServer.timeToFirstToken"),
        ({"indicator": {"modelServer": {"queueTime": "1s", "source": "logs"}}}, "spec.indicator.modelServer.source"),
        ({"indicator": {"modelServer": {"queueTime": "1s", "model": 3}}}, "spec.indicator.modelServer.model"),
        (
            {"indicator": {"modelServer": {"queueTime": "1s", "timeToFirstToken": "1s"}}},
            "spec.indicator.modelServer",
        ),
        (
            {"indicator": {"modelServer": {"interTokenLatency": "50ms", "source": "spans"}}},
            "spec.indicator.modelServer",
        ),
        ({"alerting": {"minEvents": 0}}, "spec.alerting.minEvents"),
        ({"alerting": {"severities": {"medium": "x"}}}, "spec.alerting.severities"),
        ({"protect": {"maxAction": "kill"}}, "spec.protect.maxAction"),
        ({"protect": {"guard": "yes"}}, "spec.protect.guard"),
    ],
)
def test_an_unusable_field_is_named(change: dict[str, Any], field: str) -> None:
    wrong = read_spec("ns", "cart", {**SPEC, **change}).wrong[0]
    assert wrong.startswith(f"{field}: ")


def test_a_model_server_s_objective() -> None:
    limits = {"timeToFirstToken": "500ms", "timePerOutputToken": "50ms", "source": "spans", "model": "llama"}
    found = read_spec("shop", "llm", {**SPEC, "indicator": {"modelServer": limits}})
    ttft, tpot = ModelMeasure.TIME_TO_FIRST_TOKEN, ModelMeasure.TIME_PER_OUTPUT_TOKEN
    assert (found.wrong, found.threshold_us, found.is_of_spans) == ((), None, True)
    assert found.goal == ModelGoal({ttft: 500_000, tpot: 50_000}, GoalSource.SPANS, "llama")


def test_a_single_limit_is_a_threshold_and_counted_from_metrics() -> None:
    found = read_spec("shop", "llm", {**SPEC, "indicator": {"modelServer": {"queueTime": "300ms"}}})
    assert (found.wrong, found.threshold_us, found.is_of_spans) == ((), 300_000, False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@given(st.fixed_dictionaries({}, optional=dict.fromkeys((*SPEC, "other"), JSON)) | JSON)
def test_any_spec_is_read_or_refused_in_words(spec: object) -> None:
    found = read_spec("ns", "cart", spec)
    if not found.wrong:
        assert 0 < found.budget_ppm < 10**6
        assert found.service
