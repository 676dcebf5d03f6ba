"""The file of `--config`: a DeschedulerConfiguration as Koordinator's users have it, with LowNodeLoad and MigrationController.

Problem: a misspelt threshold that is skipped moves the wrong pods, and a plugin that is enabled but not built must not be ignored. Choice: every key is checked and an unknown one refused by name;
values out of range are refused with field, value and what is expected. Settings that matter only where moves are carried out are accepted and listed (`not_applied`). Differences from upstream: a pool's thresholds
need not be repeated at the top level, and a high threshold without a low one is kept. Limits: one profile that enables LowNodeLoad; names of priority classes are not looked up.
Source: Koordinator, pkg/descheduler/apis/config/v1alpha2.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cotenant.drivers.kube.kinds.durations import duration_s
from cotenant.drivers.kube.kinds.selectors import Expression, Selector, read_label_selector
from cotenant.engine.rebalancer.settings import MoveLimits, RebalancerSettings
from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.document import read_struct, split_refusal
from cotenant.model.errors import InvalidInput
from cotenant.policy.rebalance.loads.detector import AnomalyCondition
from cotenant.policy.rebalance.loads.pools import DEFAULT_POOL, NodePool
from cotenant.policy.rebalance.loads.thresholds import Percentages
from cotenant.policy.rebalance.migration.evictable import EvictionFilter, Gate
from cotenant.policy.rebalance.migration.workload_limits import Share

OPTION = "--config"
DEFAULT = RebalancerSettings(
    (NodePool(DEFAULT_POOL, Percentages({"cpu": 45.0, "memory": 60.0}, {"cpu": 65.0, "memory": 85.0})),)
)
_API = "descheduler/v1alpha2"
_LOW_NODE_LOAD, _MIGRATION = "LowNodeLoad", "MigrationController"
_WHERE_ENABLED = {"balance": _LOW_NODE_LOAD, "evict": _MIGRATION, "filter": _MIGRATION}
T = TypeVar("T")


class _Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """Base of the parts: an unknown key is refused."""


class _Expression(_Form, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] = []


class _Selector(_Form, frozen=True):
    match_labels: dict[str, str] = {}
    match_expressions: list[_Expression] = []


class _Namespaces(_Form, frozen=True):
    include: list[str] = []
    exclude: list[str] = []


class _Named(_Form, frozen=True):
    name: str


class _PluginSet(_Form, frozen=True):
    enabled: list[_Named] = []
    disabled: list[_Named] = []


class _Plugins(_Form, frozen=True):
    deschedule: _PluginSet = _PluginSet()
    balance: _PluginSet = _PluginSet()
    evict: _PluginSet = _PluginSet()
    filter: _PluginSet = _PluginSet()


class _PluginConfig(_Form, frozen=True):
    name: str
    args: dict[str, Any] = {}


class _Profile(_Form, frozen=True):
    name: str = ""
    node_selector: _Selector | None = None
    plugins: _Plugins = _Plugins()
    plugin_config: list[_PluginConfig] = []


class _Configuration(_Form, frozen=True):
    api_version: str = _API
    kind: str = "DeschedulerConfiguration"
    dry_run: bool | None = None
    descheduling_interval: str | None = None
    node_selector: _Selector | None = None
    max_no_of_pods_to_evict_per_node: int | None = None
    max_no_of_pods_to_evict_per_namespace: int | None = None
    max_no_of_pods_to_evict_total: int | None = None
    profiles: list[_Profile] = []


class _Anomaly(_Form, frozen=True):
    timeout: str | None = None
    consecutive_abnormalities: int | None = None
    consecutive_normalities: int | None = None


class _Thresholds(_Form, frozen=True):
    use_deviation_thresholds: bool = False
    high_thresholds: dict[str, float] | None = None
    low_thresholds: dict[str, float] | None = None
    prod_high_thresholds: dict[str, float] | None = None
    prod_low_thresholds: dict[str, float] | None = None
    resource_weights: dict[str, int] | None = None
    anomaly_condition: _Anomaly | None = None


class _Pool(_Thresholds, frozen=True):
    name: str = ""
    node_selector: _Selector | None = None


class _PodSelector(_Form, frozen=True):
    name: str = ""
    selector: _Selector = _Selector()


class _LowNodeLoad(_Thresholds, frozen=True):
    api_version: str = _API
    kind: str = "LowNodeLoadArgs"
    paused: bool = False
    dry_run: bool = False
    number_of_nodes: int = 0
    node_metric_expiration_seconds: int = 180
    node_fit: bool = True
    evictable_namespaces: _Namespaces = _Namespaces()
    node_selector: _Selector | None = None
    pod_selectors: list[_PodSelector] = []
    detector_cache_timeout: str | None = None
    node_pools: list[_Pool] = []


class _Priority(_Form, frozen=True):
    name: str = ""
    value: int | None = None


class _Migration(_Form, frozen=True):
    api_version: str = _API
    kind: str = "MigrationControllerArgs"
    dry_run: bool | None = None
    max_concurrent_reconciles: int | None = None
    evict_failed_bare_pods: bool = False
    evict_all_bare_pods: bool = False
    evict_local_storage_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    label_selector: _Selector | None = None
    namespaces: _Namespaces = _Namespaces()
    node_fit: bool | None = None
    node_selector: str | None = None
    priority_threshold: _Priority = _Priority()
    max_migrating_globally: int | None = None
    max_migrating_per_node: int | None = 2
    max_migrating_per_namespace: int | None = None
    max_migrating_per_workload: int | str | None = None
    max_unavailable_per_workload: int | str | None = None
    skip_check_expected_replicas: bool = False
    skip_eviction_gates: list[str] = []
    object_limiters: dict[str, Any] | None = None
    default_job_mode: str | None = None
    default_job_ttl: str | None = msgspec.field(default=None, name="defaultJobTTL")
    evict_qps: float | str | None = msgspec.field(default=None, name="evictQPS")
    evict_burst: int | None = None
    eviction_policy: str | None = None
    default_delete_options: dict[str, Any] | None = None
    scheduler_names: list[str] | None = None
    arbitration_args: dict[str, Any] | None = None


_LATER = {
    "dry_run": "dryRun",
    "max_concurrent_reconciles": "maxConcurrentReconciles",
    "node_fit": "nodeFit",
    "node_selector": "nodeSelector",
    "object_limiters": "objectLimiters",
    "default_job_mode": "defaultJobMode",
    "default_job_ttl": "defaultJobTTL",
    "evict_qps": "evictQPS",
    "evict_burst": "evictBurst",
    "eviction_policy": "evictionPolicy",
    "default_delete_options": "defaultDeleteOptions",
    "scheduler_names": "schedulerNames",
    "arbitration_args": "arbitrationArgs",
}  # of MigrationController: how moves are carried out


def read_settings(path: Path) -> RebalancerSettings:
    """The settings of a file. Raises `InvalidInput` with the option, or the file's field."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput(OPTION, str(path), "a file that can be read", error.strerror or "") from None
    return parse_settings(text, str(path))


