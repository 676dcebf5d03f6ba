"""What is written on a node, when, and what its resources are then, against upstream's cases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import nan
from typing import Any

from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.policy.overcommit.amplification import normalization_ratio, normalized
from cotenant.policy.overcommit.facts import Amount, Term
from cotenant.policy.overcommit.strategy import is_enabled, read_config, strategy_of
from cotenant.policy.overcommit.writing import (
    BATCH,
    LENT,
    Adjustments,
    adjusted,
    differs,
    labels_differ,
    resources,
    status_is_due,
)


def _lent(raw: dict[str, int] | None) -> dict[str, int] | None:
    return None if raw is None else {name: amount for name, amount in raw.items() if name in LENT}


def resource_diff(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Whether two sets of amounts differ enough."""
    given = case.given
    yield "write", case.expect["write"], differs(given["old"], given["new"], given["threshold"])


def _is_due(given: dict[str, Any], since_s: float) -> bool:
    strategy = given["strategy"]
    return status_is_due(
        _lent(given["old"]),
        _lent(given.get("new", given.get("computed"))),
        strategy["diff_threshold"],
        since_s,
        strategy["update_time_threshold_s"],
    )


def node_write_when(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Whether the status, and whether the metadata is written."""
    given = case.given
    since_s = given["seconds_since_own_write"]
    yield "status", case.expect["status"], _is_due(given, nan if since_s is None else since_s)
    managed = tuple(given.get("managed_labels", ()))
    yield "meta", case.expect["meta"], labels_differ(managed, given.get("old_labels", {}), given.get("new_labels", {}))


def node_write(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """The node after one round; a node that is gone is no error."""
    given = case.given
    if not given.get("node_exists", True):
        after = None
    else:
        after = resources(given["old"], given["computed"]) if _is_due(given, 0.0) else given["old"]
    yield "error", case.expect["error"], False
    yield "after", case.expect["after"], after
    if "labels" in case.expect:
        labels = given["computed_labels"]
        yield "labels", case.expect["labels"], labels if labels_differ(tuple(labels), {}, labels) else {}


def node_prepare(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """The node's resources after normalization and third parties."""
    given = case.given
    ratio = given.get("cpu_normalization_ratio")
    by = Adjustments(normalization_ratio(ratio) if ratio else None, given.get("third_party_batch"))
    plain = {
        name: Amount(name, "given", amount, (Term("given", amount),)) for name, amount in given["computed"].items()
    }
    final = {name: adjusted(amount, by).value if name in BATCH else amount.value for name, amount in plain.items()}
    for field, present in given["node"].items():
        yield f"node.{field}", case.expect["node"][field], resources(present, final)
    if "origin_allocatable" in case.expect:
        before = Adjustments(by.normalization)
        origin = {name: adjusted(amount, before).value for name, amount in plain.items()}
        yield "origin_allocatable", case.expect["origin_allocatable"], origin


def colocation_disabled(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Whether nothing is lent on the node."""
    raw, labels = case.given["config"], case.given["node_labels"]
    config = None if raw is None else read_config(json.dumps(raw))
    if config is None:
        enabled = False
    else:
        enabled = is_enabled(config, strategy_of(config, Labels.of(labels) if labels else NO_LABELS, {}).strategy)
    yield "disabled", case.expect["disabled"], not enabled


def zones_write(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """The zones' resources; amounts of zones go with the node's."""
    given = case.given
    ratio = given.get("cpu_normalization_ratio")
    parsed = normalization_ratio(ratio) if ratio else None
    computed: list[dict[str, int | None]] = given["computed_zones"] or [dict.fromkeys(BATCH) for _ in given["zones"]]
    got = [
        resources(
            zone,
            {
                name: normalized(amount, parsed) if name == BATCH[0] and amount is not None else amount
                for name, amount in amounts.items()
            },
        )
        for zone, amounts in zip(given["zones"], computed, strict=True)
    ]
    yield "zones", case.expect["zones"], got


KINDS = {
    "resource_diff": resource_diff,
    "node_write_when": node_write_when,
    "node_write": node_write,
    "node_prepare": node_prepare,
    "colocation_disabled": colocation_disabled,
    "zones_write": zones_write,
}
