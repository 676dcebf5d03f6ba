"""The fields of a DeschedulerConfiguration, with the args of LowNodeLoad and MigrationController, as they are written.

An unknown field is refused by `RebalancerForm`. Fields that matter only where moves are carried out are here too.
Source: Koordinator, pkg/descheduler/apis/config/v1alpha2.
"""

from __future__ import annotations

import msgspec

from cotenant.services.rebalancer.forms import NamespacesForm, RebalancerForm, SelectorForm

API = "descheduler/v1alpha2"


class NamedForm(RebalancerForm, frozen=True):
    """A plugin by its name."""

    name: str


class PluginSetForm(RebalancerForm, frozen=True):
    """The plugins of one point."""

    enabled: tuple[NamedForm, ...] = ()
    disabled: tuple[NamedForm, ...] = ()


class PluginsForm(RebalancerForm, frozen=True):
    """The plugins of a profile, by point."""

    deschedule: PluginSetForm = PluginSetForm()
    balance: PluginSetForm = PluginSetForm()
    evict: PluginSetForm = PluginSetForm()
    filter: PluginSetForm = PluginSetForm()


class PluginConfigForm(RebalancerForm, frozen=True):
    """The args of one plugin."""

    name: str
    args: dict[str, object] = msgspec.field(default_factory=dict)


class ProfileForm(RebalancerForm, frozen=True):
    """One profile."""

    name: str = ""
    node_selector: SelectorForm | None = None
    plugins: PluginsForm = PluginsForm()
    plugin_config: tuple[PluginConfigForm, ...] = ()


class ConfigurationForm(RebalancerForm, frozen=True):
    """The whole file."""

    api_version: str = API
    kind: str = "DeschedulerConfiguration"
    dry_run: bool | None = None
    descheduling_interval: str | None = None
    node_selector: SelectorForm | None = None
    max_no_of_pods_to_evict_per_node: int | None = None
    max_no_of_pods_to_evict_per_namespace: int | None = None
    max_no_of_pods_to_evict_total: int | None = None
    profiles: tuple[ProfileForm, ...] = ()


class AnomalyForm(RebalancerForm, frozen=True):
    """After how many rounds a node counts as overloaded."""

    timeout: str | None = None
    consecutive_abnormalities: int | None = None
    consecutive_normalities: int | None = None


class ThresholdsForm(RebalancerForm, frozen=True):
    """Thresholds in percent, at the top level or of a pool."""

    use_deviation_thresholds: bool = False
    high_thresholds: dict[str, float] | None = None
    low_thresholds: dict[str, float] | None = None
    prod_high_thresholds: dict[str, float] | None = None
    prod_low_thresholds: dict[str, float] | None = None
    resource_weights: dict[str, int] | None = None
    anomaly_condition: AnomalyForm | None = None


class PoolForm(ThresholdsForm, frozen=True):
    """A pool of nodes with thresholds of its own."""

    name: str = ""
    node_selector: SelectorForm | None = None


class PodSelectorForm(RebalancerForm, frozen=True):
    """Pods that may move."""

    name: str = ""
    selector: SelectorForm = SelectorForm()


class LowNodeLoadForm(ThresholdsForm, frozen=True):
    """The args of LowNodeLoad."""

    api_version: str = API
    kind: str = "LowNodeLoadArgs"
    paused: bool = False
    dry_run: bool = False
    number_of_nodes: int = 0
    node_metric_expiration_seconds: int = 180
    node_fit: bool = True
    evictable_namespaces: NamespacesForm = NamespacesForm()
    node_selector: SelectorForm | None = None
    pod_selectors: tuple[PodSelectorForm, ...] = ()
    detector_cache_timeout: str | None = None
    node_pools: tuple[PoolForm, ...] = ()


class PriorityForm(RebalancerForm, frozen=True):
    """The priority from which on pods stay."""

    name: str = ""
    value: int | None = None


class MigrationForm(RebalancerForm, frozen=True):
    """The args of MigrationController."""

    api_version: str = API
    kind: str = "MigrationControllerArgs"
    dry_run: bool | None = None
    max_concurrent_reconciles: int | None = None
    evict_failed_bare_pods: bool = False
    evict_all_bare_pods: bool = False
    evict_local_storage_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    label_selector: SelectorForm | None = None
    namespaces: NamespacesForm = NamespacesForm()
    node_fit: bool | None = None
    node_selector: str | None = None
    priority_threshold: PriorityForm = PriorityForm()
    max_evictions_per_minute: int | None = 10  # ours
    surge_single_replicas: bool = False  # ours
    max_migrating_globally: int | None = None
    max_migrating_per_node: int | None = 2
    max_migrating_per_namespace: int | None = None
    max_migrating_per_workload: int | str | None = None
    max_unavailable_per_workload: int | str | None = None
    skip_check_expected_replicas: bool = False
    skip_eviction_gates: tuple[str, ...] = ()
    object_limiters: dict[str, object] | None = None
    default_job_mode: str | None = None
    default_job_ttl: str | None = msgspec.field(default=None, name="defaultJobTTL")
    evict_qps: float | str | None = msgspec.field(default=None, name="evictQPS")
    evict_burst: int | None = None
    eviction_policy: str | None = None
    default_delete_options: dict[str, object] | None = None
    scheduler_names: list[str] | None = None
    arbitration_args: dict[str, object] | None = None