def parse_settings(text: bytes, where: str) -> RebalancerSettings:
    """The settings in YAML or JSON. Raises `InvalidInput` about `where` and the field."""
    given = read_struct(_Configuration, text, where, "a DeschedulerConfiguration")
    _one_of(given.api_version, (_API, "descheduler/v1alpha1"), f"{where}: apiVersion")
    _one_of(given.kind, ("DeschedulerConfiguration",), f"{where}: kind")
    at, profile = _profile(given, where)
    args = {each.name: (i, each.args) for i, each in enumerate(profile.plugin_config)}
    for i, each in enumerate(profile.plugin_config):
        _one_of(each.name, (_LOW_NODE_LOAD, _MIGRATION), f"{at}.pluginConfig[{i}].name")
    if _LOW_NODE_LOAD not in args:
        raise InvalidInput(
            f"{at}.pluginConfig", "without LowNodeLoad", "its args with lowThresholds and highThresholds"
        )
    field = f"{at}.pluginConfig[{args[_LOW_NODE_LOAD][0]}].args"
    load = _convert(_LowNodeLoad, args[_LOW_NODE_LOAD][1], field)
    later = [name for name, value in (("dryRun", given.dry_run), ("deschedulingInterval", given.descheduling_interval)) if value is not None]  # fmt: skip
    if given.descheduling_interval is not None:
        duration_s(given.descheduling_interval, f"{where}: deschedulingInterval")
    migration, number = _Migration(), 0
    if _MIGRATION in args:
        number = args[_MIGRATION][0]
        migration = _convert(_Migration, args[_MIGRATION][1], f"{at}.pluginConfig[{number}].args")
        later += [f"{_MIGRATION}.{name}" for key, name in _LATER.items() if getattr(migration, key) is not None]
    if load.paused:
        raise InvalidInput(f"{field}.paused", True, "false", "a paused LowNodeLoad plans nothing")
    namespaces = _namespaces(load.evictable_namespaces, f"{field}.evictableNamespaces")
    return RebalancerSettings(
        pools=_pools(load, field),
        number_of_nodes=_not_negative(load.number_of_nodes, f"{field}.numberOfNodes"),
        node_fit=load.node_fit,
        expires_s=float(_positive(load.node_metric_expiration_seconds, f"{field}.nodeMetricExpirationSeconds")),
        include=tuple(namespaces.include),
        exclude=tuple(namespaces.exclude),
        pod_selectors=tuple(
            selector
            for i, each in enumerate(load.pod_selectors)
            if (selector := _selector(each.selector, f"{field}.podSelectors[{i}].selector")) is not None
        ),
        node_selector=_first_selector(
            (load.node_selector, f"{field}.nodeSelector"),
            (profile.node_selector, f"{at}.nodeSelector"),
            (given.node_selector, f"{where}: nodeSelector"),
        ),
        filter=_filter(migration, f"{at}.pluginConfig[{number}].args"),
        limits=_limits(given, migration, where, f"{at}.pluginConfig[{number}].args"),
        not_applied=tuple(later),
    )


