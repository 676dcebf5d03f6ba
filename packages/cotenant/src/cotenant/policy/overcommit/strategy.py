"""The colocation strategy: how much is lent, how often it is written, and when it is withdrawn.

Administrators write a cluster strategy with exceptions for nodes, upstream merges them silently, and a bad value makes
it fall back without a word. A struct of optional fields under upstream's JSON names; a field that is absent or null
keeps the level below, and every refusal names the field and the value. Levels, the later wins: defaults, cluster, the
first matching node configuration, the node's annotation, the node's ratio labels. Beyond upstream: percents above 100
and unknown policies are refused, and ratio labels are read as decimals, so that 0.57 is 57 percent, not 56.
`cpuCalculatePolicy: peak` with `peakRiskPercent` and `peakHistoryMinutes` is ours, and so is `lendMode`, of a pool: no
node sets it for itself.
Limits: `extensions` are kept out; other unknown fields are skipped, as upstream does.
Source: Koordinator, pkg/util/sloconfig/colocation_config.go and pkg/slo-controller/config.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import msgspec

from cotenant.model.autonomy.pool_lending import LendMode
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.document import split_refusal
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.batch import BatchRules
from cotenant.policy.overcommit.facts import Policy
from cotenant.policy.overcommit.mid import MidRules
from cotenant.policy.overcommit.selection import json_value, read_selector

KEY = "colocation-config"  # in the ConfigMap
STRATEGY_ANNOTATION = "node.koordinator.sh/colocation-strategy"
RATIO_LABELS = {
    "node.koordinator.sh/cpu-reclaim-ratio": "cpu_reclaim_threshold_percent",
    "node.koordinator.sh/memory-reclaim-ratio": "memory_reclaim_threshold_percent",
    "node.koordinator.sh/mid-static-cpu-reserved-ratio": "mid_static_cpu_reserved_percent",
    "node.koordinator.sh/mid-static-memory-reserved-ratio": "mid_static_memory_reserved_percent",
}
_JSON_NAMES = {
    "cpu_reclaim_threshold_percent": "cpuReclaimThresholdPercent",
    "mid_cpu_threshold_percent": "midCPUThresholdPercent",
    "mid_static_cpu_reserved_percent": "midStaticCPUReservedPercent",
    "batch_cpu_threshold_percent": "batchCPUThresholdPercent",
}


class AggregateWindows(msgspec.Struct, frozen=True, omit_defaults=True):
    """metricAggregatePolicy."""

    durations: tuple[str, ...] | None = None


def _name(field: str) -> str:
    first, *rest = field.split("_")
    return _JSON_NAMES.get(field) or first + "".join(word.capitalize() for word in rest)


class ColocationStrategy(msgspec.Struct, frozen=True, omit_defaults=True, rename=_name, kw_only=True):
    """ColocationStrategy; None = not set at this level."""

    enable: bool | None = None
    metric_aggregate_duration_seconds: int | None = None
    metric_report_interval_seconds: int | None = None
    metric_aggregate_policy: AggregateWindows | None = None
    metric_memory_collect_policy: str | None = None
    cpu_reclaim_threshold_percent: int | None = None
    cpu_calculate_policy: str | None = None
    memory_reclaim_threshold_percent: int | None = None
    memory_calculate_policy: str | None = None
    mid_reclaim_mode: str | None = None
    mid_static_cpu_reserved_percent: int | None = None
    mid_static_memory_reserved_percent: int | None = None
    degrade_time_minutes: int | None = None
    update_time_threshold_seconds: int | None = None
    resource_diff_threshold: float | None = None
    mid_cpu_threshold_percent: int | None = None
    mid_memory_threshold_percent: int | None = None
    mid_unallocated_percent: int | None = None
    batch_cpu_threshold_percent: int | None = None
    batch_memory_threshold_percent: int | None = None
    peak_risk_percent: float | None = None
    peak_history_minutes: int | None = None
    lend_mode: str | None = None


DEFAULTS = ColocationStrategy(
    enable=False,
    metric_aggregate_duration_seconds=300,
    metric_report_interval_seconds=60,
    metric_aggregate_policy=AggregateWindows(("5m", "10m", "30m")),
    metric_memory_collect_policy="usageWithoutPageCache",
    cpu_reclaim_threshold_percent=60,
    cpu_calculate_policy="usage",
    memory_reclaim_threshold_percent=65,
    memory_calculate_policy="usage",
    mid_static_cpu_reserved_percent=0,
    mid_static_memory_reserved_percent=0,
    degrade_time_minutes=15,
    update_time_threshold_seconds=300,
    resource_diff_threshold=0.1,
    mid_cpu_threshold_percent=100,
    mid_memory_threshold_percent=100,
    mid_unallocated_percent=0,
)

_ABOVE_ZERO = (
    "metric_aggregate_duration_seconds",
    "metric_report_interval_seconds",
    "degrade_time_minutes",
    "update_time_threshold_seconds",
    "resource_diff_threshold",
    "peak_risk_percent",
    "peak_history_minutes",
)
_PERCENTS = tuple(
    field_info.name for field_info in msgspec.structs.fields(ColocationStrategy) if field_info.name.endswith("_percent")
)
_WORDS = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "text", "object": "an object"}
_CHOICES = {
    "mid_reclaim_mode": ("", "static", "prediction"),
    "lend_mode": ("", *(mode.value for mode in LendMode)),
}
CLUSTER_POOL = "cluster"
# as upstream, which computes by use then; a word that it does not know must not stop a whole configuration
_USUAL_WHERE_UNKNOWN = {
    "cpu_calculate_policy": tuple(policy.value for policy in Policy),
    "memory_calculate_policy": tuple(policy.value for policy in Policy),
    "metric_memory_collect_policy": ("usageWithoutPageCache", "usageWithHotPageCache", "usageWithPageCache"),
}


@dataclass(frozen=True, slots=True)
class NodeStrategy:
    """The strategy of selected nodes, merged with the cluster's already."""

    selector: LabelSelector | None  # None = selects nothing
    strategy: ColocationStrategy
    name: str = ""
    pool: str = ""  # a name of its own for its nodes, see `PoolLending`


