"""ResourceQuota: what a namespace may request. Which pods a scope selects is not read, only that there is one."""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Quantities
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.cluster.namespace_quota import NamespaceQuota
from cotenant.model.quantities import parse_quantity


class ScopeTerm(ApiStruct, frozen=True):
    """One condition on pods."""

    scope_name: str | None = None


class ScopeSelector(ApiStruct, frozen=True):
    """Conditions on pods."""

    match_expressions: list[ScopeTerm] | None = None


class QuotaSpec(ApiStruct, frozen=True):
    """The limits as they were written, and the pods that they count."""

    hard: Quantities = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class QuotaObjectStatus(ApiStruct, frozen=True):
    """The limits that are enforced, and what is used of them."""

    hard: Quantities = None
    used: Quantities = None


class ResourceQuota(ApiStruct, frozen=True):
    """v1 ResourceQuota."""

    metadata: ObjectMeta = ObjectMeta()
    spec: QuotaSpec | None = None
    status: QuotaObjectStatus | None = None


RESOURCE_QUOTAS = Kind("ResourceQuota", "", "v1", "resourcequotas", True, ResourceQuota)


def read_resource_quota(obj: ResourceQuota) -> NamespaceQuota:
    """The quota; before its controller has seen it, nothing is used. Raises `InvalidInput`."""
    meta, spec, status = obj.metadata, obj.spec or QuotaSpec(), obj.status or QuotaObjectStatus()
    where = f"ResourceQuota {meta.namespace}/{meta.name}"
    is_scoped = bool(spec.scopes or (spec.scope_selector and spec.scope_selector.match_expressions))
    return NamespaceQuota(
        meta.namespace or "default",
        meta.name or "",
        _nano(status.hard or spec.hard, f"{where}: hard"),
        _nano(status.used, f"{where}: used"),
        is_scoped,
    )


def _nano(amounts: Quantities, where: str) -> dict[str, int]:
    return {name: parse_quantity(amount, f"{where}[{name}]").nano for name, amount in (amounts or {}).items()}
