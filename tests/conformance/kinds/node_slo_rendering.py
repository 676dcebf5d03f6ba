"""NodeSLO rendered from the ConfigMap, against upstream's cases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cotenant.model.cluster.labels import Labels
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
    wanted = case.expect["merged"]
    try:
        config = read_part(part, _text(given["value"]))
        yield "error", case.expect["error"], False
    except InvalidInput:
        config = PartConfig(given["previous"]["cluster"])
        yield "error", case.expect["error"], True
    yield "merged.cluster", wanted["cluster"], config.cluster
    selectors = [read_selector(each["selector"], "") for each in wanted["nodes"]]
    yield "merged.selectors", selectors, [each.selector for each in config.nodes]
    yield "merged.nodes", [each["value"] for each in wanted["nodes"]], [each.value for each in config.nodes]


def part_select(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """One part for one node."""
    given = case.given
    raw, node = given["config"], given["node"]
    nodes = tuple(NodePart(read_selector(each["selector"], ""), each["value"]) for each in raw["nodes"])
    value, _ = select(
        PART_BY_NAME[given["part"]], PartConfig(raw["cluster"], nodes), Labels.of(node["labels"]), node["annotations"]
    )
    yield "spec", case.expect["spec"], value


def _data(raw: dict[str, Any] | None) -> dict[str, str] | None:
    return None if raw is None else {key: _text(value) or "" for key, value in raw.items()}


def node_slo_sync(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """One ConfigMap event."""
    old = SloConfig({name: PartConfig(value) for name, value in case.given["old_cluster"].items()})
    new = read_slo_config(_data(case.given["config_map"]), old)
    yield "changed", case.expect["changed"], new != old
    yield "available", case.expect["available"], True
    yield "cluster", case.expect["cluster"], {name: part.cluster for name, part in new.parts.items()}


def node_slo(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """The whole spec of one node."""
    node = case.given["node"]
    config = read_slo_config(_data(case.given["config_map"]), DEFAULT_CONFIG)
    spec = render(config, Labels.of(node["labels"]), node["annotations"]).spec
    yield "spec", case.expect["spec"], {part.name: spec[part.field] for part in PARTS}


KINDS = {
    "part_merge": part_merge,
    "part_select": part_select,
    "node_slo_sync": node_slo_sync,
    "node_slo": node_slo,
}
