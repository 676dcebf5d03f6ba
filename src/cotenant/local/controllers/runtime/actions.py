"""What a controller wants done, as values.

Problem: a reconcile function that writes cannot be tested by table, nor replayed. Choice: it returns a `Plan` of actions; the runner carries
them out. Limits: actions of one plan are carried out in order (creations and deletions that stand side by side at the same time), and the
first that fails ends the plan: the next reconcile starts from what is then true.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from cotenant.local.apiserver.contract import Manifest
from cotenant.local.controllers.views.core import View

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
BUDGETS: ResourceName = ("policy", "poddisruptionbudgets")
LEASES: ResourceName = ("coordination.k8s.io", "leases")
STORAGE_CLASSES: ResourceName = ("storage.k8s.io", "storageclasses")


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object."""

    resource: ResourceName
    namespace: str
    obj: Manifest


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge `body` into an object. With `resource_version` only if it has not changed since."""

    resource: ResourceName
    namespace: str
    name: str
    body: Manifest
    subresource: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object, only if it still has this UID. Already gone is success."""

    resource: ResourceName
    namespace: str
    name: str
    uid: str
    grace_s: int | None = None
    propagation: str = "Background"


@dataclass(frozen=True, slots=True)
class Note:
    """Tell the user about it: an Event on `about`."""

    about: View
    kind: str
    api_version: str
    type: str  # Normal or Warning
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Empty:
    """Delete every object of a resource in a namespace."""

    resource: ResourceName
    namespace: str


@dataclass(frozen=True, slots=True)
class Finalize:
    """Take a namespace's last finalizer: its content is gone."""

    name: str


Action: TypeAlias = Create | Patch | Delete | Note | Empty | Finalize


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in order, why, and when to look again even if nothing happens."""

    actions: tuple[Action, ...] = ()
    reason: str = "nothing to do"
    again_at_s: float | None = None  # Unix time


@dataclass(slots=True)
class Draft:
    """A plan while it is being made."""

    actions: list[Action] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    again_at_s: float | None = None

    def add(self, action: Action, why: str = "") -> None:
        """One more action."""
        self.actions.append(action)
        if why:
            self.reasons.append(why)

    def again(self, at_s: float | None) -> None:
        """Look again at this time, or earlier if someone asked for that."""
        if at_s is not None and (self.again_at_s is None or at_s < self.again_at_s):
            self.again_at_s = at_s

    def plan(self, otherwise: str = "nothing to do") -> Plan:
        """The finished plan."""
        return Plan(tuple(self.actions), "; ".join(self.reasons) or otherwise, self.again_at_s)