@dataclass(frozen=True, slots=True)
class ColocationConfig:
    """What the ConfigMap says about colocation."""

    cluster: ColocationStrategy
    nodes: tuple[NodeStrategy, ...] = ()
    ignored: tuple[str, ...] = ()  # node configurations and words that are not followed, and why


def merge(base: ColocationStrategy, over: ColocationStrategy) -> ColocationStrategy:
    """The base with what `over` sets."""
    changes = {name: value for name in over.__struct_fields__ if (value := getattr(over, name)) is not None}
    return msgspec.structs.replace(base, **changes)


def read_strategy(value: object, field: str) -> ColocationStrategy:
    """A strategy from decoded JSON. Raises `InvalidInput` with the path of the field."""
    if not isinstance(value, Mapping):
        raise InvalidInput(field, value, "a JSON object")
    try:
        return msgspec.convert(value, ColocationStrategy)
    except msgspec.ValidationError as error:
        said, path = split_refusal(error)
        expected = said.removeprefix("Expected ").partition(",")[0].strip("`").removesuffix(" | null")
        raise InvalidInput(f"{field}.{path}".rstrip("."), _at(value, path), _WORDS.get(expected, expected)) from None


def check(strategy: ColocationStrategy, field: str = KEY) -> None:
    """Raise `InvalidInput` for the first value that cannot be meant; values that are not set are not checked."""
    for field_info in msgspec.structs.fields(ColocationStrategy):
        value = getattr(strategy, field_info.name)
        if value is None:
            continue
        where = f"{field}.{field_info.encode_name}"
        if field_info.name in _ABOVE_ZERO and not value > 0:
            raise InvalidInput(where, value, "more than 0")
        if field_info.name in _PERCENTS and not 0 <= value <= 100:
            raise InvalidInput(where, value, "0 to 100")
        if field_info.name in _CHOICES and value not in _CHOICES[field_info.name]:
            raise InvalidInput(where, value, "one of " + ", ".join(name for name in _CHOICES[field_info.name] if name))


def _known(strategy: ColocationStrategy, field: str, said: list[str]) -> ColocationStrategy:
    """The strategy without words that nobody knows; a sentence for each is added to `said`."""
    for field_info in msgspec.structs.fields(ColocationStrategy):
        value, choices = getattr(strategy, field_info.name), _USUAL_WHERE_UNKNOWN.get(field_info.name, ())
        if not choices or not value or value in choices:
            continue
        usual = getattr(DEFAULTS, field_info.name)
        strategy = msgspec.structs.replace(strategy, **{field_info.name: usual})
        unknown = InvalidInput(f"{field}.{field_info.encode_name}", value, "one of " + ", ".join(choices))
        said.append(f"{unknown}; {usual} counts")
    return strategy


def read_config(text: str) -> ColocationConfig:
    """The value of the key `colocation-config`. Raises `InvalidInput` with the path of the first bad field.

    A node configuration with a value out of range does not stop the rest: its nodes follow the cluster, but for
    `enable: false`, which keeps them from lending.
    """
    value = json_value(KEY, text)
    nodes: list[NodeStrategy] = []
    ignored: list[str] = []
    cluster = merge(DEFAULTS, _known(read_strategy(value, KEY), KEY, ignored))
    check(cluster)
    configs = value.get("nodeConfigs")
    if configs is not None and not isinstance(configs, list):
        raise InvalidInput(f"{KEY}.nodeConfigs", configs, "a list")
    for i, config in enumerate(configs or ()):
        where = f"{KEY}.nodeConfigs[{i}]"
        own = _known(read_strategy(config, where), where, ignored)
        try:
            check(own, where)
        except InvalidInput as error:
            ignored.append(f"{error}; its nodes follow the cluster")
            own = ColocationStrategy(enable=False if own.enable is False else None)
        nodes.append(
            NodeStrategy(
                read_selector(config.get("nodeSelector"), f"{where}.nodeSelector"),
                merge(cluster, own),
                name := str(config.get("name") or ""),
                _pool(name, i, {node.pool for node in nodes}),
            )
        )
    return ColocationConfig(cluster, tuple(nodes), tuple(ignored))


