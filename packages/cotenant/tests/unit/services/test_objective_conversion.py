"""Objectives of OpenSLO, Pyrra and Sloth as ServiceObjectives."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cotenant.cli.main import main
from cotenant.model.errors import InvalidInput
from cotenant.services.objectives.converting import Converted, convert
from cotenant.services.objectives.files import documents, objectives_of, read_file

SLOTH = {
    "version": "prometheus/v1",
    "service": "shop",
    "slos": [
        {
            "name": "availability",
            "objective": 99.9,
            "sli": {"events": {"error_query": 'x{code=~"5.."}', "total_query": "x"}},
            "alerting": {"page_alert": {"disable": True}},
        }
    ],
}
OPENSLO: dict[str, Any] = {
    "apiVersion": "openslo/v1",
    "kind": "SLO",
    "metadata": {"name": "Cart latency"},
    "spec": {
        "service": "cart",
        "indicator": {"spec": {"thresholdMetric": {"metricSource": {"spec": {"query": "y"}}}}},
        "timeWindow": [{"duration": "28d", "isRolling": True}],
        "budgetingMethod": "Occurrences",
        "objectives": [{"target": 0.999, "op": "lte", "value": 0.2}],
    },
}
PYRRA: dict[str, Any] = {
    "apiVersion": "pyrra.dev/v1alpha1",
    "kind": "ServiceLevelObjective",
    "metadata": {"name": "api", "namespace": "shop"},
    "spec": {
        "target": "99",
        "window": "4w",
        "indicator": {"latency": {"success": {"metric": 'h_milliseconds_bucket{job="api",le="250",route="/a"}'}}},
        "alerting": {"disabled": True},
    },
}


def one(document: dict[str, Any]) -> Converted:
    (found,) = convert([document])
    return found


def spec_of(document: dict[str, Any]) -> Any:
    found = one(document)
    assert found.manifest is not None, found.refused
    return found.manifest["spec"]


def test_sloth() -> None:
    assert spec_of(SLOTH) == {
        "service": {"name": "shop"},
        "indicator": {"errors": {}},
        "target": "99.9",
        "window": "30d",
        "alerting": {"severities": {"fast": ""}},
    }
    as_kind = {"apiVersion": "sloth.slok.dev/v1", "kind": "PrometheusServiceLevel", "metadata": {}, "spec": SLOTH}
    assert spec_of(as_kind) == spec_of(SLOTH)


def test_openslo() -> None:
    found = one(OPENSLO)
    assert found.manifest is not None
    assert found.manifest["metadata"]["name"] == "cart-latency"
    assert found.manifest["spec"]["indicator"] == {"latency": {"below": "200ms"}}
    assert found.manifest["spec"]["target"] == "99.9"


def test_pyrra() -> None:
    assert spec_of(PYRRA) == {
        "service": {"name": "api", "operation": "/a"},
        "indicator": {"latency": {"below": "250ms"}},
        "target": "99",
        "window": "4w",
        "alerting": {"disabled": True},
    }


def changed(document: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**document, "spec": {**document["spec"], **spec}}


@pytest.mark.parametrize(
    ("document", "because"),
    [
        (changed(OPENSLO, budgetingMethod="Timeslices"), "time slices"),
        (changed(OPENSLO, budgetingMethod="RatioTimeslices"), "time slices"),
        (changed(OPENSLO, indicator=None, indicatorRef="gone"), "indicatorRef"),
        (changed(OPENSLO, objectives=[{"target": 1, "value": 1}]), "percent"),
        (changed(OPENSLO, objectives=[{"target": 0.9, "op": "gt", "value": 1}]), "lte or lt"),
        (changed(OPENSLO, objectives=[{"target": 0.9, "value": 1, "compositeWeight": 2}]), "composite"),
        (changed(OPENSLO, objectives=[]), "at least one"),
        (changed(PYRRA, indicator={"bool_gauge": {"metric": "up"}}), "sampled in time"),
        (changed(PYRRA, window="10m"), "window"),
        (changed(PYRRA, indicator={"latency": {"success": {"metric": 'a_bucket{le="0.-5"}'}}}), "a number"),
        (changed(PYRRA, indicator={"latency": {"success": {"metric": "a_bucket{}"}}}), "fixed bound"),
        ({**SLOTH, "slos": [{"name": "a", "objective": 99, "sli": {"plugin": {"id": "x"}}}]}, "plugin"),
    ],
)
def test_what_cannot_be_converted_is_refused_with_the_reason(document: dict[str, Any], because: str) -> None:
    found = one(document)
    assert found.manifest is None
    assert because in found.refused


def test_a_file_without_a_known_kind_is_refused() -> None:
    with pytest.raises(InvalidInput, match="an SLO of OpenSLO v1, Pyrra or Sloth"):
        convert([{"apiVersion": "v1", "kind": "Pod"}])


def test_the_command_prints_what_traces_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, result = tmp_path / "in.yaml", tmp_path / "out.yaml"
    source.write_text(yaml.safe_dump_all([SLOTH, OPENSLO, PYRRA, changed(OPENSLO, budgetingMethod="Timeslices")]))
    assert main(["objective", "convert", str(source)]) == 1
    said = capsys.readouterr()
    assert "Timeslices" in said.err
    result.write_text(said.out)
    assert [objective.key for objective in read_file(result)] == [
        "default/shop-availability",
        "default/cart-latency",
        "shop/api",
    ]
    assert main(["objective", "convert", str(source), "--json"]) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from([SLOTH, OPENSLO, PYRRA]), st.data())
def test_any_change_of_a_file_is_converted_or_refused(document: dict[str, Any], data: st.DataObject) -> None:
    paths = list(_paths(document))
    path = data.draw(st.sampled_from(paths))
    found = _with(document, path, data.draw(JSON))
    try:
        converted = convert([found])
    except InvalidInput:
        return
    for entry in converted:
        assert (entry.manifest is None) == bool(entry.refused)
        if entry.manifest is not None:
            objectives_of(iter([dict(entry.manifest)]), "converted")


def test_a_field_that_does_not_exist_is_refused_with_the_one_that_does() -> None:
    text = """
