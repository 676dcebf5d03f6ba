"""The colocation strategy in force, by level, against upstream's cases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
from tests.conformance.reading import only, plain

from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.configuration import ColocationState, colocation_read
from cotenant.policy.overcommit.selection import read_selector
from cotenant.policy.overcommit.strategy import (
    ColocationConfig,
    ColocationStrategy,
    NodeStrategy,
    check,
    merge,
    read_strategy,
    strategy_of,
)


def _plain(strategy: ColocationStrategy | None) -> Any:
    return None if strategy is None else msgspec.json.decode(msgspec.json.encode(strategy))


def _selector(raw: Any) -> LabelSelector | None:
    """One that cannot be read selects nothing. Here such a ConfigMap is refused; upstream it is in force."""
    try:
        return read_selector(raw, "")
    except InvalidInput:
        return None


def strategy_for_node(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """The strategy of one node."""
    given = case.given
    raw, node = only(given["config"], "cluster", "node_configs"), only(given["node"], "name", "labels", "annotations")
    if given["config"] is None or given["node"] is None:
        yield "strategy", case.expect["strategy"], None
        return
    cluster = read_strategy(raw.get("cluster") or {}, "cluster")
    nodes = tuple(
        NodeStrategy(_selector(entry.get("selector")), merge(cluster, read_strategy(entry.get("strategy") or {}, "")))
        for entry in (only(entry, "name", "selector", "strategy") for entry in raw.get("node_configs") or ())
    )
    annotations = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in (node.get("annotations") or {}).items()
    }
    view = strategy_of(ColocationConfig(cluster, nodes), Labels.of(node.get("labels") or {}), annotations)
    yield "strategy", case.expect["strategy"], _plain(view.strategy)


def strategy_valid(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Whether values are in range."""
    strategy = plain(case.given["strategy"])
    valid = strategy is not None
    try:
        check(read_strategy(strategy or {}, "strategy"))
    except InvalidInput:
        valid = False
    yield "valid", case.expect["valid"], valid


def strategy_sync(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """One ConfigMap event."""
    given = case.given
    old = None if given["old"] is None else ColocationConfig(read_strategy(plain(given["old"]), "old"))
    value, exists = plain(given["value"]), given.get("config_map_exists", True)
    text = value if isinstance(value, str) or value is None else json.dumps(value)
    data = None if not exists else {} if text is None else {"colocation-config": text}
    before = ColocationState(old, bool(given["old_available"]))
    after = colocation_read(data, before)
    # Becoming available is a change of its own here; the case says it apart.
    yield "changed", case.expect["changed"], after.changed_from(ColocationState(old, after.is_available))
    yield "strategy", case.expect["strategy"], _plain(after.config.cluster) if after.config else None
    yield "available", case.expect["available"], after.is_available
    yield "error_status", case.expect["error_status"], bool(after.error)
    wanted = plain(case.expect["node_strategies"]) or []
    nodes = after.config.nodes if after.config else ()
    got = [
        {"selector": entry["selector"], "strategy": _plain(node.strategy)}
        for entry, node in zip(wanted, nodes, strict=True)
    ]
    yield "node_strategies", wanted, got


KINDS = {
    "strategy_for_node": strategy_for_node,
    "strategy_valid": strategy_valid,
    "strategy_sync": strategy_sync,
}