@dataclass(frozen=True, slots=True)
class StrategyOrigin:
    """The strategy of one node, where it comes from, and what was ignored."""

    strategy: ColocationStrategy
    source: str
    ignored: tuple[str, ...] = ()
    pool: str = CLUSTER_POOL


def pools_of(config: ColocationConfig) -> dict[str, ColocationStrategy]:
    """The strategy of each pool, without what single nodes say."""
    return {CLUSTER_POOL: config.cluster, **{node.pool: node.strategy for node in config.nodes}}


def strategy_of(config: ColocationConfig, labels: Labels, annotations: Mapping[str, str]) -> StrategyOrigin:
    """The strategy in force for one node. A bad annotation or label is ignored and reported."""
    strategy, source, pool = config.cluster, "cluster", CLUSTER_POOL
    ignored: list[str] = []
    for i, node in enumerate(config.nodes):
        if node.selector is not None and node.selector.matches(labels):
            strategy, source, pool = node.strategy, f"node configuration {node.name or i}", node.pool
            break
    text = annotations.get(STRATEGY_ANNOTATION)
    if text is not None:
        try:
            own = read_strategy(json_value(STRATEGY_ANNOTATION, text), STRATEGY_ANNOTATION)
            own = _known(own, STRATEGY_ANNOTATION, ignored)
            check(own, STRATEGY_ANNOTATION)
            if own.lend_mode:
                own = msgspec.structs.replace(own, lend_mode=None)
                ignored.append(f"{STRATEGY_ANNOTATION}.lendMode: no node sets it for itself; its pool's counts")
            strategy, source = merge(strategy, own), f"{source} + annotation"
        except InvalidInput as error:
            ignored.append(str(error))
    for label, field in RATIO_LABELS.items():
        value = labels.get(label)
        if value is None:
            continue
        share = _percent(value)
        if share is None:
            ignored.append(str(InvalidInput(label, value, "a number from 0 to 1")))
            continue
        strategy, source = msgspec.structs.replace(strategy, **{field: share}), f"{source} + label {label}"
    return StrategyOrigin(strategy, source, tuple(ignored), pool)


def is_enabled(config: ColocationConfig | None, strategy: ColocationStrategy) -> bool:
    """Whether amounts are lent on a node of this strategy; a node cannot enable what the cluster has not."""
    return config is not None and bool(config.cluster.enable) and bool(strategy.enable)


def batch_rules(strategy: ColocationStrategy) -> BatchRules:
    """The strategy's rules of batch amounts."""
    full = merge(DEFAULTS, strategy)
    return BatchRules(
        cpu_reclaim_pct=full.cpu_reclaim_threshold_percent or 0,
        memory_reclaim_pct=full.memory_reclaim_threshold_percent or 0,
        cpu_policy=Policy(full.cpu_calculate_policy or Policy.USAGE),
        memory_policy=Policy(full.memory_calculate_policy or Policy.USAGE),
        cpu_limit_pct=full.batch_cpu_threshold_percent,
        memory_limit_pct=full.batch_memory_threshold_percent,
    )


def mid_rules(strategy: ColocationStrategy) -> MidRules:
    """The strategy's rules of mid amounts."""
    full = merge(DEFAULTS, strategy)
    return MidRules(
        cpu_threshold_pct=full.mid_cpu_threshold_percent or 0,
        memory_threshold_pct=full.mid_memory_threshold_percent or 0,
        unallocated_pct=full.mid_unallocated_percent or 0,
        is_static=full.mid_reclaim_mode == "static",
        static_cpu_pct=full.mid_static_cpu_reserved_percent or 0,
        static_memory_pct=full.mid_static_memory_reserved_percent or 0,
    )


def _pool(name: str, place: int, taken: set[str]) -> str:
    """The name of an object for a node configuration: its own as Kubernetes writes names, with its place where that
    is nobody's or somebody else's.
    """
    found = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:200].strip("-")
    return f"{found or 'config'}-{place}" if not found or found in {CLUSTER_POOL, *taken} else found


def _percent(text: str) -> int | None:
    try:
        share = Decimal(text)
    except InvalidOperation:
        return None
    return int(share * 100) if share.is_finite() and 0 <= share <= 1 else None


def _at(value: object, path: str) -> object:
    """The value at a path such as `a.b`; the whole where it cannot be followed."""
    for name in path.split(".") if path else ():
        if not isinstance(value, Mapping) or name not in value:
            break
        value = value[name]
    return value if isinstance(value, str | int | float | bool) else json.dumps(value, default=str)
