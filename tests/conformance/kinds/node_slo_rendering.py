"""NodeSLO rendered from the ConfigMap, against upstream's cases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.conformance.reading import Unreadable, no_matter, only, plain

from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.node_slo import (
    DEFAULT_CONFIG,
    PART_BY_NAME,
    PARTS,
    NodePart,
    PartConfig,
    SloConfig,
    read_part,
    read_slo_config,
    render,
    select,
)
from cotenant.policy.overcommit.selection import read_selector


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) or value is None else json.dumps(value)


def part_merge(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """One key of the ConfigMap."""
    given = case.given
    part = PART_BY_NAME[given["part"]]
    if given["key"] not in (None, part.key):
        raise Unreadable(f"the key of the part {part.name} is {part.key!r}, not {given['key']!r}")
    wanted, before = plain(case.expect["merged"]), only(given["previous"], "cluster", "nodes")
    before = before or {"cluster": part.defaults}
    try:
        config = read_part(part, _text(plain(given["value"])))
        yield "error", case.expect["error"], False
    except InvalidInput:
        config = PartConfig(before["cluster"], _nodes(before))
        yield "error", case.expect["error"], True
    yield "merged.cluster", wanted["cluster"], config.cluster
    selectors = [read_selector(entry["selector"], "") for entry in wanted["nodes"]]
    yield "merged.selectors", selectors, [node.selector for node in config.nodes]
    yield "merged.nodes", [entry["value"] for entry in wanted["nodes"]], [node.value for node in config.nodes]


def part_select(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """One part for one node."""
    given = case.given
    part, raw, node = PART_BY_NAME[given["part"]], only(given["config"], "cluster", "nodes"), _node(given)
    config = PartConfig(raw.get("cluster"), _nodes(raw))
    value, _ = select(part, config, Labels.of(node.get("labels") or {}), _notes(node))
    yield "spec", case.expect["spec"], value


def _nodes(raw: dict[str, Any]) -> tuple[NodePart, ...]:
    entries = [only(entry, "name", "selector", "value") for entry in raw.get("nodes") or ()]
    return tuple(NodePart(_selector(entry.get("selector")), entry.get("value")) for entry in entries)


def _selector(raw: Any) -> LabelSelector | None:
    """One that cannot be read selects nothing. Here such a ConfigMap is refused; upstream it is in force."""
    try:
        return read_selector(raw, "")
    except InvalidInput:
        return None


def _node(given: dict[str, Any]) -> dict[str, Any]:
    return only(given["node"], "name", "labels", "annotations")


def _notes(node: dict[str, Any]) -> dict[str, str]:
    """Annotations; they may be given decoded."""
    return {name: _text(value) or "" for name, value in (node.get("annotations") or {}).items()}


def _data(raw: dict[str, Any] | None) -> dict[str, str] | None:
    return None if raw is None else {key: _text(value) or "" for key, value in raw.items() if value is not None}


def node_slo_sync(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """One ConfigMap event."""
    given = case.given
    before = plain(given["old_cluster"])
    if before is not None:
        only(before, *PART_BY_NAME)
    old = DEFAULT_CONFIG if before is None else SloConfig({name: PartConfig(value) for name, value in before.items()})
    no_matter(given, "old_available")  # the built-in values are there from the start
    new = read_slo_config(_data(plain(given["config_map"])), old)
    yield "changed", case.expect["changed"], before is None or new != old  # None: nothing was known
    yield "available", case.expect["available"], True
    yield "cluster", case.expect["cluster"], {name: part.cluster for name, part in new.parts.items()}


def node_slo(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """The whole spec of one node."""
    node = _node(case.given)
    config = read_slo_config(_data(plain(case.given["config_map"])), DEFAULT_CONFIG)
    spec = render(config, Labels.of(node.get("labels") or {}), _notes(node)).spec
    yield "spec", plain(case.expect["spec"]), {part.name: spec[part.field] for part in PARTS}


KINDS = {
    "part_merge": part_merge,
    "part_select": part_select,
    "node_slo_sync": node_slo_sync,
    "node_slo": node_slo,
}