apiVersion: slo.cotenant.io/v1alpha1
kind: ServiceObjective
metadata: {name: cart}
spec:
  service: {name: cart}
  indicator: {latency: {below: 80ms}}
  target: "99.9"
  protect: {maxActoin: evict}
"""
    with pytest.raises(InvalidInput) as refused:
        objectives_of(documents(text, "file"), "file")
    assert "spec.protect.maxActoin" in str(refused.value)
    assert "maxAction exists" in str(refused.value)
    (found,) = objectives_of(documents(text.replace("maxActoin", "maxAction"), "file"), "file")
    assert found.max_action.value == "evict"


def test_a_service_without_a_name_is_refused_as_such() -> None:
    text = (
        "apiVersion: slo.cotenant.io/v1alpha1\nkind: ServiceObjective\nmetadata: {name: a}\nspec: {service: {name: "
        '""}, indicator: {latency: {below: 80ms}}, target: "99.9"}\n'
    )
    with pytest.raises(InvalidInput, match="text of 1 to 200 characters"):
        objectives_of(documents(text, "file"), "file")


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Any:
    if path:
        yield path
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield from _paths(value[key], (*path, key))


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = _with(value[path[0]], path[1:], new)
    return copied


@given(st.text(max_size=200) | st.binary(max_size=100).map(lambda part: part.decode("latin-1")))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        objectives_of(documents(text, "file"), "file")


@pytest.mark.parametrize(
    ("seconds", "below"),
    [
        (0.000001, "1us"),
        (0.0002, "200us"),
        (0.001, "1ms"),
        (1.5, "1500ms"),
        (0.0015, "1500us"),
        (3600, "3600000ms"),
    ],
)
def test_a_threshold_in_seconds_becomes_a_duration(seconds: float, below: str) -> None:
    objectives = [{"target": 0.999, "op": "lte", "value": seconds}]
    found = spec_of({**OPENSLO, "spec": {**OPENSLO["spec"], "objectives": objectives}})
    assert found["indicator"] == {"latency": {"below": below}}


@pytest.mark.parametrize("seconds", [0, -1, 0.0000001, 3601, 1_000_000, float("inf"), float("nan")])
def test_a_threshold_that_is_no_latency_is_refused(seconds: float) -> None:
    objectives = [{"target": 0.999, "op": "lte", "value": seconds}]
    found = one({**OPENSLO, "spec": {**OPENSLO["spec"], "objectives": objectives}})
    assert found.manifest is None
    assert "threshold" in str(found.refused) or "expected 1us to 1h" in str(found.refused)
