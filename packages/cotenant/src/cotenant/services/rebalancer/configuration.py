"""The file of `--config`: a DeschedulerConfiguration as Koordinator's users have it, with the plugins that move pods
and MigrationController.

A misspelt threshold that is skipped moves the wrong pods, and a plugin that is enabled but not built must not be
ignored. Every key is checked and an unknown one refused by name; values out of range are refused with field, value and
what is expected. Settings that matter only where moves are carried out are accepted and listed (`not_applied`).
Differences from upstream: a pool's thresholds need not be repeated at the top level, and a high threshold without a low
one is kept. The other plugins' args are in kinds.py.
Limits: one profile; names of priority classes are not looked up.
Source: Koordinator, pkg/descheduler/apis/config/v1alpha2.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cotenant.drivers.kube.kinds.durations import duration_s
from cotenant.engine.migration.contracts import MigrationSettings
from cotenant.engine.rebalancer.settings import ActingSettings, MoveLimits, RebalancerSettings
from cotenant.model.document import read_struct
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.migration import EvictPolicy, JobMode
from cotenant.model.machine.use_targets import BEST_EFFORT_TARGET_PERCENT, OVERLOAD_BAND_PERCENT
from cotenant.policy.rebalance.loads.detector import AnomalyCondition
from cotenant.policy.rebalance.loads.pools import DEFAULT_POOL, NodePool
from cotenant.policy.rebalance.loads.thresholds import Percentages
from cotenant.policy.rebalance.migration.evictable import EvictionFilter, EvictionGate
from cotenant.policy.rebalance.migration.object_limiter import ObjectLimit
from cotenant.services.rebalancer.configuration_forms import (
    API,
    ConfigurationForm,
    LowNodeLoadForm,
    MigrationForm,
    ProfileForm,
    ThresholdsForm,
)
from cotenant.services.rebalancer.forms import (
    convert,
    first_selector,
    namespaces_of,
    not_negative,
    one_of,
    positive,
    rate_of,
    selector_of,
    share_of,
)
from cotenant.services.rebalancer.kinds import BALANCE, DESCHEDULE, read_kinds

OPTION = "--config"
DEFAULT = RebalancerSettings(
    (
        NodePool(
            DEFAULT_POOL,
            Percentages(
                {"cpu": 45.0, "memory": 60.0},
                {"cpu": float(BEST_EFFORT_TARGET_PERCENT + OVERLOAD_BAND_PERCENT), "memory": 85.0},
            ),
        ),
    )
)
_LOW_NODE_LOAD, _MIGRATION = "LowNodeLoad", "MigrationController"
_BALANCE = (_LOW_NODE_LOAD, *BALANCE)
_WHERE_ENABLED = {"deschedule": DESCHEDULE, "balance": _BALANCE, "evict": (_MIGRATION,), "filter": (_MIGRATION,)}


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


_IGNORED = {
    "max_concurrent_reconciles": "maxConcurrentReconciles",
    "node_fit": "nodeFit",
    "node_selector": "nodeSelector",
    "scheduler_names": "schedulerNames",
    "arbitration_args": "arbitrationArgs",
}  # of these, without effect also where moves are carried out


def read_settings(path: Path) -> RebalancerSettings:
    """The settings of a file. Raises `InvalidInput` with the option, or the file's field."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput(OPTION, str(path), "a file that can be read", error.strerror or "") from None
    return parse_settings(text, str(path))


