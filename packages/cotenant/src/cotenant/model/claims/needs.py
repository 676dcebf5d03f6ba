"""What a pod says about claims: which it needs, and which extended resources its containers request."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.claims.claim import Allocation


@dataclass(frozen=True, slots=True)
class GroupClaim:
    """A claim that a PodGroup has for its pods: a pod's entry that is equal to it means that claim."""

    name: str
    claim: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True)
class ClaimGroup:
    """The PodGroup that a claim is reserved for instead of each of its pods."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class NamedClaim:
    """A claim that a pod needs. `must_own`: it was made from a template, for the pod or for its `group`."""

    key: str  # namespace/name
    must_own: bool = False
    group: ClaimGroup | None = None


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container requests of extended resources. `position`: among init containers, then containers."""

    position: int
    name: str
    is_long_lived: bool  # a container or a sidecar: its devices are not another container's later
    amounts: tuple[tuple[str, int], ...]
    requested: tuple[str, ...]  # names of all resources that it requests, sorted


@dataclass(frozen=True, slots=True)
class ClaimNeeds:
    """Of one pod. Pods whose needs are equal are scheduled alike as long as their claims are: which claims these are is
    not compared, only whether all are known.
    """

    missing: tuple[str, ...] = ()  # names in the pod of claims that are not made yet
    extended: tuple[ContainerRequest, ...] = ()
    group: ClaimGroup | None = None  # that has some of its claims
    uid: str = field(default="", compare=False)  # of the pod
    claims: tuple[NamedClaim, ...] = field(default=(), compare=False)

    def group_of(self, claim: str) -> ClaimGroup | None:
        """Whom a claim, by namespace/name, is reserved for instead of the pod."""
        return next((named.group for named in self.claims if named.key == claim), None) if self.group else None


@dataclass(frozen=True, slots=True)
class ClaimHolding:
    """A claim to be reserved for a pod before it is bound. `allocation` None: it has one already.

    A claim for extended resources has no `uid` until it is made: then `requests` says what it is made for, as
    (request, class, count), and `mappings` which container has which request, as (container, resource, request).
    """

    key: str
    uid: str
    allocation: Allocation | None = None
    requests: tuple[tuple[str, str, int], ...] = ()
    mappings: tuple[tuple[str, str, str], ...] = ()
    group: ClaimGroup | None = None  # that it is reserved for, instead of the pod
