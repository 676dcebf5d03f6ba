"""What each way of writing an objective becomes: its service, indicator, target and window, and what was guessed."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.objectives.converting import Converted, convert

BUCKET = 'h_duration_seconds_bucket{service="cart",le="0.3"}'
ERROR_NOTE = "errors are spans with status ERROR"
ONE = {"target": 0.99, "op": "lt", "value": 0.2}


def converted(*documents: dict[str, Any]) -> Converted:
    """The one objective of these documents."""
    (found,) = convert(documents)
    return found


def openslo(**spec: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "service": "cart",
        "indicator": {"spec": {"thresholdMetric": {"query": "y"}}},
        "timeWindow": [{"duration": "28d", "isRolling": True}],
        "objectives": [ONE],
        **spec,
    }
    spec = {key: value for key, value in given.items() if value is not None}
    return {"apiVersion": "openslo/v1", "kind": "SLO", "metadata": {"name": "cart", "namespace": "shop"}, "spec": spec}


def pyrra(indicator: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "pyrra.dev/v1alpha1",
        "kind": "ServiceLevelObjective",
        "metadata": {"name": "api"},
        "spec": {"target": "99", "window": "4w", "indicator": indicator, **spec},
    }


def sloth(*slos: Any, **fields: Any) -> dict[str, Any]:
    return {"version": "prometheus/v1", "service": "shop", "slos": list(slos), **fields}


def slo(queries: dict[str, Any], kind: str = "events", **fields: Any) -> dict[str, Any]:
    return {"name": "it", "objective": 99.9, "sli": {kind: queries}, **fields}


RATIO = {"spec": {"ratioMetric": {"bad": {"query": "bad_total"}, "total": {"query": BUCKET.replace("bucket", "x")}}}}
SLI = {"kind": "SLI", "apiVersion": "openslo/v1", "metadata": {"name": "quick"}, "spec": {"ratioMetric": {"q": BUCKET}}}
KEPT = {"apiVersion": "slo.cotenant.io/v1alpha1", "kind": "ServiceObjective", "metadata": {"name": "own"}, "spec": {}}
PLAIN = {"name": "cart"}
QUICK = {"latency": {"below": "200ms"}}

CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], tuple[str, ...]]] = {
    "an OpenSLO threshold is in seconds": (
        [openslo()],
        {"service": PLAIN, "indicator": QUICK, "target": "99", "window": "28d"},
        ("0.2 is taken as seconds",),
    ),
    "another organisation's version of OpenSLO": (
        [{**openslo(), "apiVersion": "openslo.com/v1"}],
        {"service": PLAIN, "indicator": QUICK, "target": "99", "window": "28d"},
        ("0.2 is taken as seconds",),
    ),
    "a target in percent": (
        [openslo(objectives=[{"targetPercent": 99.95, "value": 1}])],
        {"service": PLAIN, "indicator": {"latency": {"below": "1000ms"}}, "target": "99.95", "window": "28d"},
        ("1 is taken as seconds",),
    ),
    "no window": (
        [openslo(timeWindow=None)],
        {"service": PLAIN, "indicator": QUICK, "target": "99", "window": "28d"},
        ("0.2 is taken as seconds", "no timeWindow: 28d"),
    ),
    "a list of windows that has none": (
        [openslo(timeWindow=[])],
        {"service": PLAIN, "indicator": QUICK, "target": "99", "window": "28d"},
        ("0.2 is taken as seconds", "no timeWindow: 28d"),
    ),
    "a quarter of the calendar": (
        [openslo(timeWindow=[{"duration": "3M", "isRolling": False}])],
        {"service": PLAIN, "indicator": QUICK, "target": "99", "window": "90d"},
        ("0.2 is taken as seconds", "a calendar window becomes a rolling one of the same length"),
    ),
    "an OpenSLO ratio with its bad events": (
        [openslo(indicator=RATIO)],
        {"service": PLAIN, "indicator": {"latency": {"below": "300ms"}}, "target": "99", "window": "28d"},
        ("latency of the bucket le=0.3 s",),
    ),
    "an OpenSLO ratio of errors": (
        [openslo(indicator={"spec": {"ratioMetric": {"bad": {"query": "bad_total"}, "total": "all_total"}}})],
        {"service": PLAIN, "indicator": {"errors": {}}, "target": "99", "window": "28d"},
        (f"{ERROR_NOTE}, instead of bad_total",),
    ),
    "an OpenSLO ratio of good events": (
        [openslo(indicator={"spec": {"ratioMetric": {"good": "good_total", "total": "all_total"}}})],
        {"service": PLAIN, "indicator": {"errors": {}}, "target": "99", "window": "28d"},
        (ERROR_NOTE,),
    ),
    "an indicator beside the objective, and the service from its query": (
        [SLI, openslo(indicator=None, indicatorRef="quick", service=None)],
        {"service": PLAIN, "indicator": {"latency": {"below": "300ms"}}, "target": "99", "window": "28d"},
        ("latency of the bucket le=0.3 s", "service cart, from its query"),
    ),
    "Pyrra's latency in milliseconds": (
        [pyrra({"latency": {"success": {"metric": 'h_ms_bucket{job="api",le="250"}'}}})],
        {"service": {"name": "api"}, "indicator": {"latency": {"below": "250ms"}}, "target": "99", "window": "4w"},
        ("latency of the bucket le=250 ms", "service api, from its name"),
    ),
    "Pyrra's native histogram": (
        [pyrra({"latencyNative": {"latency": "120ms", "total": {"metric": 'h{service="cart",route="/a"}'}}})],
        {
            "service": {"name": "cart", "operation": "/a"},
            "indicator": {"latency": {"below": "120ms"}},
            "target": "99",
            "window": "4w",
        },
        ("service cart, from its query", "operation '/a': check that its spans have this name"),
    ),
    "Pyrra's ratio, which is named after no service": (
        [pyrra({"ratio": {"errors": {"metric": "e_total"}, "total": {"metric": "t_total"}}})],
        {"service": {"name": "api"}, "indicator": {"errors": {}}, "target": "99", "window": "4w"},
        (ERROR_NOTE, "service api, from its name"),
    ),
    "Pyrra's alerts that are on": (
        [pyrra({"ratio": {"errors": {"metric": 'e{job="cart"}'}}}, alerting={"disabled": False})],
        {"service": PLAIN, "indicator": {"errors": {}}, "target": "99", "window": "4w"},
        (ERROR_NOTE, "service cart, from its query"),
    ),
    "Sloth's raw ratio, both alerts off": (
        [
            sloth(
                slo(
                    {"error_ratio_query": "e / t"},
                    "raw",
                    alerting={"page_alert": {"disable": True}, "ticketAlert": {"disable": True}},
                )
            )
        ],
        {
            "service": {"name": "shop"},
            "indicator": {"errors": {}},
            "target": "99.9",
            "window": "30d",
            "alerting": {"severities": {"fast": "", "slow": ""}},
        },
        (f"{ERROR_NOTE}, instead of e / t",),
    ),
    "Sloth's alerts that are on": (
        [sloth(slo({"errorQuery": "e"}, alerting={"pageAlert": {"disable": False}, "ticketAlert": {"labels": {}}}))],
        {"service": {"name": "shop"}, "indicator": {"errors": {}}, "target": "99.9", "window": "30d"},
        (f"{ERROR_NOTE}, instead of e",),
    ),
    "Sloth as a Kubernetes object keeps its namespace": (
        [
            {
                "apiVersion": "sloth.slok.dev/v1",
                "kind": "PrometheusServiceLevel",
                "metadata": {"namespace": "shop"},
                "spec": {"slos": [slo({"error_query": 'e{job="cart",namespace="shop"}'})]},
            }
        ],
        {
            "service": {"name": "cart", "namespace": "shop"},
            "indicator": {"errors": {}},
            "target": "99.9",
            "window": "30d",
        },
        (f'{ERROR_NOTE}, instead of e{{job="cart",namespace="shop"}}', "service cart, from its query"),
    ),
}


@pytest.mark.parametrize(("documents", "spec", "notes"), CASES.values(), ids=CASES.keys())
def test_an_objective_becomes_what_it_says_and_each_guess_is_noted(
    documents: list[dict[str, Any]], spec: dict[str, Any], notes: tuple[str, ...]
) -> None:
    found = converted(*documents)
    assert found.manifest is not None, found.refused
    assert (found.manifest["apiVersion"], found.manifest["kind"]) == ("slo.cotenant.io/v1alpha1", "ServiceObjective")
    assert found.manifest["spec"] == spec
    assert found.notes == notes
    assert found.refused == ""


def test_names_are_those_of_kubernetes_and_a_namespace_is_kept() -> None:
    metadata = []
    for document in (
        openslo(),
        openslo(objectives=[ONE, ONE]),
        sloth(slo({"errorQuery": "e"}, name="Fast & Right!")),
        sloth({**slo({"errorQuery": 'e{service="x"}'}), "name": "alone"}, service=""),
        {**pyrra({"ratio": {"total": 'x{job="a"}'}}), "metadata": {"name": "-Api_1-", "namespace": ""}},
    ):
        metadata += [entry.manifest["metadata"] for entry in convert([document]) if entry.manifest is not None]
    assert metadata == [
        {"name": "cart", "namespace": "shop"},
        {"name": "cart-1", "namespace": "shop"},
        {"name": "cart-2", "namespace": "shop"},
        {"name": "shop-fast-right"},
        {"name": "alone"},
        {"name": "api-1"},
    ]
    assert [entry.source for entry in convert([openslo(objectives=[ONE, ONE]), sloth(slo({}))])] == [
        "OpenSLO cart-1",
        "OpenSLO cart-2",
        "Sloth it",
    ]


def test_one_that_is_an_objective_already_is_kept_as_it_is() -> None:
    found = converted(KEPT)
    assert (found.manifest, found.notes) == (KEPT, ("it is one already",))


def test_a_document_of_another_kind_beside_an_objective_is_passed_over() -> None:
    others = ({"kind": "Service"}, {"apiVersion": "openslo/v1", "kind": "AlertPolicy"}, {**KEPT, "kind": "Other"}, {})
    assert len(convert([*others, openslo()])) == 1
    with pytest.raises(InvalidInput, match=r"Service, slo\.cotenant\.io/v1alpha1 Other, a document without kind"):
        convert(others)
    with pytest.raises(InvalidInput, match="none"):
        convert([])


MATCHERS = [
    ('service_name="a",service="b",job="c"', {"name": "a"}),
    ('service="b",job="c"', {"name": "b"}),
    ('job="c",namespace="n"', {"name": "c", "namespace": "n"}),
    ('job="c",namespace="n",service_namespace="m"', {"name": "c", "namespace": "m"}),
    ('job="c",operation="o",span_name="s",handler="h",route="r"', {"name": "c", "operation": "o"}),
    ('job="c",span_name="s",handler="h",route="r"', {"name": "c", "operation": "s"}),
    ('job="c",handler="h",route="r"', {"name": "c", "operation": "h"}),
    ('job="c",route="r"', {"name": "c", "operation": "r"}),
    ('job="c"} / x{job="d",route="r"', {"name": "c", "operation": "r"}),  # the first of a label counts
]


@pytest.mark.parametrize(("matchers", "service"), MATCHERS)
def test_a_query_names_its_service_by_the_label_that_says_most(matchers: str, service: dict[str, str]) -> None:
    found = converted(sloth(slo({"errorQuery": f"x{{{matchers}}}"}), service=None))
    assert found.manifest is not None, found.refused
    assert found.manifest["spec"]["service"] == service


NO_SERVICE = "a service, or a query with a matcher of service or job"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no objectives": (openslo(objectives=None), "expected at least one"),
    "an objective that is a text": (openslo(objectives=["99"]), "objects"),
    "an indicator of neither form": (openslo(indicator={"spec": {"gauge": {}}}), "spec.indicator: gauge"),
    "an indicator of no form": (openslo(indicator={"spec": {}}), "spec.indicator: none"),
    "a target that is no number": (openslo(objectives=[{"target": "x", "value": 1}]), "a share above 0 and below 1"),
    "a target without end": (openslo(objectives=[{"target": "Infinity", "value": 1}]), "a share above 0 and below 1"),
    "a target of many digits": (openslo(objectives=[{"target": "1e-60", "value": 1}]), "a share above 0 and below 1"),
    "a threshold that is true": (openslo(objectives=[{"target": 0.9, "value": True}]), "a number"),
    "a threshold of nothing": (openslo(objectives=[{"target": 0.9, "value": 0}]), "seconds above 0"),
    "a threshold above an hour": (openslo(objectives=[{"target": 0.9, "value": 3601}]), "expected 1us to 1h"),
    "a threshold without end": (openslo(objectives=[{"target": 0.9, "value": 1e300}]), "seconds above 0"),
    "a threshold below a microsecond": (openslo(objectives=[{"target": 0.9, "value": 1e-7}]), "seconds above 0"),
    "two bounds": (
        sloth(slo({"errorQuery": 'h_bucket{le="0.1"} - h_bucket{le="0.2"}'})),
        "0.1, 0.2: expected one bound le",
    ),
    "a bucket of all": (sloth(slo({"errorQuery": 'h_seconds_bucket{le="+Inf"}'})), "a fixed bound le"),
    "no service": (sloth(slo({"errorQuery": "e"}), service=""), NO_SERVICE),
    "a name of signs": (
        {**pyrra({"ratio": {"t": 'x{job="a"}'}}), "metadata": {"name": "!!"}},
        "metadata.name: !!: expected a name",
    ),
    "a window that is a number": (pyrra({"ratio": {"t": 'x{job="a"}'}}, window=28), "a duration such as 28d"),
    "four months": (pyrra({"ratio": {"t": 'x{job="a"}'}}, window="4M"), "window"),
    "no target": (pyrra({"ratio": {"t": 'x{job="a"}'}}, target=None), "spec.target"),
    "no slos": (sloth(), "slos: none: expected at least one"),
    "an slo that is a text": (sloth("x"), "slos: x: expected objects"),
    "no events": (sloth({"name": "it", "objective": 99, "sli": {}}), "sli: none"),
}


@pytest.mark.parametrize(("document", "because"), REFUSED.values(), ids=REFUSED.keys())
def test_what_says_too_little_or_something_else_is_refused(document: dict[str, Any], because: str) -> None:
    found = converted(document)
    assert found.manifest is None
    assert because in found.refused


def test_a_file_has_at_most_a_thousand_objectives() -> None:
    assert len(convert([openslo(objectives=[ONE] * 1_000)])) == 1_000
    assert len(convert([openslo(objectives=[ONE] * 2_000)])) == 1_000
    with pytest.raises(InvalidInput, match="at most 1000 in a file"):
        convert([sloth(*[slo({"errorQuery": "e"})] * 999), openslo(objectives=[ONE, ONE])])


def test_queries_are_found_however_deep_a_source_lays_them_to_a_limit() -> None:
    def laid(depth: int) -> dict[str, Any]:
        source: Any = 'x{job="deep"}'
        for _ in range(depth):
            source = {"of": source}
        return sloth(slo({"errorQuery": "e", "more": [source]}), service="")

    assert converted(laid(7)).manifest is not None
    assert NO_SERVICE in converted(laid(12)).refused