def parse_settings(text: bytes, where: str) -> RebalancerSettings:
    """The settings in YAML or JSON. Raises `InvalidInput` about `where` and the field."""
    given = read_struct(ConfigurationForm, text, where, "a DeschedulerConfiguration")
    one_of(given.api_version, (API, "descheduler/v1alpha1"), f"{where}: apiVersion")
    one_of(given.kind, ("DeschedulerConfiguration",), f"{where}: kind")
    at, profile = _profile(given, where)
    args = {plugin_config.name: (i, plugin_config.args) for i, plugin_config in enumerate(profile.plugin_config)}
    for i, plugin_config in enumerate(profile.plugin_config):
        one_of(plugin_config.name, (*DESCHEDULE, *_BALANCE, _MIGRATION), f"{at}.pluginConfig[{i}].name")
    names = {named.name for named in (*profile.plugins.deschedule.enabled, *profile.plugins.balance.enabled)}
    kinds = read_kinds(names, {name: (f"{at}.pluginConfig[{i}].args", entry) for name, (i, entry) in args.items()})
    field, load = "", LowNodeLoadForm()
    if _LOW_NODE_LOAD in names:
        if _LOW_NODE_LOAD not in args:
            raise InvalidInput(
                f"{at}.pluginConfig", "without LowNodeLoad", "its args with lowThresholds and highThresholds"
            )
        field = f"{at}.pluginConfig[{args[_LOW_NODE_LOAD][0]}].args"
        load = convert(LowNodeLoadForm, args[_LOW_NODE_LOAD][1], field)
    later = [
        name
        for name, value in (("dryRun", given.dry_run), ("deschedulingInterval", given.descheduling_interval))
        if value is not None
    ]
    if given.descheduling_interval is not None:
        duration_s(given.descheduling_interval, f"{where}: deschedulingInterval")
    migration, number = MigrationForm(), 0
    if _MIGRATION in args:
        number = args[_MIGRATION][0]
        migration = convert(MigrationForm, args[_MIGRATION][1], f"{at}.pluginConfig[{number}].args")
        later += [f"{_MIGRATION}.{name}" for key, name in _LATER.items() if getattr(migration, key) is not None]
    if load.paused:
        raise InvalidInput(f"{field}.paused", True, "false", "a paused LowNodeLoad plans nothing")
    namespaces = namespaces_of(load.evictable_namespaces, f"{field}.evictableNamespaces")
    return RebalancerSettings(
        pools=_pools(load, field) if field else (),
        number_of_nodes=not_negative(load.number_of_nodes, f"{field}.numberOfNodes"),
        node_fit=load.node_fit,
        expires_s=float(positive(load.node_metric_expiration_seconds, f"{field}.nodeMetricExpirationSeconds")),
        include=tuple(namespaces.include),
        exclude=tuple(namespaces.exclude),
        pod_selectors=tuple(
            selector
            for i, pod_selector in enumerate(load.pod_selectors)
            if (selector := selector_of(pod_selector.selector, f"{field}.podSelectors[{i}].selector")) is not None
        ),
        node_selector=first_selector(
            (load.node_selector, f"{field}.nodeSelector"),
            (profile.node_selector, f"{at}.nodeSelector"),
            (given.node_selector, f"{where}: nodeSelector"),
        ),
        filter=_filter(migration, f"{at}.pluginConfig[{number}].args"),
        surges=migration.surge_single_replicas,
        limits=_limits(given, migration, where, f"{at}.pluginConfig[{number}].args"),
        acting=_acting(given, migration, where, f"{at}.pluginConfig[{number}].args"),
        kinds=kinds,
        not_applied=tuple(later),
    )


def _profile(given: ConfigurationForm, where: str) -> tuple[str, ProfileForm]:
    """The profile that enables a kind of moves, and its path."""
    found = []
    for i, profile in enumerate(given.profiles):
        at = f"{where}: profiles[{i}]"
        for point, built in _WHERE_ENABLED.items():
            for j, entry in enumerate(getattr(profile.plugins, point).enabled):
                if entry.name not in built:
                    raise InvalidInput(
                        f"{at}.plugins.{point}.enabled[{j}].name",
                        entry.name,
                        " or ".join(built),
                        "no other plugin is built",
                    )
        if profile.plugins.deschedule.enabled or profile.plugins.balance.enabled:
            found.append((at, profile))
    if len(found) != 1:
        raise InvalidInput(
            f"{where}: profiles",
            f"{len(found)} of {len(given.profiles)} enable a plugin that moves pods",
            "one profile with plugins.balance.enabled: [{name: LowNodeLoad}], or with another plugin",
        )
    return found[0]


