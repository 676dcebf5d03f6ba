"""Which defaults and rules a built-in kind has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cotenant.local.apiserver.contract import Cause, Manifest
from cotenant.local.apiserver.custom import definition
from cotenant.local.apiserver.schema.kinds import (
    cluster,
    configuration,
    disruption,
    jobs,
    node,
    pod,
    service,
    storage,
    webhooks,
    workloads,
)


@dataclass(frozen=True, slots=True)
class Rules:
    """`default` fills an object in; `validate` says what is wrong with it (`old`: the stored object on update).

    `is_about_spec`: its rules look at the spec alone, so the verdict on a spec holds wherever that spec comes again.
    """

    default: Callable[[Manifest], None]
    validate: Callable[[Manifest, Manifest | None], list[Cause]]
    is_about_spec: bool = False


def _leave(_: Manifest) -> None:
    return


def _accept(_: Manifest, __: Manifest | None) -> list[Cause]:
    return []


NONE = Rules(_leave, _accept)


def rules_of(group: str, kind: str) -> Rules:
    """The rules of a kind; those of a kind that has none of its own accept everything and fill in nothing."""
    return _RULES.get((group, kind), NONE)


_RULES: dict[tuple[str, str], Rules] = {
    ("", "Pod"): Rules(pod.default_pod, pod.check_pod, is_about_spec=True),
    ("", "Node"): Rules(node.default_node, node.check_node),
    ("", "Service"): Rules(service.default_service, service.check_service),
    ("", "ConfigMap"): Rules(_leave, configuration.check_config_map),
    ("", "Secret"): Rules(configuration.default_secret, configuration.check_secret),
    ("", "Namespace"): Rules(configuration.default_namespace, _accept),
    ("", "Event"): Rules(_leave, cluster.check_event),
    ("", "PersistentVolume"): Rules(storage.default_volume, storage.check_volume),
    ("", "PersistentVolumeClaim"): Rules(storage.default_claim, storage.check_claim),
    ("storage.k8s.io", "StorageClass"): Rules(storage.default_class, storage.check_class),
    ("apps", "Deployment"): Rules(workloads.default_deployment, workloads.check_deployment),
    ("apps", "ReplicaSet"): Rules(workloads.default_replica_set, workloads.check_replica_set),
    ("apps", "StatefulSet"): Rules(workloads.default_stateful_set, workloads.check_stateful_set),
    ("apps", "DaemonSet"): Rules(workloads.default_daemon_set, workloads.check_daemon_set),
    ("batch", "Job"): Rules(jobs.default_job, jobs.check_job),
    ("policy", "PodDisruptionBudget"): Rules(_leave, disruption.check_budget),
    ("scheduling.k8s.io", "PriorityClass"): Rules(cluster.default_priority_class, cluster.check_priority_class),
    ("coordination.k8s.io", "Lease"): Rules(_leave, cluster.check_lease),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): Rules(
        definition.default_definition, definition.check_definition
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): Rules(
        webhooks.default_mutating, webhooks.check_webhooks
    ),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): Rules(
        webhooks.default_validating, webhooks.check_webhooks
    ),
}
