"""The writes of the manager, one for each instruction.

Amounts and the annotation with their terms go in one merge patch of the node's status, with the node's UID as a
condition, so that a node that was created anew under the same name is not given the amounts of the old one (and the
terms on a node always belong to its amounts).
Limits: a server that ignores metadata in a patch of a status would not store the annotation; kube-apiserver stores it
for nodes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from cotenant.drivers.kube.client.client import MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import AlreadyExists, Conflict, NotFound
from cotenant.drivers.kube.kinds.custom.elastic_quota import written_levels
from cotenant.drivers.kube.kinds.custom.elastic_quota_profile import QUOTA_PROFILES, STORED_QUOTAS
from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS
from cotenant.drivers.kube.kinds.custom.node_resource_topology import NODE_TOPOLOGIES
from cotenant.drivers.kube.kinds.custom.node_slo import NODE_SLOS
from cotenant.drivers.kube.kinds.custom.pool_lending import API_VERSION, KIND, POOL_LENDINGS, lending_fields
from cotenant.drivers.kube.kinds.managed_node import SHORT
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.engine.manager.instructions import (
    DeleteObject,
    LabelProfile,
    NodeObjectKind,
    WriteAmounts,
    WriteGpus,
    WritePool,
    WriteQuota,
    WriteRatios,
    WriteSpec,
    WriteZones,
)
from cotenant.model.cluster.annotations import GPU_TERMS, LENT_TERMS
from cotenant.model.errors import Permanent
from cotenant.model.groups.quota import TREE_ID
from cotenant.model.json_object import JsonMapping
from cotenant.model.resources import format_amount
from cotenant.policy.quota.profile import MOST
from cotenant.services.kube_process.statuses import Writer

_NO_KIND = (
    "the cluster has no kind PoolLending, so a lendMode forgets what it earned at a restart and nobody can approve: "
    "cotenant crds | kubectl apply --server-side -f -"
)
_ZONE_TRIES = 4  # of a NodeResourceTopology that changes while it is written


async def write_amounts(client: Client, write: WriteAmounts) -> None:
    """Set amounts and terms; `Conflict` where the name has another node."""
    amounts = {SHORT[name]: None if amount is None else str(amount) for name, amount in write.amounts.items()}
    body = {
        "metadata": {"uid": write.uid, "annotations": {LENT_TERMS: write.annotation}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    await client.patch(NODES, "", write.node, body, content_type=MERGE_PATCH, subresource="status")


async def write_gpus(client: Client, write: WriteGpus) -> None:
    """Set GPU resources, their terms and labels; `Conflict` where the name has another node."""
    amounts = {name: None if amount is None else format_amount(name, amount) for name, amount in write.amounts.items()}
    metadata: dict[str, object] = {"uid": write.uid, "annotations": {GPU_TERMS: write.annotation}}
    if write.labels:
        metadata["labels"] = write.labels
    body = {"metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}}
    await client.patch(NODES, "", write.node, body, content_type=MERGE_PATCH, subresource="status")


async def write_zones(client: Client, write: WriteZones) -> None:
    """Set amounts of zones and their terms. A merge patch replaces the list of zones, so it is made of the stored
    one, on condition that this is still stored.
    """
    for tries_left in reversed(range(_ZONE_TRIES)):
        stored = json.loads(await client.request("GET", NODE_TOPOLOGIES.path("", write.node)))
        body = {
            "metadata": {
                "resourceVersion": stored["metadata"].get("resourceVersion"),
                "annotations": {LENT_TERMS: write.annotation},
            },
            "zones": [_with_amounts(zone, write.amounts.get(zone.get("name", ""), {})) for zone in stored["zones"]],
        }
        try:
            await client.patch(NODE_TOPOLOGIES, "", write.node, body, content_type=MERGE_PATCH)
            return
        except Conflict:  # its agent wrote at this moment
            if not tries_left:
                raise


def _with_amounts(zone: JsonMapping, amounts: Mapping[str, int | None]) -> dict[str, object]:
    """A stored zone with other amounts of lent resources: equal capacity, allocatable and available."""
    texts = {SHORT[name]: None if amount is None else str(amount) for name, amount in amounts.items()}
    kept = [entry for entry in zone.get("resources") or () if entry.get("name") not in texts]
    new = [
        {"name": name, "capacity": text, "allocatable": text, "available": text}
        for name, text in texts.items()
        if text is not None
    ]
    return {**zone, "resources": [*kept, *new]}


async def write_spec(client: Client, write: WriteSpec) -> None:
    """Create or change a NodeSLO, or the collect policy of a NodeMetric."""
    if write.kind is NodeObjectKind.NODE_SLO:
        body = {"spec": write.patch}
        if write.creates:
            try:
                await client.create(NODE_SLOS, "", _new(NODE_SLOS.api_version, write, body))
                return
            except AlreadyExists:
                pass
        await client.patch(NODE_SLOS, "", write.node, body, content_type=MERGE_PATCH)
        return
    body = {"spec": {"metricCollectPolicy": write.patch}}
    if write.creates:
        try:
            await client.create(NODE_METRICS, "", _new(NODE_METRICS.api_version, write, body))
            return
        except AlreadyExists:  # made by the node's agent at this moment
            pass
    await client.patch(NODE_METRICS, "", write.node, body, content_type=MERGE_PATCH)


async def delete_object(client: Client, what: DeleteObject) -> None:
    """Delete a NodeSLO or a NodeMetric."""
    if what.kind is NodeObjectKind.NODE_SLO:
        await client.delete(NODE_SLOS, "", what.node)
    else:
        await client.delete(NODE_METRICS, "", what.node)


async def write_ratios(client: Client, write: WriteRatios) -> None:
    """Set a node's ratios; `Conflict` where the name has another node."""
    body = {"metadata": {"uid": write.uid, "annotations": write.annotations}}
    await client.patch(NODES, "", write.node, body, content_type=MERGE_PATCH)