def _pools(load: LowNodeLoadForm, field: str) -> tuple[NodePool, ...]:
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
        selector = None if pool.node_selector is None else selector_of(pool.node_selector, f"{at}.nodeSelector")
        found.append(NodePool(pool.name, percentages, selector, *_rest(pool, load, at)))
    if not found:
        raise InvalidInput(
            field, "without thresholds", "lowThresholds and highThresholds in percent, such as {cpu: 45}"
        )
    return tuple(found)


def _percentages(given: ThresholdsForm, base: ThresholdsForm | None, field: str) -> Percentages:
    def of(name: str) -> dict[str, float]:
        own = getattr(given, name)
        return dict((own if own is not None else getattr(base, name, None)) or {})

    names = ("low_thresholds", "high_thresholds", "prod_low_thresholds", "prod_high_thresholds")
    low, high, prod_low, prod_high = map(of, names)
    for written, values in (
        ("lowThresholds", low),
        ("highThresholds", high),
        ("prodLowThresholds", prod_low),
        ("prodHighThresholds", prod_high),
    ):
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
    for lows, highs, words in (
        (low, high, ("lowThresholds", "highThresholds")),
        (prod_low, prod_high, ("prodLowThresholds", "prodHighThresholds")),
    ):
        for name in lows.keys() - highs.keys():
            raise InvalidInput(f"{field}.{words[0]}.{name}", lows[name], f"{words[1]}.{name} too")
    return Percentages(low, high, prod_low, prod_high, deviation)


def _rest(
    given: ThresholdsForm, base: ThresholdsForm | None, field: str
) -> tuple[Mapping[str, int], AnomalyCondition | None]:
    weights = given.resource_weights if given.resource_weights is not None else getattr(base, "resource_weights", None)
    written = given.anomaly_condition or getattr(base, "anomaly_condition", None)
    usual = AnomalyCondition()
    if written is None:
        return dict(weights or {}), usual
    at = f"{field}.anomalyCondition"
    timeout = written.timeout
    return dict(weights or {}), AnomalyCondition(
        usual.abnormal
        if written.consecutive_abnormalities is None
        else positive(written.consecutive_abnormalities, f"{at}.consecutiveAbnormalities"),
        usual.normal
        if written.consecutive_normalities is None
        else positive(written.consecutive_normalities, f"{at}.consecutiveNormalities"),
        usual.timeout_s if timeout is None else duration_s(timeout, f"{at}.timeout"),
    )


def _filter(given: MigrationForm, field: str) -> EvictionFilter:
    gates = set()
    for i, name in enumerate(given.skip_eviction_gates):
        one_of(name, tuple(map(str, EvictionGate)), f"{field}.skipEvictionGates[{i}]")
        gates.add(EvictionGate(name))
    if given.priority_threshold.name:
        raise InvalidInput(
            f"{field}.priorityThreshold.name",
            given.priority_threshold.name,
            "value: priority classes are not looked up",
        )
    namespaces = namespaces_of(given.namespaces, f"{field}.namespaces")
    return EvictionFilter(
        evicts_bare_pods=given.evict_all_bare_pods,
        evicts_system_critical=given.evict_system_critical_pods,
        evicts_local_storage=given.evict_local_storage_pods,
        ignores_claims=given.ignore_pvc_pods,
        priority_threshold=given.priority_threshold.value,
        selector=None if given.label_selector is None else selector_of(given.label_selector, f"{field}.labelSelector"),
        include=tuple(namespaces.include),
        exclude=tuple(namespaces.exclude),
        checks_replicas=not given.skip_check_expected_replicas,
        max_moving=share_of(given.max_migrating_per_workload, f"{field}.maxMigratingPerWorkload"),
        max_unavailable=share_of(given.max_unavailable_per_workload, f"{field}.maxUnavailablePerWorkload"),
        skip=frozenset(gates),
    )


