"""What a scheduler writes into claims and pods, as bodies of requests.

An allocation in v1beta1 has the same form as later ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from cotenant.drivers.kube.kinds.claims.schema import EXTENDED_CLAIM, GROUP
from cotenant.model.claims.claim import AllocatedDevice, Allocation
from cotenant.model.claims.needs import ClaimHolding
from cotenant.model.claims.requests import DeviceToleration
from cotenant.model.cluster.affinity import NodeSelector
from cotenant.model.cluster.labels import Requirement

Body = dict[str, object]


def allocation_body(allocation: Allocation) -> Body:
    """`status.allocation`."""
    devices: Body = {"results": [_device(device) for device in allocation.devices]}
    if allocation.configurations:
        devices["config"] = [
            {
                "source": "FromClass" if found.is_from_class else "FromClaim",
                **({"requests": list(found.requests)} if found.requests else {}),
                **json.loads(found.body),
            }
            for found in allocation.configurations
        ]
    body: Body = {"devices": devices}
    if allocation.nodes is not None:
        body["nodeSelector"] = _selector(allocation.nodes)
    if allocation.at_s == allocation.at_s:
        body["allocationTimestamp"] = datetime.fromtimestamp(int(allocation.at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return body


def _device(device: AllocatedDevice) -> Body:
    body: Body = {
        "request": device.request,
        "driver": device.id.driver,
        "pool": device.id.pool,
        "device": device.id.device,
    }
    if device.has_admin_access:
        body["adminAccess"] = True
    if device.share:
        body["shareID"] = device.share
    if device.consumed:
        body["consumedCapacity"] = {name: str(amount) for name, amount in device.consumed}
    if device.tolerations:
        body["tolerations"] = [_toleration(toleration) for toleration in device.tolerations]
    if device.binding_conditions:
        body["bindingConditions"] = list(device.binding_conditions)
    if device.failure_conditions:
        body["bindingFailureConditions"] = list(device.failure_conditions)
    return body


def _toleration(toleration: DeviceToleration) -> Body:
    texts = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    body: Body = {name: text for name, text in texts.items() if text}
    if toleration.seconds is not None:
        body["tolerationSeconds"] = toleration.seconds
    return body


def _selector(selector: NodeSelector) -> Body:
    terms = [
        {
            name: [_expression(requirement) for requirement in requirements]
            for name, requirements in (("matchExpressions", term.expressions), ("matchFields", term.fields))
            if requirements
        }
        for term in selector.terms
    ]
    return {"nodeSelectorTerms": terms}


def _expression(requirement: Requirement) -> Body:
    body: Body = {"key": requirement.key, "operator": requirement.operator.value}
    if requirement.values:
        body["values"] = list(requirement.values)
    return body


def extended_claim_body(version: str, pod: str, namespace: str, uid: str, holding: ClaimHolding) -> Body:
    """A claim for extended resources of a pod, which belongs to it."""
    requests: list[Body] = []
    for name, device_class, count in holding.requests:
        exactly: Body = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
        requests.append({"name": name, **exactly} if version == "v1beta1" else {"name": name, "exactly": exactly})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": True}
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{pod[:200]}-extended-resources-",
            "namespace": namespace,
            "annotations": {EXTENDED_CLAIM: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests}},
    }


def extended_status(claim: str, mappings: Sequence[tuple[str, str, str]]) -> Mapping[str, object]:
    """`status.extendedResourceClaimStatus` of a pod."""
    return {
        "extendedResourceClaimStatus": {
            "resourceClaimName": claim,
            "requestMappings": [
                {"containerName": container, "resourceName": resource, "requestName": request}
                for container, resource, request in mappings
            ],
        }
    }
