"""Views of ResourceClaims and their templates. Choice and limits as in `views/core.py`."""

from __future__ import annotations

from msgspec import field

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.views.core import Meta, View


class Consumer(View, frozen=True):
    """An entry of `status.reservedFor`."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""

    @property
    def is_pod(self) -> bool:
        """Whether it is a pod, not an object of another kind."""
        return self.resource == "pods" and not self.api_group


class ClaimStatus(View, frozen=True):
    """`status` of a ResourceClaim."""

    allocation: Manifest | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaimView(View, frozen=True):
    """A ResourceClaim."""

    metadata: Meta
    status: ClaimStatus = ClaimStatus()


class SliceView(View, frozen=True):
    """A ResourceSlice."""

    metadata: Meta
    spec: Manifest = field(default_factory=dict)


class ClaimTemplateSpec(View, frozen=True):
    """`spec` of a ResourceClaimTemplate."""

    metadata: Meta = Meta()
    spec: Manifest = field(default_factory=dict)


class ClaimTemplate(View, frozen=True):
    """A ResourceClaimTemplate."""

    metadata: Meta
    spec: ClaimTemplateSpec = ClaimTemplateSpec()
