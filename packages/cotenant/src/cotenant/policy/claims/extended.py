"""The claim for extended resources that a node provides by devices of classes.

A container that runs for the pod's whole life has devices of its own; init containers that end before use those of
containers that start after them, and the largest of what is beyond is requested once for all of them.

Source: Kubernetes 1.36, kube-scheduler's DynamicResources plugin, extended resources; KEP-5004.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.model.claims.needs import ContainerRequest
from cotenant.model.claims.requests import ClaimRequest, ClaimSpec, ExactRequest


@dataclass(frozen=True, slots=True)
class ExtendedClaim:
    """The claim, and which container has the devices of which request: (container, resource, request)."""

    spec: ClaimSpec
    mappings: tuple[tuple[str, str, str], ...]


def extended_claim(containers: Sequence[ContainerRequest], classes: Mapping[str, str]) -> ExtendedClaim:
    """The claim of a pod with these containers. `classes`: resource -> class, of those that a node provides so."""
    requests: list[ExactRequest] = []
    mappings: list[tuple[str, str, str]] = []
    for resource in sorted(classes):
        lasting = {
            container.position: (_request(container, resource, classes[resource], amount), amount)
            for container in containers
            if container.is_long_lived and (amount := dict(container.amounts).get(resource, 0))
        }
        mappings += [
            (container.name, resource, lasting[container.position][0].name)
            for container in containers
            if container.position in lasting
        ]
        beyond: list[ExactRequest] = []
        brief: list[tuple[str, str, str]] = []
        for container in containers:
            amount = dict(container.amounts).get(resource, 0)
            if container.is_long_lived or not amount:
                continue
            for position, (request, count) in sorted(lasting.items()):
                if position < container.position or amount <= 0:
                    continue
                brief.append((container.name, resource, request.name))
                amount -= count
            if amount > 0:
                beyond.append(_request(container, resource, classes[resource], amount))
                brief.append((container.name, resource, beyond[-1].name))
        if beyond:
            largest = max(beyond, key=lambda request: request.count)  # the first of equals
            requests.append(largest)
            names = {request.name for request in beyond}
            brief = [(name, what, largest.name if of in names else of) for name, what, of in brief]
        requests += [request for _, (request, _) in sorted(lasting.items())]
        mappings += brief
    requests.sort(key=lambda request: request.name)
    spec = ClaimSpec(tuple(ClaimRequest(request.name, (request,)) for request in requests))
    return ExtendedClaim(spec, tuple(mappings))


def _request(container: ContainerRequest, resource: str, device_class: str, count: int) -> ExactRequest:
    place = container.requested.index(resource)
    return ExactRequest(f"container-{container.position}-request-{place}", device_class, count=count)
