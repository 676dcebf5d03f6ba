"""Raw and amplified allocatable against upstream's cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.reading import no_matter, one_of, set_amounts

from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.amplification import amplification_ratios, amplify, kubelet_changed


def _names(raw: dict[str, int] | None) -> dict[str, int] | None:
    amounts = set_amounts(raw).items()
    return None if raw is None else {("cpu" if name == "cpu_m" else name): amount for name, amount in amounts}


def _keys(amounts: Any) -> dict[str, int] | None:
    return None if amounts is None else {("cpu_m" if name == "cpu" else name): n for name, n in amounts.items()}


def _ratios(raw: dict[str, float] | None) -> dict[str, float] | None:
    ratios = set_amounts(raw).items()
    return None if raw is None else {("cpu" if name == "cpu_m" else name): ratio for name, ratio in ratios}


def node_status_update(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """One write without an author: the kubelet's where CPU or memory changed. A node is amplified when its status
    is updated.
    """
    node = case.given["node"]
    allocatable, raw = _names(node["allocatable"]), _names(node["raw"])
    if one_of(case.given, "operation", ("create", "update"), "update") == "create" or allocatable is None:
        no_matter(node, "ratio")
        no_matter(case.given, "old_allocatable")
        yield "allocatable", case.expect["allocatable"], _keys(allocatable)
        yield "raw", case.expect["raw"], _keys(raw)
        return
    by_kubelet = kubelet_changed(_names(case.given["old_allocatable"]), allocatable)
    got = amplify(allocatable, _ratios(node["ratio"]), raw, by_kubelet=by_kubelet)
    yield "error", case.expect["error"], False
    yield "allocatable", case.expect["allocatable"], _keys(got.allocatable)
    yield "raw", case.expect["raw"], _keys(got.raw)


def changed(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Whether a write counts as the kubelet's, where nobody says."""
    yield "changed", case.expect["changed"], kubelet_changed(_names(case.given["old"]), _names(case.given["new"]))


def amplification_sequence(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Writes in order. One that changes resources which no kubelet reports is another writer's."""
    allocatable: dict[str, int] = {}
    raw: dict[str, int] | None = None
    after = []
    for step in case.given["steps"]:
        report = _names(step["report"])
        other = {"batch-cpu", "batch-memory"}
        by_kubelet = report is not None and (
            not allocatable or all(report.get(name) == allocatable.get(name) for name in other)
        )
        got = amplify(report or allocatable, _ratios(step["ratio"]), raw, by_kubelet=by_kubelet)
        allocatable, raw = dict(got.allocatable), None if got.raw is None else dict(got.raw)
        after.append({"allocatable": _keys(allocatable), "raw": _keys(raw)})
    yield "after", case.expect["after"], after


def amplification_ratio(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """The ratios to annotate."""
    try:
        ratio = amplification_ratios(_ratios(case.given["configured"]), case.given["cpu_normalization_ratio"])
    except InvalidInput:
        yield "error", case.expect["error"], True
        return
    yield "error", case.expect["error"], False
    yield "ratio", case.expect["ratio"], ratio


KINDS = {
    "node_status_update": node_status_update,
    "kubelet_changed": changed,
    "amplification_sequence": amplification_sequence,
    "amplification_ratio": amplification_ratio,
}
