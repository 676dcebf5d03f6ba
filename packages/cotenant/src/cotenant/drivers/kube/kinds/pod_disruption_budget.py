"""PodDisruptionBudget: how many of the selected pods may still be disrupted."""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Int32, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.drivers.kube.kinds.selectors import Selector, read_label_selector
from cotenant.model.cluster.observed import DisruptionBudget


class BudgetSpec(ApiStruct, frozen=True):
    """The pods that a budget covers."""

    selector: Selector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatus(ApiStruct, frozen=True):
    """What a budget has left."""

    disruptions_allowed: Int32 | None = None
    disrupted_pods: dict[str, str] | None = None
    observed_generation: int | None = None
    current_healthy: Int32 | None = None
    desired_healthy: Int32 | None = None


class PodDisruptionBudget(ApiStruct, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


POD_DISRUPTION_BUDGETS = Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", True, PodDisruptionBudget)

_ALWAYS = "AlwaysAllow"


def read_budget(obj: PodDisruptionBudget) -> DisruptionBudget:
    """A disruption budget. One whose status is older than its spec allows nothing, as in the eviction API. Raises
    `InvalidInput`.
    """
    meta, spec, status = obj.metadata, obj.spec or BudgetSpec(), obj.status or BudgetStatus()
    healthy, desired = status.current_healthy or 0, status.desired_healthy or 0
    current = (status.observed_generation or 0) >= (meta.generation or 0)
    return DisruptionBudget(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        selector=read_label_selector(spec.selector, f"PodDisruptionBudget {meta.namespace}/{meta.name}: selector"),
        allowed=max(0, status.disruptions_allowed or 0) if current else 0,
        disrupted=frozenset(status.disrupted_pods or ()),
        spares_unready=spec.unhealthy_pod_eviction_policy == _ALWAYS or (current and healthy >= desired > 0),
    )