def _profile(given: _Configuration, where: str) -> tuple[str, _Profile]:
    """The profile that enables LowNodeLoad, and its path."""
    found = []
    for i, profile in enumerate(given.profiles):
        at = f"{where}: profiles[{i}]"
        for point in ("deschedule", "balance", "evict", "filter"):
            for j, each in enumerate(getattr(profile.plugins, point).enabled):
                built = _WHERE_ENABLED.get(point)
                if each.name != built:
                    expected = f"{built}: no other plugin is built" if built else "no plugin: none is built"
                    raise InvalidInput(f"{at}.plugins.{point}.enabled[{j}].name", each.name, expected)
        if any(each.name == _LOW_NODE_LOAD for each in profile.plugins.balance.enabled):
            found.append((at, profile))
    if len(found) != 1:
        raise InvalidInput(
            f"{where}: profiles",
            f"{len(found)} of {len(given.profiles)} enable LowNodeLoad",
            "one profile with plugins.balance.enabled: [{name: LowNodeLoad}]",
        )
    return found[0]


def _pools(load: _LowNodeLoad, field: str) -> tuple[NodePool, ...]:
    """The pools in order; that of the top-level thresholds comes first, where there are any."""
    found = []
    top = _percentages(load, None, field)
    if not top.is_empty:
        found.append(NodePool(DEFAULT_POOL, top, None, *_rest(load, None, field)))
    names = set()
    for i, pool in enumerate(load.node_pools):
        at = f"{field}.nodePools[{i}]"
        if not pool.name or pool.name in names:
            raise InvalidInput(f"{at}.name", pool.name, "a name, each once")
        names.add(pool.name)
        percentages = _percentages(pool, load, at)
        if percentages.is_empty:
            raise InvalidInput(at, pool.name, "lowThresholds and highThresholds, here or at the top level")
        selector = None if pool.node_selector is None else _selector(pool.node_selector, f"{at}.nodeSelector")
        found.append(NodePool(pool.name, percentages, selector, *_rest(pool, load, at)))
    if not found:
        raise InvalidInput(
            field, "without thresholds", "lowThresholds and highThresholds in percent, such as {cpu: 45}"
        )
    return tuple(found)


def _percentages(given: _Thresholds, base: _Thresholds | None, field: str) -> Percentages:
    def of(name: str) -> dict[str, float]:
        own = getattr(given, name)
        return dict((own if own is not None else getattr(base, name, None)) or {})

    names = ("low_thresholds", "high_thresholds", "prod_low_thresholds", "prod_high_thresholds")
    low, high, prod_low, prod_high = map(of, names)
    for written, values in (("lowThresholds", low), ("highThresholds", high), ("prodLowThresholds", prod_low), ("prodHighThresholds", prod_high)):  # fmt: skip
        for name, value in values.items():
            if not 0 <= value <= 100:
                raise InvalidInput(f"{field}.{written}.{name}", value, "0 to 100 percent")
    deviation = given.use_deviation_thresholds or (base is not None and base.use_deviation_thresholds)
    if not deviation:
        for smaller, larger, words in (
            (low, high, ("lowThresholds", "highThresholds")),
            (prod_low, prod_high, ("prodLowThresholds", "prodHighThresholds")),
            (prod_high, high, ("prodHighThresholds", "highThresholds")),
        ):
            for name, value in smaller.items():
                if name in larger and value > larger[name]:
                    raise InvalidInput(
                        f"{field}.{words[0]}.{name}", value, f"at most {words[1]}.{name}, {larger[name]:g}"
                    )
    for lows, highs, words in ((low, high, ("lowThresholds", "highThresholds")), (prod_low, prod_high, ("prodLowThresholds", "prodHighThresholds"))):  # fmt: skip
        for name in lows.keys() - highs.keys():
            raise InvalidInput(f"{field}.{words[0]}.{name}", lows[name], f"{words[1]}.{name} too")
    return Percentages(low, high, prod_low, prod_high, deviation)


