"""The extender protocol: every pitfall that a real kube-scheduler punishes."""

import json
from typing import Any

import pytest
from tests.fakes.servers.extender_forms import GIB, NOW, Known, by_name, by_object, node, pod, report, written

from cotenant.model.errors import InvalidInput


def test_names_that_pass_come_back_and_the_other_list_is_null() -> None:
    known = Known(report("a"), report("b"))
    answer = known.filter(by_name(["b", "a", "never-heard-of"]))
    assert answer["NodeNames"] == ["b", "a", "never-heard-of"]
    assert answer["Nodes"] is None
    assert answer["FailedNodes"] == {}
    assert answer["FailedAndUnresolvableNodes"] == {}
    assert answer["Error"] == ""


def test_a_refused_node_is_told_with_its_figures() -> None:
    known = Known(report("full", cpu_used=7.6), report("free"))
    answer = known.filter(by_name(["full", "free"]))
    assert answer["NodeNames"] == ["free"]
    assert answer["FailedNodes"] == {
        "full": "cpu: pod asks 2, node has 0.4 of 8 cores unused (report 12 s old)",
    }


def test_both_resources_are_told() -> None:
    known = Known(report("full", cpu_used=7.0, memory_used=30.5 * GIB))
    assert known.filter(by_name(["full"]))["FailedNodes"]["full"] == (
        "cpu: pod asks 2, node has 1 of 8 cores unused; memory: pod asks 4Gi, node has 1.5Gi of 32Gi unused (report "
        "12 s old)"
    )


def test_many_refused_nodes_share_few_texts() -> None:
    # kube-scheduler writes every different text into the pod's condition: a thousand of them are 80 KB at every
    # attempt.
    known = Known(
        *(report(f"cpu{i}", cpu_used=7.0 + i / 100) for i in range(50)),
        *(report(f"memory{i}", memory_used=(30 + i / 100) * GIB) for i in range(50)),
    )
    names = [f"{kind}{i}" for kind in ("cpu", "memory") for i in range(50)]
    failed = known.filter(by_name(names))["FailedNodes"]
    assert list(failed) == names
    assert {failed[f"cpu{i}"] for i in range(50)} == {"cpu: pod asks 2, nodes have 0.51 to 1 cores unused"}
    assert {failed[f"memory{i}"] for i in range(50)} == {"memory: pod asks 4Gi, nodes have 1.5Gi to 2Gi unused"}


def test_when_nothing_passes_every_node_has_a_reason() -> None:
    known = Known(*(report(f"n{i}", cpu_used=8.0) for i in range(30)))
    names = [f"n{i}" for i in range(30)]
    answer = known.filter(by_name(names))
    assert answer["NodeNames"] == []
    assert list(answer["FailedNodes"]) == names
    assert all(answer["FailedNodes"].values())


def test_what_preemption_cannot_help_is_unresolvable() -> None:
    known = Known(report("small"), report("busy", cpu_used=8.0))
    answer = known.filter(by_name(["small", "busy", "unknown"], pod(cpu="9")))
    assert answer["NodeNames"] == ["unknown"]
    assert set(answer["FailedAndUnresolvableNodes"]) == {"small", "busy"}
    assert "asks 9, node has 7 of 8 cores" in answer["FailedAndUnresolvableNodes"]["small"]
    assert set(known.filter(by_name(["busy"], pod(cpu="3")))["FailedNodes"]) == {"busy"}


def test_the_edge_is_exact() -> None:
    known = Known(report("a", cpu_used=7.6, memory_used=28 * GIB))
    assert known.filter(by_name(["a"], pod("400m", "4Gi")))["NodeNames"] == ["a"]
    assert known.filter(by_name(["a"], pod("401m", "4Gi")))["NodeNames"] == []
    assert known.filter(by_name(["a"], pod("400m", str(4 * GIB + 1))))["NodeNames"] == []


def test_who_asks_nothing_is_not_refused_for_it() -> None:
    known = Known(report("over", cpu_used=9.5))
    assert known.filter(by_name(["over"], pod(cpu=None)))["NodeNames"] == ["over"]
    assert known.filter(by_name(["over"], pod("1m")))["NodeNames"] == []


