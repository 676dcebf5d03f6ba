"""The allocation that is stored with a claim, from the devices that were chosen for it.

Source: Kubernetes 1.36, structured allocator: results, configurations, node selector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cotenant.model.claims.claim import NO_SHARE, AllocatedConfiguration, AllocatedDevice, Allocation
from cotenant.model.claims.requests import ClaimSpec, DeviceClass
from cotenant.model.cluster.affinity import NAME_FIELD, NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import Requirement, SelectorOperator
from cotenant.policy.claims.allocator import Pick
from cotenant.policy.claims.pools import DevicePool, PoolDevice


def allocation_of(
    claim: ClaimSpec,
    picks: Sequence[Pick],
    pools: Sequence[DevicePool],
    node: str,
    classes: Mapping[str, DeviceClass],
    share: Callable[[int], str],
) -> Allocation:
    """The allocation of one claim on a node. `share`: the name of the share of a device, by position."""
    devices = [pools[pick.place[0]].devices[pick.place[1]] for pick in picks]
    return Allocation(
        tuple(
            AllocatedDevice(
                pick.request.full_name,
                device.id,
                pick.request.admin_access,
                share(position) if device.device.is_shared else NO_SHARE,
                pick.consumed,
                pick.request.tolerations,
                device.device.binding_conditions,
                device.device.failure_conditions,
            )
            for position, (pick, device) in enumerate(zip(picks, devices, strict=True))
        ),
        nodes_of(devices, node),
        _configurations(claim, picks, classes),
    )


def nodes_of(devices: Sequence[PoolDevice], node: str) -> NodeSelector | None:
    """From where all of these can be used, by one that uses them on `node`; None = from everywhere."""
    fields: dict[tuple[str, SelectorOperator, frozenset[str]], Requirement] = {}
    expressions: dict[tuple[str, SelectorOperator, frozenset[str]], Requirement] = {}
    for device in devices:
        if device.reach.node or device.device.binds_to_node:
            only = Requirement(NAME_FIELD, SelectorOperator.IN, (node,))
            return NodeSelector((NodeSelectorTerm(fields=(only,)),))
        if device.reach.selector is None:
            continue
        for term in device.reach.selector.terms[:1]:  # the API permits one
            for found, requirements in ((fields, term.fields), (expressions, term.expressions)):
                for requirement in requirements:
                    found.setdefault(
                        (requirement.key, requirement.operator, frozenset(requirement.values)), requirement
                    )
    if not (fields or expressions):
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions.values()), tuple(fields.values())),))


def _configurations(
    claim: ClaimSpec, picks: Sequence[Pick], classes: Mapping[str, DeviceClass]
) -> tuple[AllocatedConfiguration, ...]:
    """Of the classes, in the order of requests, then of the claim."""
    chosen = {pick.request.parent or pick.request.name: pick.request for pick in picks}
    by_class: dict[str, list[str]] = {}
    for request in claim.requests:
        alternative = chosen.get(request.name, request.alternatives[0])
        by_class.setdefault(alternative.device_class, []).append(alternative.full_name)
    found = [
        AllocatedConfiguration(True, configuration.body, tuple(names))
        for name, names in by_class.items()
        if name in classes
        for configuration in classes[name].configurations
    ]
    for configuration in claim.configurations:
        if not configuration.requests:
            found.append(AllocatedConfiguration(False, configuration.body))
        for request in claim.requests if configuration.requests else ():
            alternative = chosen.get(request.name, request.alternatives[0])
            if request.name in configuration.requests or alternative.full_name in configuration.requests:
                found.append(AllocatedConfiguration(False, configuration.body, configuration.requests))
    return tuple(found)