async def label_profile(client: Client, write: LabelProfile) -> None:
    """Set the tree's id on a profile."""
    namespace, _, name = write.profile.partition("/")
    body = {"metadata": {"uid": write.uid, "labels": {TREE_ID: write.tree_id}}}
    await client.patch(QUOTA_PROFILES, namespace, name, body, content_type=MERGE_PATCH)


async def write_quota(client: Client, write: WriteQuota) -> None:
    """Create or change the quota of a profile."""
    namespace, _, name = write.quota.partition("/")
    # The largest integer as upstream divides it, for every resource: amounts that large mean no limit.
    spec = {"min": written_levels(write.minimum.items), "max": {name: str(MOST) for name, _ in write.maximum.items}}
    metadata = {"labels": write.labels, "annotations": write.annotations}
    if write.creates:
        new = {
            "apiVersion": STORED_QUOTAS.api_version,
            "kind": STORED_QUOTAS.name,
            "metadata": {"name": name, "namespace": namespace, **metadata},
            "spec": spec,
        }
        try:
            await client.create(STORED_QUOTAS, namespace, new)
            return
        except AlreadyExists:
            pass
    body = {"metadata": metadata, "spec": spec}
    await client.patch(STORED_QUOTAS, namespace, name, body, content_type=MERGE_PATCH)


def _new(api_version: str, write: WriteSpec, body: Mapping[str, object]) -> dict[str, object]:
    return {"apiVersion": api_version, "kind": write.kind.value, "metadata": {"name": write.node}, **body}


async def write_pool(client: Client, write: WritePool) -> None:
    """Store how far a pool's lending is. The object is made first where there is none; its status follows when the
    watch shows it.
    """
    if write.uid:
        await client.set_status(POOL_LENDINGS, "", write.pool, write.uid, lending_fields(write.status))
        return
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": write.pool}, "spec": {}}
    try:
        await client.create(POOL_LENDINGS, "", body)
    except AlreadyExists:
        pass
    except NotFound as error:
        raise Permanent(_NO_KIND) from error


WRITERS: Mapping[type, Writer] = {
    WriteAmounts: write_amounts,
    WriteGpus: write_gpus,
    WriteZones: write_zones,
    WriteSpec: write_spec,
    DeleteObject: delete_object,
    LabelProfile: label_profile,
    WriteQuota: write_quota,
    WritePool: write_pool,
    WriteRatios: write_ratios,
}
