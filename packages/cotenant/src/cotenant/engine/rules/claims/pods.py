"""The claims of one pod, as they are now: what must be allocated, where it must be, or what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from cotenant.engine.rules.claims.ledger import ClaimLedger, extended_uid
from cotenant.model.claims.claim import Allocation, ResourceClaim
from cotenant.model.claims.needs import ClaimHolding, ClaimNeeds, NamedClaim
from cotenant.model.claims.requests import EXTENDED_PREFIX, MAX_CONSUMERS, ClaimSpec, DeviceClass
from cotenant.model.cluster.labels import Labels

ADMIN_ACCESS = "resource.kubernetes.io/admin-access"  # label of namespaces


@dataclass(slots=True, eq=False)
class ClaimingPod:
    """A pod that needs claims."""

    key: str
    namespace: str
    needs: ClaimNeeds
    given: tuple[ClaimHolding, ...] = ()
    given_on: str = ""  # the node that it was chosen for
    node: str = ""  # where it is assigned
    is_guess: bool = False  # assigned without a decision of ours: what would be chosen is assumed
    relies_on: set[str] = field(default_factory=set)  # claims, by UID, whose assumed allocations it keeps

    def allocations(self) -> Iterator[tuple[str, Allocation]]:
        """What it was given, by the claim's UID; a claim for extended resources that is not made yet has its own."""
        for holding in self.given:
            if holding.allocation is not None:
                yield holding.uid or extended_uid(self.needs.uid), holding.allocation


@dataclass(frozen=True, slots=True)
class Resolved:
    """What follows from the claims. `obstacle`: why the pod cannot be judged."""

    obstacle: str = ""
    to_allocate: tuple[ResourceClaim, ...] = ()
    allocated: tuple[tuple[ResourceClaim, Allocation], ...] = ()

    @property
    def specs(self) -> tuple[ClaimSpec, ...]:
        """What must be allocated."""
        return tuple(claim.spec for claim in self.to_allocate)


def resolve(
    pod: ClaimingPod, number: int, ledger: ClaimLedger, classes: Mapping[str, DeviceClass], namespace: Labels
) -> Resolved:
    """The pod's claims, in the order of its spec."""
    if pod.needs.missing:
        return Resolved(f"claim {pod.needs.missing[0]} of the pod has no ResourceClaim yet")
    wanted: list[ResourceClaim] = []
    allocated: list[tuple[ResourceClaim, Allocation]] = []
    for named in pod.needs.claims:
        claim = ledger.by_key.get(named.key)
        why = _obstacle(pod, number, claim, named, ledger)
        if claim is None or why:
            return Resolved(why)
        allocation = ledger.allocation(claim.uid)
        if allocation is not None:
            allocated.append((claim, allocation))
            continue
        for request in claim.spec.requests:
            for exact in request.alternatives:
                if exact.device_class not in classes:
                    return Resolved(
                        f"ResourceClaim {claim.key}, request {exact.full_name}: DeviceClass {exact.device_class} does"
                        " not exist"
                    )
                if exact.admin_access and namespace.get(ADMIN_ACCESS) != "true":
                    return Resolved(
                        f"ResourceClaim {claim.key}, request {exact.full_name}: admin access needs the label"
                        f" {ADMIN_ACCESS}: true on namespace {claim.namespace}"
                    )
        wanted.append(claim)
    return Resolved("", tuple(wanted), tuple(allocated))


def _obstacle(
    pod: ClaimingPod, number: int, claim: ResourceClaim | None, named: NamedClaim, ledger: ClaimLedger
) -> str:
    if claim is None:
        return f"ResourceClaim {named.key} does not exist yet"
    if claim.is_ending:
        return f"ResourceClaim {named.key} is being deleted"
    if named.must_own and claim.owner_uid != (named.group.uid if named.group is not None else pod.needs.uid):
        whom = f"PodGroup {named.group.name} of this pod" if named.group is not None else "this pod"
        return f"ResourceClaim {named.key} was not made for {whom}"
    consumer = named.group.uid if named.group is not None else pod.needs.uid
    if consumer not in claim.reserved_for:
        assumed = ledger.assumed.get(claim.uid)
        coming = len(assumed.pods - {number}) if assumed is not None and named.group is None else 0
        if len(claim.reserved_for) + coming >= MAX_CONSUMERS:
            return f"ResourceClaim {named.key} is used by {MAX_CONSUMERS} pods, the most that may share one"
    return ""


def class_for(resource: str, classes: Iterable[DeviceClass]) -> str:
    """The class whose devices stand for an extended resource: of several the newest, then the first by name."""
    short = resource.removeprefix(EXTENDED_PREFIX) if resource.startswith(EXTENDED_PREFIX) else ""
    found = [entry for entry in classes if entry.extended_resource == resource or (short and entry.name == short)]
    return min(found, key=lambda entry: (-entry.created_s, entry.name)).name if found else ""
