"""Amplified nodes: what is a report of the kubelet, and amplification that ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cotenant.model.cluster.annotations import AMPLIFICATION_RATIO, RAW_ALLOCATABLE
from cotenant.services.reviewing.nodes import amplified_node


def _node(cpu: str, ratio: str | None, raw: str | None = None, capacity: str = "4") -> dict[str, Any]:
    annotations = {AMPLIFICATION_RATIO: ratio, RAW_ALLOCATABLE: raw}
    return {
        "metadata": {"annotations": {name: text for name, text in annotations.items() if text is not None}},
        "status": {"capacity": {"cpu": capacity}, "allocatable": {"cpu": cpu, "pods": "110"}},
    }


def _cpu(node: dict[str, Any]) -> str:
    return str(node["status"]["allocatable"]["cpu"])


def test_switched_off_and_on_again_does_not_add_up() -> None:
    ratio = '{"cpu":1.5}'
    on = amplified_node(_node("4", ratio), _node("4", None), by_own_kubelet=False).node
    assert _cpu(on) == "6"
    raw = on["metadata"]["annotations"][RAW_ALLOCATABLE]
    off = amplified_node(_node("6", None, raw), on, by_own_kubelet=False).node
    assert _cpu(off) == "4"
    assert RAW_ALLOCATABLE not in off["metadata"]["annotations"]
    assert _cpu(amplified_node(_node("4", ratio), off, by_own_kubelet=False).node) == "6"


def test_a_patch_of_the_kubelet_on_an_old_status_is_no_report_of_more_than_its_capacity() -> None:
    ratio, raw = '{"cpu":1.5}', json.dumps({"cpu": "4"})
    stored = _node("6", ratio, raw)
    assert _cpu(amplified_node(_node("6", ratio, raw), stored, by_own_kubelet=True).node) == "6"
    assert _cpu(amplified_node(_node("6", ratio, raw, capacity="6"), stored, by_own_kubelet=True).node) == "9"


def test_a_node_without_ratios_is_returned_as_it_is() -> None:
    node = _node("4", None)
    made = amplified_node(node, None, by_own_kubelet=True)
    assert (made.node is node, made.ignored) == (True, ())


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        ('{"cpu":0.5}', "cpu: 0.5: expected a number from 1 to 1000"),
        ('{"cpu":-1}', "cpu: -1: expected a number from 1 to 1000"),
        ('{"cpu":NaN}', "cpu: nan: expected"),
        ('{"cpu":Infinity}', "cpu: inf: expected"),
        ('{"cpu":1e300}', "cpu: 1e+300: expected"),
        ('{"cpu":1' + "0" * 400 + "}", "cpu: 1000"),
        ('{"cpu":true}', "cpu: True: expected"),
        ('{"cpu":null}', "cpu: None: expected"),
        ('{"cpu":"1.5"}', 'cpu: "1.5": expected'),
        ('{"cpu":', "expected a JSON object of ratios by resource"),
        ("[1.5]", "expected a JSON object of ratios by resource"),
        ("[" * 100_000, "expected a JSON object of ratios by resource"),
    ],
)
def test_a_ratio_that_cannot_be_used_counts_as_one(ratio: str, said: str) -> None:
    made = amplified_node(_node("4", ratio), _node("4", None), by_own_kubelet=True)
    assert _cpu(made.node) == "4"
    assert len(made.ignored) == 1
    assert said in made.ignored[0]
    # What was amplified before is taken back.
    stored = _node("6", '{"cpu":1.5}', json.dumps({"cpu": "4"}))
    back = amplified_node(_node("6", ratio, json.dumps({"cpu": "4"})), stored, by_own_kubelet=False)
    assert _cpu(back.node) == "4"


def test_one_bad_ratio_leaves_the_other() -> None:
    node = _node("4", '{"cpu":0.5,"memory":1.5}')
    node["status"]["allocatable"]["memory"] = "4Gi"
    made = amplified_node(node, None, by_own_kubelet=True)
    assert made.node["status"]["allocatable"] == {"cpu": "4", "memory": "6Gi", "pods": "110"}
    assert len(made.ignored) == 1


def test_raw_amounts_that_cannot_be_read_come_back_with_the_kubelets_report() -> None:
    ratio = '{"cpu":1.5}'
    for raw in ("{", '{"cpu":"x"}', '{"cpu":-1}', "7"):
        stored = _node("6", ratio, raw)
        by_other = amplified_node(_node("6", ratio, raw), stored, by_own_kubelet=False)
        assert (_cpu(by_other.node), len(by_other.ignored)) == ("6", 1)  # not amplified twice
        by_kubelet = amplified_node(_node("4", ratio, raw), stored, by_own_kubelet=True)
        assert (_cpu(by_kubelet.node), len(by_kubelet.ignored)) == ("6", 1)
        assert json.loads(by_kubelet.node["metadata"]["annotations"][RAW_ALLOCATABLE]) == {"cpu": "4"}


def test_amounts_that_cannot_be_amplified_are_stored_as_written() -> None:
    for cpu in ("x", "-1", str(2**52)):
        node = _node(cpu, '{"cpu":1000}')
        made = amplified_node(node, None, by_own_kubelet=False)
        assert made.node is node
        assert "stored as it was written" in made.ignored[0]
