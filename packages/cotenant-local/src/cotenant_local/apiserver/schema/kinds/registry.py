"""The defaults and validation rules of each built-in kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.custom import definition
from cotenant_local.apiserver.schema.kinds import (
    autoscalers,
    cluster,
    configuration,
    cron_jobs,
    disruption,
    eviction_requests,
    ingresses,
    jobs,
    limit_ranges,
    node,
    pod,
    resource_quotas,
    service,
    storage,
    webhooks,
    workloads,
)
from cotenant_local.apiserver.schema.kinds.claims import allocations, flat, requests, slices, taints


@dataclass(frozen=True, slots=True)
class KindRules:
    """`default` sets defaults in place; `validate` returns validation errors (`old`: the stored object on update).

    `is_about_spec`: the rules depend on the spec alone, so a valid spec can be cached.
    """

    default: Callable[[Manifest], None]
    validate: Callable[[Manifest, Manifest | None], list[FieldError]]
    is_about_spec: bool = False


def _no_defaults(_: Manifest) -> None:
    return


def _no_rules(_: Manifest, __: Manifest | None) -> list[FieldError]:
    return []


NONE = KindRules(_no_defaults, _no_rules)


def rules_of(group: str, kind: str, version: str = "v1") -> KindRules:
    """The rules of a kind; a kind without rules accepts everything and sets no defaults."""
    rules = _RULES.get((group, kind), NONE)
    return _flat(rules) if flat.is_flat(group, version) else rules


def _flat(rules: KindRules) -> KindRules:
    """The rules of a kind for its form in v1beta1; what they find is at the paths of v1, as upstream reports it."""

    def default(obj: Manifest) -> None:
        plain = flat.from_flat(obj)
        rules.default(plain)
        obj.update(flat.to_flat(plain))

    def validate(obj: Manifest, old: Manifest | None) -> list[FieldError]:
        return rules.validate(flat.from_flat(obj), None if old is None else flat.from_flat(old))

    return KindRules(default, validate)


_RULES: dict[tuple[str, str], KindRules] = {
    ("", "Pod"): KindRules(pod.default_pod, pod.check_pod, is_about_spec=True),
    ("", "Node"): KindRules(node.default_node, node.check_node),
    ("", "Service"): KindRules(service.default_service, service.check_service),
    ("", "ConfigMap"): KindRules(_no_defaults, configuration.check_config_map),
    ("", "Secret"): KindRules(configuration.default_secret, configuration.check_secret),
    ("", "LimitRange"): KindRules(limit_ranges.default_range, limit_ranges.check_range),
    ("", "ResourceQuota"): KindRules(_no_defaults, resource_quotas.check_quota),
    ("", "Namespace"): KindRules(configuration.default_namespace, _no_rules),
    ("", "Event"): KindRules(_no_defaults, cluster.check_event),
    ("", "PersistentVolume"): KindRules(storage.default_volume, storage.check_volume),
    ("", "PersistentVolumeClaim"): KindRules(storage.default_claim, storage.check_claim),
    ("storage.k8s.io", "StorageClass"): KindRules(storage.default_class, storage.check_class),
    ("apps", "Deployment"): KindRules(workloads.default_deployment, workloads.check_deployment),
    ("apps", "ReplicaSet"): KindRules(workloads.default_replica_set, workloads.check_replica_set),
    ("apps", "StatefulSet"): KindRules(workloads.default_stateful_set, workloads.check_stateful_set),
    ("apps", "DaemonSet"): KindRules(workloads.default_daemon_set, workloads.check_daemon_set),
    ("batch", "Job"): KindRules(jobs.default_job, jobs.check_job),
    ("autoscaling", "HorizontalPodAutoscaler"): KindRules(autoscalers.default_autoscaler, autoscalers.check_autoscaler),
    ("batch", "CronJob"): KindRules(cron_jobs.default_cron_job, cron_jobs.check_cron_job),
    ("networking.k8s.io", "Ingress"): KindRules(_no_defaults, ingresses.check_ingress),
    ("networking.k8s.io", "IngressClass"): KindRules(ingresses.default_class, ingresses.check_class),
    ("policy", "PodDisruptionBudget"): KindRules(_no_defaults, disruption.check_budget),
    ("lifecycle.k8s.io", "EvictionRequest"): KindRules(_no_defaults, eviction_requests.check_request),
    ("lifecycle.k8s.io", "Eviction"): KindRules(_no_defaults, eviction_requests.check_eviction),
    ("scheduling.k8s.io", "PriorityClass"): KindRules(cluster.default_priority_class, cluster.check_priority_class),
    ("resource.k8s.io", "DeviceClass"): KindRules(_no_defaults, requests.check_class),
    ("resource.k8s.io", "DeviceTaintRule"): KindRules(taints.default_rule, taints.check_rule),
    ("resource.k8s.io", "ResourceClaim"): KindRules(requests.default_claim, allocations.check_claim),
    ("resource.k8s.io", "ResourceClaimTemplate"): KindRules(requests.default_template, requests.check_template),
    ("resource.k8s.io", "ResourceSlice"): KindRules(slices.default_slice, slices.check_slice),
    ("coordination.k8s.io", "Lease"): KindRules(_no_defaults, cluster.check_lease),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): KindRules(
        definition.default_definition, definition.check_definition
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): KindRules(
        webhooks.default_mutating, webhooks.check_webhooks
    ),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): KindRules(
        webhooks.default_validating, webhooks.check_webhooks
    ),
}
