"""Views of ResourceClaims, their templates, slices and taints of devices. Choice and limits as in `views/core.py`."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.views.core import Meta, View


class ConsumerView(View, frozen=True):
    """An entry of `status.reservedFor`."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""

    @property
    def is_pod(self) -> bool:
        """Whether it is a pod, not an object of another kind."""
        return self.resource == "pods" and not self.api_group

    @property
    def is_group(self) -> bool:
        """Whether it is a PodGroup of the Workload API."""
        return self.resource == "podgroups" and self.api_group == "scheduling.k8s.io"


class ClaimStatusView(View, frozen=True):
    """`status` of a ResourceClaim."""

    allocation: Manifest | None = None
    reserved_for: tuple[ConsumerView, ...] = ()


class ResourceClaimView(View, frozen=True):
    """A ResourceClaim."""

    metadata: Meta
    status: ClaimStatusView = ClaimStatusView()


class SliceView(View, frozen=True):
    """A ResourceSlice."""

    metadata: Meta
    spec: Manifest = field(default_factory=dict)


class DeviceTaintView(View, frozen=True):
    """A taint of a device."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime | None = None


class TaintSelectorView(View, frozen=True):
    """Which devices a rule taints: those that are alike in what is given."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None

    def selects(self, device: tuple[str, str, str]) -> bool:
        """`device`: driver, pool, name."""
        wanted = (self.driver, self.pool, self.device)
        return all(want in (None, has) for want, has in zip(wanted, device, strict=True))


class RuleSpecView(View, frozen=True):
    """`spec` of a DeviceTaintRule."""

    taint: DeviceTaintView = DeviceTaintView()
    device_selector: TaintSelectorView = TaintSelectorView()


class TaintRuleView(View, frozen=True):
    """A DeviceTaintRule."""

    metadata: Meta
    spec: RuleSpecView = RuleSpecView()


class ClaimTemplateSpec(View, frozen=True):
    """`spec` of a ResourceClaimTemplate."""

    metadata: Meta = Meta()
    spec: Manifest = field(default_factory=dict)


class ClaimTemplate(View, frozen=True):
    """A ResourceClaimTemplate."""

    metadata: Meta
    spec: ClaimTemplateSpec = ClaimTemplateSpec()