def test_stale_reports_and_silence_never_rule_out() -> None:
    known = Known(report("stale", cpu_used=8.0, at_s=NOW - 120.5), report("fresh", cpu_used=8.0, at_s=NOW - 120))
    answer = known.filter(by_name(["stale", "fresh", "silent"]))
    assert answer["NodeNames"] == ["stale", "silent"]
    assert list(answer["FailedNodes"]) == ["fresh"]


def test_only_names_that_were_given() -> None:
    known = Known(report("a"), report("b"), report("c"))
    assert known.filter(by_name(["b"]))["NodeNames"] == ["b"]
    assert [name for name, _ in known.prioritize(by_name(["b"]))] == ["b"]


def test_a_name_given_twice_is_answered_once() -> None:
    # kube-scheduler adds scores up by host, so a second entry would double the node's.
    known = Known(report("a"), report("full", cpu_used=8.0))
    answer = known.filter(by_name(["a", "full", "a", "full"]))
    assert answer["NodeNames"] == ["a"]
    assert list(answer["FailedNodes"]) == ["full"]
    assert [name for name, _ in known.prioritize(by_name(["a", "full", "a"]))] == ["a", "full"]


def test_prioritize_is_a_bare_list_in_the_order_given() -> None:
    known = Known(report("a"))
    raw = json.loads(known.extender.prioritize(by_name(["x", "a", "y"]), NOW))
    assert isinstance(raw, list)
    assert [set(entry) for entry in raw] == [{"Host", "Score"}] * 3
    assert [entry["Host"] for entry in raw] == ["x", "a", "y"]
    assert all(type(entry["Score"]) is int and 0 <= entry["Score"] <= 10 for entry in raw)


def test_no_nodes() -> None:
    known = Known()
    assert known.filter(by_name([]))["NodeNames"] == []
    assert known.prioritize(by_name([])) == []


@pytest.mark.parametrize("name", ['quote"d', "back\\slash", "ünïcode", "a" * 253, "/", ""])
def test_names_are_data(name: str) -> None:
    known = Known(report("full", cpu_used=8.0))
    answer = known.filter(by_name([name, "full"]))
    assert answer["NodeNames"] == [name]
    assert known.prioritize(by_name([name]))[0][0] == name


def test_score_scales() -> None:
    # 0 + 0.9 x 40 + 15 + (1 - 30/120) x 20 - 0.5 x 15 = 58.5
    told = report("a", cpu_used=0.8, memory_used=3.2 * GIB)
    assert Known(told, score_max=100).prioritize(by_name(["a"])) == [("a", 58)]
    assert Known(told).prioritize(by_name(["a"])) == [("a", 6)]
    assert Known(told, score_max=50).prioritize(by_name(["a"])) == [("a", 29)]
    with pytest.raises(InvalidInput):
        Known(score_max=0)
    with pytest.raises(InvalidInput):
        Known(score_max=101)


def test_a_list_is_remembered_but_not_believed() -> None:
    known = Known(report("a", cpu_used=8.0), report("b"))
    body = by_name(["a", "b", "late"])
    assert known.filter(body)["NodeNames"] == ["b", "late"]
    known.mirror.report_received(report("a", at_s=NOW - 5))
    known.mirror.report_received(report("late", cpu_used=8.0))
    assert known.filter(body)["NodeNames"] == ["a", "b"]
    after = by_name(["a", "b"])
    before = known.prioritize(after)
    known.mirror.report_received(report("b", at_s=NOW, latency_p99_ms=120.0, violation=1.0))
    assert known.prioritize(after)[0] == before[0]
    assert known.prioritize(after)[1][1] < before[1][1]


def test_full_nodes_come_back_byte_by_byte() -> None:
    known = Known(report("full", cpu_used=8.0))
    nodes = [node("a"), node("full"), node("b")]
    # Spacing and order of keys as no encoder of ours would write them.
    items = [json.dumps(entry, indent=1).encode() for entry in nodes]
    body = (
        b'{"NodeNames":null,"Nodes":{"metadata":{},"items":[' + b",".join(items) + b']},"Pod":' + written(pod()) + b"}"
    )
    raw = known.extender.filter(body, NOW)
    answer = json.loads(raw)
    assert answer["NodeNames"] is None
    assert answer["Nodes"]["items"] == [nodes[0], nodes[2]]
    assert items[0] + b"," + items[2] in raw
    assert list(answer["FailedNodes"]) == ["full"]
    everything = known.extender.filter(by_object([node("a"), node("b")]), NOW)
    assert json.loads(everything)["Nodes"]["items"] == [node("a"), node("b")]


