"""The form of a KubeSchedulerConfiguration v1, field by field as kube-scheduler has it: an unknown field, or a value of
another type, is refused with its path.

Source: k8s.io/kube-scheduler/config/v1, v1.36.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct, field

from cotenant.drivers.kube.kinds.kind import Int32
from cotenant.drivers.kube.kinds.pod.affinity import ApiNodeAffinity
from cotenant.model.document import split_refusal
from cotenant.model.errors import InvalidInput

_UNKNOWN = "Object contains unknown field `"

S = TypeVar("S")


def read_form(form: type[S], given: object, path: str, what: str) -> S:
    """The form from a document that stands at `path`. Raises `InvalidInput` with the path of the field."""
    try:
        return msgspec.convert(given, form)
    except msgspec.ValidationError as error:
        said, inside = split_refusal(error)
        where = ".".join(part for part in (path, inside) if part)
        if said.startswith(_UNKNOWN):
            name = said.removeprefix(_UNKNOWN).rstrip("`")
            raise InvalidInput(f"{where}.{name}".lstrip("."), "unknown", f"a field of a {what}") from None
        raise InvalidInput(where or "document", "not usable", f"fields of a {what}", said) from None
    except RecursionError:
        raise InvalidInput(path or "document", "an alias inside itself", f"fields of a {what}") from None


class Strict(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Base of all forms."""


class LeaderElection(Strict, frozen=True):
    """Durations are text, as Go writes them."""

    leader_elect: bool | None = None
    lease_duration: str | None = None
    renew_deadline: str | None = None
    retry_period: str | None = None
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


class ClientConnection(Strict, frozen=True):
    """Of the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: Int32 = 0


class PluginForm(Strict, frozen=True):
    """A plugin at a point."""

    name: str
    weight: Int32 | None = None


class PluginSet(Strict, frozen=True):
    """Of a point."""

    enabled: tuple[PluginForm, ...] = ()
    disabled: tuple[PluginForm, ...] = ()


class Plugins(Strict, frozen=True):
    """By extension point."""

    multi_point: PluginSet = PluginSet()
    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()


class PluginConfig(Strict, frozen=True):
    """Arguments of a plugin, in the plugin's own form."""

    name: str
    args: dict[str, object] = {}


class SchedulerProfile(Strict, frozen=True):
    """KubeSchedulerProfile."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class ManagedResource(Strict, frozen=True):
    """An extended resource of an extender."""

    name: str
    ignored_by_scheduler: bool = False


class TlsConfig(Strict, frozen=True):
    """Files, or base64 of their contents, which count before them."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class ExtenderForm(Strict, frozen=True):
    """An extender."""

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = field(default=False, name="enableHTTPS")
    tls_config: TlsConfig | None = None
    http_timeout: str | None = None
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


class SchedulerConfiguration(Strict, frozen=True):
    """KubeSchedulerConfiguration."""

    api_version: str
    kind: str
    parallelism: Int32 | None = None
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    pod_initial_backoff_seconds: int | None = None
    pod_max_backoff_seconds: int | None = None
    profiles: tuple[SchedulerProfile, ...] = ()
    extenders: tuple[ExtenderForm, ...] = ()
    delay_cache_until_active: bool = False


# ---- arguments of plugins


class PluginArgs(Strict, frozen=True):
    """What every plugin's arguments may have."""

    api_version: str = ""
    kind: str = ""


class ResourceForm(Strict, frozen=True):
    """With its weight; 0 is the default, 1."""

    name: str
    weight: int = 0


class Point(Strict, frozen=True):
    """Of a shape."""

    utilization: Int32
    score: Int32


class Ratio(Strict, frozen=True):
    """RequestedToCapacityRatioParam."""

    shape: tuple[Point, ...] = ()


class ScoringStrategy(Strict, frozen=True):
    """Of NodeResourcesFit."""

    type: str = ""
    resources: tuple[ResourceForm, ...] = ()
    requested_to_capacity_ratio: Ratio | None = None


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    """Of NodeResourcesFit."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy | None = None


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    """Of NodeResourcesBalancedAllocation."""

    resources: tuple[ResourceForm, ...] = ()


class InterPodAffinityArgs(PluginArgs, frozen=True):
    """Of InterPodAffinity."""

    hard_pod_affinity_weight: Int32 | None = None
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(PluginArgs, frozen=True):
    """Of NodeAffinity."""

    added_affinity: ApiNodeAffinity | None = None


class DefaultConstraint(Strict, frozen=True):
    """TopologySpreadConstraint; `labelSelector` is refused, as it is deduced for each pod."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: dict[str, object] | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    """Of PodTopologySpread."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: str = ""


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    """Of DefaultPreemption."""

    min_candidate_nodes_percentage: Int32 | None = None
    min_candidate_nodes_absolute: Int32 | None = None


class VolumeBindingArgs(PluginArgs, frozen=True):
    """Of VolumeBinding."""

    bind_timeout_seconds: int | None = None
    shape: tuple[Point, ...] = ()


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """Of DynamicResources."""

    filter_timeout: str | None = None
    binding_timeout: str | None = None


ARGS: dict[str, type[PluginArgs]] = {
    "NodeResourcesFit": NodeResourcesFitArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "DefaultPreemption": DefaultPreemptionArgs,
    "VolumeBinding": VolumeBindingArgs,
    "DynamicResources": DynamicResourcesArgs,
}