def _rest(
    given: _Thresholds, base: _Thresholds | None, field: str
) -> tuple[Mapping[str, int], AnomalyCondition | None]:
    weights = given.resource_weights if given.resource_weights is not None else getattr(base, "resource_weights", None)
    written = given.anomaly_condition or getattr(base, "anomaly_condition", None)
    usual = AnomalyCondition()
    if written is None:
        return dict(weights or {}), usual
    at = f"{field}.anomalyCondition"
    timeout = written.timeout
    return dict(weights or {}), AnomalyCondition(
        usual.abnormal if written.consecutive_abnormalities is None else _positive(written.consecutive_abnormalities, f"{at}.consecutiveAbnormalities"),
        usual.normal if written.consecutive_normalities is None else _positive(written.consecutive_normalities, f"{at}.consecutiveNormalities"),
        usual.timeout_s if timeout is None else duration_s(timeout, f"{at}.timeout"),
    )  # fmt: skip


def _filter(given: _Migration, field: str) -> EvictionFilter:
    gates = set()
    for i, name in enumerate(given.skip_eviction_gates):
        _one_of(name, tuple(map(str, Gate)), f"{field}.skipEvictionGates[{i}]")
        gates.add(Gate(name))
    if given.priority_threshold.name:
        raise InvalidInput(
            f"{field}.priorityThreshold.name",
            given.priority_threshold.name,
            "value: priority classes are not looked up",
        )
    namespaces = _namespaces(given.namespaces, f"{field}.namespaces")
    return EvictionFilter(
        evicts_bare_pods=given.evict_all_bare_pods,
        evicts_system_critical=given.evict_system_critical_pods,
        evicts_local_storage=given.evict_local_storage_pods,
        ignores_claims=given.ignore_pvc_pods,
        priority_threshold=given.priority_threshold.value,
        selector=None if given.label_selector is None else _selector(given.label_selector, f"{field}.labelSelector"),
        include=tuple(namespaces.include),
        exclude=tuple(namespaces.exclude),
        checks_replicas=not given.skip_check_expected_replicas,
        max_moving=_share(given.max_migrating_per_workload, f"{field}.maxMigratingPerWorkload"),
        max_unavailable=_share(given.max_unavailable_per_workload, f"{field}.maxUnavailablePerWorkload"),
        skip=frozenset(gates),
    )


def _limits(given: _Configuration, migration: _Migration, where: str, field: str) -> MoveLimits:
    def read(value: int | None, name: str) -> int | None:
        return None if value is None else _not_negative(value, name)

    return MoveLimits(
        globally=read(migration.max_migrating_globally, f"{field}.maxMigratingGlobally"),
        per_node=read(migration.max_migrating_per_node, f"{field}.maxMigratingPerNode"),
        per_namespace=read(migration.max_migrating_per_namespace, f"{field}.maxMigratingPerNamespace"),
        round_total=read(given.max_no_of_pods_to_evict_total, f"{where}: maxNoOfPodsToEvictTotal"),
        round_per_node=read(given.max_no_of_pods_to_evict_per_node, f"{where}: maxNoOfPodsToEvictPerNode"),
        round_per_namespace=read(
            given.max_no_of_pods_to_evict_per_namespace, f"{where}: maxNoOfPodsToEvictPerNamespace"
        ),
    )


def _convert(form: type[T], given: dict[str, Any], field: str) -> T:
    try:
        return msgspec.convert(given, form)
    except msgspec.ValidationError as error:
        said, path = split_refusal(error)
        known = [each.encode_name for each in msgspec.structs.fields(form)]  # type: ignore[arg-type]
        close = [name for key in given if key not in known for name in get_close_matches(key, known, n=1)]
        hint = f"did you mean {close[0]}?" if close and not path else ""
        raise InvalidInput(
            f"{field}.{path}" if path else field, said, f"as Koordinator's {form.__name__.strip('_')}Args has it", hint
        ) from None


def _selector(given: _Selector, field: str) -> LabelSelector | None:
    expressions = tuple(
        Expression(key=each.key, operator=each.operator, values=tuple(each.values)) for each in given.match_expressions
    )
    return read_label_selector(Selector(match_labels=given.match_labels, match_expressions=expressions), field)


def _first_selector(*given: tuple[_Selector | None, str]) -> LabelSelector | None:
    return next((_selector(each, field) for each, field in given if each is not None), None)


def _namespaces(given: _Namespaces, field: str) -> _Namespaces:
    if given.include and given.exclude:
        raise InvalidInput(field, "include and exclude", "one of them")
    return given


def _share(value: int | str | None, field: str) -> Share | None:
    return None if value is None else Share.parse(value, field)


def _one_of(value: str, known: tuple[str, ...], field: str) -> None:
    if value not in known:
        raise InvalidInput(field, value, " or ".join(known))


def _not_negative(value: int, field: str) -> int:
    if value < 0:
        raise InvalidInput(field, value, "0 or more")
    return value


def _positive(value: int, field: str) -> int:
    if value < 1:
        raise InvalidInput(field, value, "1 or more")
    return value
