"""The NodeSLO of each node, rendered from the ConfigMap `slo-controller-config`.

Five keys, each with a cluster strategy and node strategies, become one object a node; one bad key must not stop the
others, and a bad value must not reach an agent. Each key is a part. A part that cannot be read keeps what was in force
(its defaults where nothing was) and is reported with field and value; an absent key means the defaults. Node strategies
are merged with the cluster's once, and a node takes the first that selects it. Maps merge by key, lists are replaced,
null and empty text keep the level below. Beyond upstream: a bad bandwidth annotation is ignored with a reason, where
upstream drops the whole part; percents are range-checked.
Limits: fields that no agent of ours reads are passed on unchecked.
Source: Koordinator, pkg/slo-controller/nodeslo (resource_strategy.go, nodeslo_cm_event_handler.go) and
pkg/util/sloconfig/nodeslo_config.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonValue
from cotenant.model.machine.use_targets import BEST_EFFORT_TARGET_PERCENT
from cotenant.model.quantities import parse_quantity
from cotenant.policy.overcommit.selection import json_value, read_selector

BANDWIDTH_ANNOTATION = "node.koordinator.sh/network-bandwidth"


@dataclass(frozen=True, slots=True)
class SloPart:
    """One key of the ConfigMap and the field of a NodeSLO's spec that it fills."""

    name: str
    key: str
    field: str
    defaults: JsonValue
    is_list: bool = False  # host applications: lists of entries, replaced as a whole


PARTS = (
    SloPart(
        "threshold",
        "resource-threshold-config",
        "resourceUsedThresholdWithBE",
        {
            "enable": False,
            "cpuSuppressThresholdPercent": BEST_EFFORT_TARGET_PERCENT,
            "cpuSuppressPolicy": "cpuset",
            "memoryEvictThresholdPercent": 70,
            "cpuEvictPolicy": "evictByRealLimit",
        },
    ),
    SloPart("qos", "resource-qos-config", "resourceQOSStrategy", {}),
    SloPart(
        "burst",
        "cpu-burst-config",
        "cpuBurstStrategy",
        {
            "policy": "none",
            "cpuBurstPercent": 1000,
            "cfsQuotaBurstPercent": 300,
            "cfsQuotaBurstPeriodSeconds": -1,
            "sharePoolThresholdPercent": 50,
        },
    ),
    SloPart("system", "system-config", "systemStrategy", {"totalNetworkBandwidth": "0"}),
    SloPart("host_applications", "host-application-config", "hostApplications", [], is_list=True),
)
PART_BY_NAME = {part.name: part for part in PARTS}

_MAX_PERCENT = {"cpuBurstPercent": 10_000, "cfsQuotaBurstPercent": 10_000}  # others: 100


@dataclass(frozen=True, slots=True)
class NodePart:
    """A part for selected nodes, merged with the cluster's already."""

    selector: LabelSelector | None  # None = selects nothing
    value: JsonValue


@dataclass(frozen=True, slots=True)
class PartConfig:
    """One part: the cluster's value and those of selected nodes."""

    cluster: JsonValue
    nodes: tuple[NodePart, ...] = ()

    def of_node(self, labels: Labels) -> JsonValue:
        """The value of the first node strategy that selects the node, else the cluster's."""
        for node in self.nodes:
            if node.selector is not None and node.selector.matches(labels):
                return node.value
        return self.cluster


@dataclass(frozen=True, slots=True)
class SloConfig:
    """All parts by name, and why the keys that were refused were."""

    parts: Mapping[str, PartConfig]
    refused: tuple[str, ...] = field(default=(), compare=False)


DEFAULT_CONFIG = SloConfig({part.name: PartConfig(part.defaults) for part in PARTS})


def read_slo_config(data: Mapping[str, str] | None, previous: SloConfig = DEFAULT_CONFIG) -> SloConfig:
    """The configuration from a ConfigMap's data; None = there is no ConfigMap, so defaults."""
    parts, refused = {}, []
    for part in PARTS:
        try:
            parts[part.name] = read_part(part, (data or {}).get(part.key))
        except InvalidInput as error:
            parts[part.name] = previous.parts[part.name]
            refused.append(str(error))
    return SloConfig(parts, tuple(refused))


