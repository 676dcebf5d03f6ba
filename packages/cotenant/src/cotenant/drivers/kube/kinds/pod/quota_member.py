"""A pod as a quota counts it at admission: its quota label, its requests, whether it has ended.

A webhook that limits quotas at creation needs every pod of a cluster and very little of each. A struct of its own with
a dozen fields.
Limits: an in-place resize counts when it is in the specification.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Quantities, Strings, Text
from cotenant.drivers.kube.kinds.parts import PhaseStatus, Resources
from cotenant.model.resources import NOTHING, PODS_NAME, Amounts, ContainerAmounts, pod_requests


class MemberMeta(ApiStruct, frozen=True):
    """Metadata without annotations."""

    name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    labels: Strings = None


class MemberContainer(ApiStruct, frozen=True):
    """A container's resources."""

    resources: Resources | None = None
    restart_policy: Text = None


class MemberSpec(ApiStruct, frozen=True):
    """What adds up to a pod's request."""

    containers: tuple[MemberContainer, ...] | None = None
    init_containers: tuple[MemberContainer, ...] | None = None
    overhead: Quantities = None
    resources: Resources | None = None


class QuotaMember(ApiStruct, frozen=True):
    """v1 Pod."""

    metadata: MemberMeta = MemberMeta()
    spec: MemberSpec | None = None
    status: PhaseStatus | None = None


QUOTA_MEMBERS = Kind("Pod", "", "v1", "pods", True, QuotaMember)


def read_member_request(pod: QuotaMember) -> Amounts:
    """The pod's effective request. Raises `InvalidInput` for a quantity that cannot be read."""
    spec = pod.spec or MemberSpec()
    whole = spec.resources or Resources()
    return pod_requests(
        [_container(container) for container in spec.containers or ()],
        [_container(container) for container in spec.init_containers or ()],
        _amounts(spec.overhead),
        _amounts(whole.requests),
    )


def _container(written: MemberContainer) -> ContainerAmounts:
    resources = written.resources or Resources()
    return ContainerAmounts(
        _amounts(resources.requests), _amounts(resources.limits), written.restart_policy == "Always"
    )


def _amounts(written: Quantities) -> Amounts:
    if not written:
        return NOTHING
    return Amounts.parse({name: amount for name, amount in written.items() if name != PODS_NAME})