def test_full_nodes_without_report_are_judged_by_allocatable() -> None:
    known = Known()
    answer = known.filter(by_object([node("small", cpu="1"), node("large")]))
    assert [entry["metadata"]["name"] for entry in answer["Nodes"]["items"]] == ["large"]
    assert answer["FailedAndUnresolvableNodes"] == {
        "small": "cpu: pod asks 2, node has 1 of 1 cores allocatable (no fresh report)"
    }
    # What was learnt from full nodes is known by name too, and a new version is read anew.
    assert known.filter(by_name(["small"]))["NodeNames"] == []
    known.filter(by_object([node("small", cpu="4", version="6")]))
    assert known.filter(by_name(["small"]))["NodeNames"] == ["small"]


def test_full_nodes_are_scored_by_name() -> None:
    known = Known(report("a"))
    assert [name for name, _ in known.prioritize(by_object([node("b"), node("a"), node("b")]))] == ["b", "a"]


@pytest.mark.parametrize(
    "bad",
    [
        {"metadata": {"name": "odd"}, "status": {"allocatable": {"cpu": "many", "memory": "1Gi"}}},
        {"metadata": {"name": "odd", "labels": 7}, "status": {}},
    ],
)
def test_a_node_that_cannot_be_read_passes(bad: dict[str, Any]) -> None:
    known = Known()
    assert known.filter(by_object([bad, node("a")]))["Nodes"]["items"] == [bad, node("a")]


DEEP = b'{"Pod":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b',"NodeNames":["a"]}'
MALFORMED = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"text"',
    b"\xff\xfe",
    b"{}",
    b'{"Pod":null,"NodeNames":["a"]}',
    b'{"Pod":7,"NodeNames":["a"]}',
    b'{"Pod":{"spec":"text"},"NodeNames":["a"]}',
    b'{"Pod":{},"NodeNames":"a"}',
    b'{"Pod":{},"NodeNames":[1]}',
    b'{"Pod":{},"NodeNames":null,"Nodes":null}',
    b'{"Pod":{},"Nodes":[]}',
    b'{"Pod":{},"Nodes":{"items":[7]}}',
    b'{"Pod":{},"Nodes":{"items":[{}]}}',
    b'{"pod":{},"nodenames":["a"]}',
    b'{"Pod":{"metadata":' + b"[" * 100_000 + b"]" * 100_000 + b'},"NodeNames":["a"]}',
    DEEP,
]


@pytest.mark.parametrize("body", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_requests_are_answered_with_an_error(body: bytes) -> None:
    known = Known(report("a"))
    answer = known.filter(body)
    assert answer["Error"]
    assert answer["NodeNames"] is None
    assert "\n" not in answer["Error"]
    with pytest.raises(InvalidInput):
        known.extender.prioritize(body, NOW)
    assert known.extender.tally.errors == 1
    assert known.filter(by_name(["a"]))["NodeNames"] == ["a"]


def test_unknown_fields_are_skipped() -> None:
    known = Known(report("a"))
    body = json.loads(by_name(["a"], pod(workloadRef={"name": "x"}, somethingNew=[1, {"deep": [2]}])))
    body["Extra"] = {"a": [1, 2]}
    assert known.filter(written(body))["NodeNames"] == ["a"]


def test_a_pod_that_is_half_readable_is_judged_by_the_rest() -> None:
    known = Known(report("full", cpu_used=8.0))
    odd = pod(topologySpreadConstraints=[{"maxSkew": -3}], cpu="2", memory="lots")
    assert known.filter(by_name(["full"], odd))["Error"] == ""


def test_what_was_judged_is_counted() -> None:
    known = Known(report("a"), report("full", cpu_used=8.0))
    known.filter(by_name(["a", "full", "unknown"]))
    tally = known.extender.tally
    assert (tally.judged, tally.refused, tally.unknown, tally.errors) == (3, 1, 1, 0)
