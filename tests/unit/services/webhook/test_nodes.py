"""Amplified nodes: what is a report of the kubelet, and amplification that ends."""

from __future__ import annotations

import json
from typing import Any

from cotenant.model.cluster.annotations import AMPLIFICATION_RATIO, RAW_ALLOCATABLE
from cotenant.services.webhook.nodes import amplified_node


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
    on = amplified_node(_node("4", ratio), _node("4", None), by_own_kubelet=False)
    assert _cpu(on) == "6"
    raw = on["metadata"]["annotations"][RAW_ALLOCATABLE]
    off = amplified_node(_node("6", None, raw), on, by_own_kubelet=False)
    assert _cpu(off) == "4"
    assert RAW_ALLOCATABLE not in off["metadata"]["annotations"]
    assert _cpu(amplified_node(_node("4", ratio), off, by_own_kubelet=False)) == "6"


def test_a_patch_of_the_kubelet_on_an_old_status_is_no_report_of_more_than_its_capacity() -> None:
    ratio, raw = '{"cpu":1.5}', json.dumps({"cpu": "4"})
    stored = _node("6", ratio, raw)
    assert _cpu(amplified_node(_node("6", ratio, raw), stored, by_own_kubelet=True)) == "6"
    assert _cpu(amplified_node(_node("6", ratio, raw, capacity="6"), stored, by_own_kubelet=True)) == "9"


def test_a_node_without_ratios_is_returned_as_it_is() -> None:
    node = _node("4", None)
    assert amplified_node(node, None, by_own_kubelet=True) is node
