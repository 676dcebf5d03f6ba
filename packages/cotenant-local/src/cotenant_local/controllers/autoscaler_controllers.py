"""The controller of HorizontalPodAutoscalers: gathers the target, its pods and what these use. The rules are in
`workloads/autoscaler.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from cotenant_local.controllers.runtime.actions import (
    AUTOSCALERS,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Plan,
    ResourceName,
)
from cotenant_local.controllers.runtime.cache import CachedObjects, Key, NamedObject
from cotenant_local.controllers.runtime.controller import GONE, ResourceController
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.runtime.runner import Enqueue
from cotenant_local.controllers.views.autoscaling import Autoscaler
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.views.workloads import DeploymentView, ReplicaSet, StatefulSet
from cotenant_local.controllers.workloads import autoscaler
from cotenant_local.controllers.workloads.replica_count import MetricPodUse
from cotenant_local.controllers.workloads.scaling_pace import ScalingHistory

PodUses = Callable[[Sequence[PodObjectView]], Mapping[str, MetricPodUse]]
"""What these pods of one namespace use now, by name; those that do not run are left out."""

_KINDS: dict[tuple[str, str], ResourceName] = {
    ("apps", "Deployment"): DEPLOYMENTS,
    ("apps", "ReplicaSet"): REPLICA_SETS,
    ("apps", "StatefulSet"): STATEFUL_SETS,
}


def nothing_measured(_: Sequence[PodObjectView]) -> Mapping[str, MetricPodUse]:
    """The use of pods on a cluster that measures none."""
    return {}


class Autoscalers(ResourceController):
    """HorizontalPodAutoscaler."""

    resource, name = AUTOSCALERS, "horizontal-pod-autoscaler"

    def __init__(
        self, informers: Informers, clock: Callable[[], float] = time.time, uses: PodUses = nothing_measured
    ) -> None:
        super().__init__(informers, clock)
        self._uses = uses
        self._histories: dict[str, ScalingHistory] = {}  # by UID

    def attach(self, enqueue: Enqueue) -> None:
        """Subscribe to autoscalers; targets and pods are read when a period is over."""
        super().attach(enqueue)
        self._pods: CachedObjects[PodObjectView] = self._informers.store(PODS)
        self._targets: dict[ResourceName, CachedObjects[DeploymentView | ReplicaSet | StatefulSet]] = {
            resource: self._informers.store(resource) for resource in _KINDS.values()
        }

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `autoscaler.reconcile`."""
        found: Autoscaler | None = self._own.store.get(*key)
        if found is None:
            return GONE
        history = self._histories.setdefault(found.metadata.uid, ScalingHistory())
        target = self._target(found)
        use = self._uses(target.pods) if target is not None and target.wanted else {}
        return autoscaler.reconcile(found, target, use, history, now_s)

    def _target(self, found: Autoscaler) -> autoscaler.ScaledTarget | None:
        resource, seen = self._scaled(found)
        if seen is None or resource is None:
            return None
        namespace = found.metadata.namespace
        selector = seen.spec.selector
        pods = [pod for pod in self._pods.by("namespace", namespace) if selector.matches(pod.metadata.labels)]
        scalers = [
            other.metadata.name for other in self._own.store.by("namespace", namespace) if self._selects(other, pods)
        ]
        return autoscaler.ScaledTarget(resource, seen.spec.replicas, seen.status.replicas, pods, selector.text, scalers)

    def _scaled(
        self, found: Autoscaler
    ) -> tuple[ResourceName | None, DeploymentView | ReplicaSet | StatefulSet | None]:
        """What an autoscaler names, as far as it is there."""
        reference = found.spec.scale_target_ref
        resource = _KINDS.get((reference.api_version.rpartition("/")[0], reference.kind))
        if resource is None:
            return None, None
        return resource, self._targets[resource].get(found.metadata.namespace, reference.name)

    def _selects(self, other: Autoscaler, pods: Sequence[PodObjectView]) -> bool:
        _, seen = self._scaled(other)
        return seen is not None and any(seen.spec.selector.matches(pod.metadata.labels) for pod in pods)

    def _changed(self, old: NamedObject | None, new: NamedObject | None) -> None:
        """Only a new specification is judged before the period is over: a status is what it wrote itself."""
        if new is None:
            if old is not None:
                self._histories.pop(old.metadata.uid, None)
        elif not isinstance(old, Autoscaler) or not isinstance(new, Autoscaler) or old.spec != new.spec:
            self._enqueue(new.metadata.key)
