"""What is written on a node, when, and what its resources are then, against upstream's cases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import ceil, nan
from typing import Any

from tests.conformance.reading import no_matter, plain, set_amounts

from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.policy.overcommit.amplification import normalization_ratio, normalized
from cotenant.policy.overcommit.facts import Amount, AmountTerm
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
    return None if raw is None else {name: ceil(amount) for name, amount in set_amounts(raw).items() if name in LENT}


def resource_diff(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Whether two sets of amounts differ enough."""
    given = case.given
    old, new = set_amounts(given["old"]), set_amounts(given["new"])
    yield "write", case.expect["write"], differs(old, new, given["threshold"])


def _is_due(given: dict[str, Any], since_s: float) -> bool:
    strategy = given.get("strategy", {})
    no_matter(strategy, "enable", "degrade_minutes")  # what was computed has gone through both
    return status_is_due(
        _lent(given["old"]),
        _lent(given["new"] if given["new"] is not None else given["computed"]),
        strategy.get("diff_threshold", 0.1),
        since_s,
        strategy.get("update_time_threshold_s", 300),
    )


def node_write_when(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Whether the status, and whether the metadata is written."""
    given = case.given
    since_s = given["seconds_since_own_write"]
    yield "status", case.expect["status"], _is_due(given, nan if since_s is None else since_s)
    managed = tuple(given.get("managed_labels", ()))
    old_labels, new_labels = plain(given.get("old_labels", {})), plain(given.get("new_labels", {}))
    yield "meta", case.expect["meta"], labels_differ(managed, old_labels, new_labels)


def node_write(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """The node after one round; a node that is gone is no error."""
    given = case.given
    since_s = given.get("seconds_since_own_write", 0.0)
    old, computed = set_amounts(given["old"]), plain(given.get("computed", {}))
    # What is computed here is whole; upstream rounds up when it writes.
    computed = {name: None if amount is None else ceil(amount) for name, amount in computed.items()}
    after = resources(old, computed) if _is_due(given, since_s) else old
    labels, before = plain(given.get("computed_labels", {})), plain(given.get("old_labels", {}))
    exists = given.get("node_exists", True)
    yield "error", case.expect["error"], False
    yield "after", case.expect["after"], after if exists else None
    yield "labels", case.expect["labels"], labels if exists and labels_differ(tuple(labels), before, labels) else {}


def node_prepare(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """The node's resources after normalization and third parties."""
    given = case.given
    ratio = given["cpu_normalization_ratio"]
    by = Adjustments(normalization_ratio(ratio) if ratio else None, set_amounts(given["third_party_batch"]) or None)
    computed = {
        name: None if amount is None else Amount(name, "given", amount, (AmountTerm("given", amount),))
        for name, amount in given.get("computed", {}).items()
    }
    final = {
        name: None if amount is None else adjusted(amount, by).value if name in BATCH else amount.value
        for name, amount in computed.items()
    }
    for field, present in given["node"].items():
        yield f"node.{field}", (case.expect["node"] or {}).get(field), resources(plain(present), final)
    before = Adjustments(by.normalization)
    origin = {
        name: 0 if amount is None else adjusted(amount, before).value
        for name, amount in computed.items()
        if name in BATCH
    }
    yield "origin_allocatable", case.expect["origin_allocatable"], origin


def colocation_disabled(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Whether nothing is lent on the node."""
    raw, labels = plain(case.given["config"]), plain(case.given["node_labels"])
    config = None if raw is None else read_config(json.dumps(raw))
    if config is None:
        enabled = False
    else:
        enabled = is_enabled(config, strategy_of(config, Labels.of(labels) if labels else NO_LABELS, {}).strategy)
    yield "disabled", case.expect["disabled"], not enabled


def zones_write(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """The zones' resources, written together when one of them differs enough."""
    given = case.given
    ratio = given["cpu_normalization_ratio"]
    parsed = normalization_ratio(ratio) if ratio else None
    zones = plain(given["zones"])
    computed: list[dict[str, int | None]] = plain(given["computed_zones"]) or [dict.fromkeys(BATCH) for _ in zones]
    got = [
        resources(
            zone,
            {
                name: normalized(amount, parsed) if name == BATCH[0] and amount is not None else amount
                for name, amount in amounts.items()
            },
        )
        for zone, amounts in zip(zones, computed, strict=True)
    ]
    before, after = (
        {(i, name): zone[name] for i, zone in enumerate(some) for name in BATCH if name in zone}
        for some in (zones, got)
    )
    is_due = differs(before, after, given.get("diff_threshold", 0.0))
    yield "zones", case.expect["zones"], got if is_due else zones


KINDS = {
    "resource_diff": resource_diff,
    "node_write_when": node_write_when,
    "node_write": node_write,
    "node_prepare": node_prepare,
    "colocation_disabled": colocation_disabled,
    "zones_write": zones_write,
}