def read_part(part: SloPart, text: str | None) -> PartConfig:
    """One key's value; None = the key is absent. Raises `InvalidInput` with the path of the first bad field."""
    if text is None:
        return PartConfig(part.defaults)
    value = json_value(part.key, text)
    if part.is_list:
        return _applications(part, value)
    own = value.get("clusterStrategy")
    cluster = _merged(part.defaults, _checked(own, f"{part.key}.clusterStrategy"))
    nodes = []
    for i, entry in enumerate(_list(value.get("nodeStrategies"), f"{part.key}.nodeStrategies")):
        where = f"{part.key}.nodeStrategies[{i}]"
        selector = read_selector(_checked(entry, where).get("nodeSelector"), f"{where}.nodeSelector")
        strategy = {name: inner for name, inner in entry.items() if name not in ("nodeSelector", "name")}
        nodes.append(NodePart(selector, _merged(cluster, strategy)))
    return PartConfig(cluster, tuple(nodes))


@dataclass(frozen=True, slots=True)
class Rendered:
    """A NodeSLO's spec, and what of the node was ignored."""

    spec: dict[str, JsonValue]
    ignored: tuple[str, ...] = ()


def render(config: SloConfig, labels: Labels, annotations: Mapping[str, str]) -> Rendered:
    """The spec for one node, by the fields of NodeSLO."""
    spec, ignored = {}, []
    for part in PARTS:
        spec[part.field], reason = select(part, config.parts[part.name], labels, annotations)
        if reason:
            ignored.append(reason)
    return Rendered(spec, tuple(ignored))


def select(part: SloPart, config: PartConfig, labels: Labels, annotations: Mapping[str, str]) -> tuple[JsonValue, str]:
    """One part for one node, and why the node's bandwidth annotation was ignored, if it was."""
    value = config.of_node(labels)
    text = annotations.get(BANDWIDTH_ANNOTATION)
    if part.name != "system" or text is None:
        return value, ""
    try:
        if parse_quantity(text, BANDWIDTH_ANNOTATION).nano < 0:
            raise InvalidInput(BANDWIDTH_ANNOTATION, text, "a bandwidth in bits a second, such as 10G")
    except InvalidInput as error:
        return value, str(error)
    return {**value, "totalNetworkBandwidth": text}, ""


def _applications(part: SloPart, value: Mapping[str, JsonValue]) -> PartConfig:
    nodes = []
    for i, entry in enumerate(_list(value.get("nodeConfigs"), f"{part.key}.nodeConfigs")):
        where = f"{part.key}.nodeConfigs[{i}]"
        selector = read_selector(_checked(entry, where).get("nodeSelector"), f"{where}.nodeSelector")
        nodes.append(NodePart(selector, _list(entry.get("applications"), f"{where}.applications")))
    return PartConfig(_list(value.get("applications"), f"{part.key}.applications"), tuple(nodes))


def _list(value: JsonValue, where: str) -> list[JsonValue]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise InvalidInput(where, value, "a list of objects")
    return value


def _checked(value: JsonValue, where: str) -> Mapping[str, JsonValue]:
    """An object whose percents are numbers in range, at any depth."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(where, value, "a JSON object")
    for name, inner in value.items():
        path = f"{where}.{name}"
        if isinstance(inner, Mapping):
            _checked(inner, path)
        elif inner is None:
            continue
        elif name.endswith("Percent"):
            most = _MAX_PERCENT.get(name, 100)
            if isinstance(inner, bool) or not isinstance(inner, int) or not 0 <= inner <= most:
                raise InvalidInput(path, inner, f"a whole number from 0 to {most}")
        elif name == "enable" and not isinstance(inner, bool):
            raise InvalidInput(path, inner, "true or false")
    return value


def _merged(base: Mapping[str, JsonValue], over: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    found = dict(base)
    for name, value in over.items():
        if value is None or value == "":
            continue
        below = found.get(name)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            value = _merged(below, value)
        found[name] = value
    return found