def _limits(given: ConfigurationForm, migration: MigrationForm, where: str, field: str) -> MoveLimits:
    def read(value: int | None, name: str) -> int | None:
        return None if value is None else not_negative(value, name)

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


def _acting(given: ConfigurationForm, migration: MigrationForm, where: str, field: str) -> ActingSettings:
    usual = ActingSettings()
    acts = None
    if given.dry_run is not None or migration.dry_run is not None:
        acts = not (given.dry_run or migration.dry_run)
    interval, ttl, qps = given.descheduling_interval, migration.default_job_ttl, migration.evict_qps
    interval_s = usual.interval_s if interval is None else duration_s(interval, f"{where}: deschedulingInterval")
    if interval_s <= 0:
        raise InvalidInput(f"{where}: deschedulingInterval", interval, "more than 0")
    options = migration.default_delete_options or {}
    grace_s = options.get("gracePeriodSeconds")
    if grace_s is not None and (not isinstance(grace_s, int) or isinstance(grace_s, bool) or grace_s < 0):
        raise InvalidInput(f"{field}.defaultDeleteOptions.gracePeriodSeconds", grace_s, "0 or more seconds")
    mode, policy = migration.default_job_mode or usual.mode, migration.eviction_policy or EvictPolicy.EVICTION
    one_of(mode, tuple(map(str, JobMode)), f"{field}.defaultJobMode")
    one_of(policy, tuple(map(str, EvictPolicy)), f"{field}.evictionPolicy")
    limit, ignored = _object_limit(migration, field)
    ignored += [f"{_MIGRATION}.{name}" for key, name in _IGNORED.items() if getattr(migration, key) is not None]
    return ActingSettings(
        acts=acts,
        interval_s=interval_s,
        mode=JobMode(mode),
        ttl_s=usual.ttl_s if ttl is None else 0.0 if ttl == "0" else duration_s(ttl, f"{field}.defaultJobTTL"),
        grace_s=grace_s,
        evictions_per_s=usual.evictions_per_s if qps is None else rate_of(qps, f"{field}.evictQPS"),
        burst=usual.burst if migration.evict_burst is None else positive(migration.evict_burst, f"{field}.evictBurst"),
        migration=MigrationSettings(
            policy=EvictPolicy(policy),
            per_minute=None
            if migration.max_evictions_per_minute is None
            else not_negative(migration.max_evictions_per_minute, f"{field}.maxEvictionsPerMinute"),
            per_workload=limit,
        ),
        ignored=tuple(ignored),
    )


def _object_limit(migration: MigrationForm, field: str) -> tuple[ObjectLimit, list[str]]:
    """The rate of each workload, and what has no effect."""
    limits = dict(migration.object_limiters or {})
    written = limits.pop("workload", None)
    ignored = [f"{_MIGRATION}.objectLimiters.{name}" for name in limits]
    if written is None:
        return ObjectLimit(), ignored
    at = f"{field}.objectLimiters.workload"
    if not isinstance(written, dict):
        raise InvalidInput(at, written, "duration, maxMigrating and burst")
    for name in written.keys() - {"duration", "maxMigrating", "burst"}:
        raise InvalidInput(f"{at}.{name}", written[name], "duration, maxMigrating or burst")
    usual = ObjectLimit()
    duration, burst = written.get("duration"), written.get("burst")
    return ObjectLimit(
        usual.duration_s
        if duration is None
        else 0.0
        if duration in (0, "0")
        else duration_s(str(duration), f"{at}.duration"),
        share_of(written.get("maxMigrating"), f"{at}.maxMigrating"),
        usual.burst if burst is None else positive(burst, f"{at}.burst"),
    ), ignored
