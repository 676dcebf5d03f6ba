"""The actions of a controller's plan, as values.

A reconcile function that writes cannot be tested by table, nor replayed. It returns a `Plan` of actions, which the
runner executes.
Limits: the actions of one plan run in order (consecutive creations or deletions run concurrently), and the first
failure ends the plan: the next reconcile starts from the state found then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.views.core import Meta

ResourceName: TypeAlias = tuple[str, str]  # (group, plural)

PODS: ResourceName = ("", "pods")
NODES: ResourceName = ("", "nodes")
NAMESPACES: ResourceName = ("", "namespaces")
CLAIMS: ResourceName = ("", "persistentvolumeclaims")
VOLUMES: ResourceName = ("", "persistentvolumes")
EVENTS: ResourceName = ("", "events")
DEPLOYMENTS: ResourceName = ("apps", "deployments")
REPLICA_SETS: ResourceName = ("apps", "replicasets")
STATEFUL_SETS: ResourceName = ("apps", "statefulsets")
DAEMON_SETS: ResourceName = ("apps", "daemonsets")
REVISIONS: ResourceName = ("apps", "controllerrevisions")
JOBS: ResourceName = ("batch", "jobs")
CRON_JOBS: ResourceName = ("batch", "cronjobs")
AUTOSCALERS: ResourceName = ("autoscaling", "horizontalpodautoscalers")
WORKLOADS: ResourceName = ("scheduling.k8s.io", "workloads")
POD_GROUPS: ResourceName = ("scheduling.k8s.io", "podgroups")
QUOTAS: ResourceName = ("", "resourcequotas")
BUDGETS: ResourceName = ("policy", "poddisruptionbudgets")
LEASES: ResourceName = ("coordination.k8s.io", "leases")
RESOURCE_CLAIMS: ResourceName = ("resource.k8s.io", "resourceclaims")
CLAIM_TEMPLATES: ResourceName = ("resource.k8s.io", "resourceclaimtemplates")
DEVICE_CLASSES: ResourceName = ("resource.k8s.io", "deviceclasses")
TAINT_RULES: ResourceName = ("resource.k8s.io", "devicetaintrules")
RESOURCE_SLICES: ResourceName = ("resource.k8s.io", "resourceslices")
EVICTION_REQUESTS: ResourceName = ("lifecycle.k8s.io", "evictionrequests")
EVICTIONS: ResourceName = ("lifecycle.k8s.io", "evictions")
STORAGE_CLASSES: ResourceName = ("storage.k8s.io", "storageclasses")


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object."""

    resource: ResourceName
    namespace: str
    obj: Manifest


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge `body` into an object. With `resource_version`, only if the object has not changed since."""

    resource: ResourceName
    namespace: str
    name: str
    body: Manifest
    subresource: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object, only if it still has this UID. A missing object counts as success."""

    resource: ResourceName
    namespace: str
    name: str
    uid: str
    grace_s: int | None = None
    propagation: str = "Background"


class HasMetadata(Protocol):
    """An API object of any kind."""

    @property
    def metadata(self) -> Meta:
        """Its metadata."""
        ...


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Record an Event about the object `about`."""

    about: HasMetadata
    kind: str
    api_version: str
    type: str  # Normal or Warning
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class DeleteAll:
    """Delete every object of a resource in a namespace."""

    resource: ResourceName
    namespace: str


@dataclass(frozen=True, slots=True)
class FinalizeNamespace:
    """Remove a namespace's last finalizer, once it has no content."""

    name: str


@dataclass(frozen=True, slots=True)
class EvictWithinBudgets:
    """Evict a pod within its disruption budgets, only if it still has this UID. A missing pod counts as success."""

    namespace: str
    name: str
    uid: str


Action: TypeAlias = Create | Patch | Delete | EmitEvent | DeleteAll | FinalizeNamespace | EvictWithinBudgets


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in order, the reason, and when to reconcile again even without an event."""

    actions: tuple[Action, ...] = ()
    reason: str = "nothing to do"
    requeue_at_s: float | None = None  # Unix time


@dataclass(slots=True)
class Draft:
    """A plan under construction."""

    actions: list[Action] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    requeue_at_s: float | None = None

    def add(self, action: Action, why: str = "") -> None:
        """Append an action and, if given, its reason."""
        self.actions.append(action)
        if why:
            self.reasons.append(why)

    def requeue_at(self, at_s: float | None) -> None:
        """Reconcile again at this time; an earlier time already set stays."""
        if at_s is not None and (self.requeue_at_s is None or at_s < self.requeue_at_s):
            self.requeue_at_s = at_s

    def plan(self, otherwise: str = "nothing to do") -> Plan:
        """The finished plan."""
        return Plan(tuple(self.actions), "; ".join(self.reasons) or otherwise, self.requeue_at_s)
