"""Why a node offers what it offers: one question to the API server, answered with the manager's own engine.

batch-cpu is a number on a node that nobody can recompute. The node, its pods, its NodeMetric and the ConfigMap are read
once, the engine computes, and both are shown with their terms: what is written on the node, and what the formula gives
now. It needs no running manager, and works beside upstream's. Amounts of NUMA zones come from the NodeResourceTopology
and GPU resources from the Device object, in the same form.
Limits: the reserve of the peak policy comes from history, so `now` is not computed for its resources: the written terms
are shown.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import isnan
from pathlib import Path
from typing import Any

import msgspec

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Forbidden, NotFound, Unavailable
from cotenant.drivers.kube.kinds.config_map import CONFIG_MAPS, ConfigMap
from cotenant.drivers.kube.kinds.custom.autonomy import AUTONOMIES, read_autonomy
from cotenant.drivers.kube.kinds.custom.cpu_report import CPU_REPORTS, CpuReport, read_node_zones
from cotenant.drivers.kube.kinds.custom.device import DEVICES, DeviceObject, read_devices
from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS, NodeMetricObject, read_node_metric
from cotenant.drivers.kube.kinds.custom.pool_lending import POOL_LENDINGS, read_pool_lending
from cotenant.drivers.kube.kinds.managed_node import read_managed_node
from cotenant.drivers.kube.kinds.node import NODES, NodeObject
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodObject
from cotenant.drivers.seals.seals import NO_SEALS, Seals, read_seals
from cotenant.engine.manager.gpu_nodes import GpuNode
from cotenant.engine.manager.manager import Manager
from cotenant.engine.manager.record import ZoneRecord
from cotenant.engine.manager.settings import ManagerSettings
from cotenant.model.autonomy.autonomy import Autonomy
from cotenant.model.autonomy.pool_lending import PoolLending
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.model.machine.node_metric import MeasuredPod
from cotenant.policy.overcommit.facts import Amount, Policy
from cotenant.policy.overcommit.gpu_totals import gpu_totals
from cotenant.services.offers.holding import HolderView, LenderView, holders_of, lenders
from cotenant.services.offers.offer_sources import CONFIG_NAME, CONFIG_NAMESPACE, read_gpu_node

_ANSWER_S = 30.0


class _Pods(msgspec.Struct, frozen=True):
    items: list[PodObject] = []


class TermView(msgspec.Struct, frozen=True):
    """A term of an amount, in the resource's unit."""

    name: str
    amount: int


class AmountView(msgspec.Struct, frozen=True, rename="camel"):
    """One resource: as it is on the node, as it was written with its terms, and as the formula gives it now."""

    resource: str
    on_node: int | None
    written: int | None
    policy: str
    terms: tuple[TermView, ...]  # of what was written; where nothing was, of what is computed now
    computed_now: int | None  # None where it is not computed: the peak policy, or nothing is lent
    holders: tuple[HolderView, ...] = ()  # the pods on the node that request it, largest first


class ZoneAmountsView(msgspec.Struct, frozen=True):
    """The amounts of one NUMA zone."""

    zone: str
    amounts: tuple[AmountView, ...]


class NodeOfferView(msgspec.Struct, frozen=True, rename="camel"):
    """The answer of `cotenant explain node`."""

    node: str
    state: str
    reason: str
    strategy: str
    metric_age_seconds: float | None
    amounts: tuple[AmountView, ...]
    ignored: tuple[str, ...]
    config_error: str
    zones: tuple[ZoneAmountsView, ...] = ()
    gpus: tuple[AmountView, ...] = ()  # by Kubernetes name
    lenders: tuple[LenderView, ...] = ()  # prod and mid pods that use less than they request, most idle CPU first


def explain_node(
    kubeconfig: Path | None,
    context: str,
    name: str,
    namespace: str = CONFIG_NAMESPACE,
    config: str = CONFIG_NAME,
    seal_certificate: Path | None = None,
) -> NodeOfferView:
    """Read and compute. Raises `CotenantError`."""
    seals = read_seals(seal_certificate)
    access = load_access(kubeconfig, context)

    async def fetch() -> NodeOfferView:
        async with Client(access, qps=50.0, burst=10, in_flight=4, timeout_s=_ANSWER_S) as client:
            return await node_view(client, name, namespace, config, seals)

    try:
        return asyncio.run(fetch())
    except Unavailable as error:
        why = str(error).partition(": ")[2] or str(error)
        raise Transient(f"the API server {access.server} does not answer: {why}") from error
    except NotFound:
        raise Permanent(f"{access.server} has no node {name}") from None


async def node_view(
    client: Client,
    name: str,
    namespace: str = CONFIG_NAMESPACE,
    config: str = CONFIG_NAME,
    seals: Seals = NO_SEALS,
) -> NodeOfferView:
    """The same with a client that is there already; what it may not read is named among what is ignored. Raises
    `CotenantError`.
    """
    node = await _node(client, name)
    selector = {"fieldSelector": f"spec.nodeName={name}"}
    missing: list[str] = []
    pods = _Pods([])
    metric: NodeMetricObject | None = None
    found: ConfigMap | None = None
    topology: CpuReport | None = None
    devices: DeviceObject | None = None
    try:
        pods = msgspec.json.decode(await client.request("GET", PODS.path(""), query=selector), type=_Pods)
    except Forbidden as error:
        missing.append(f"pods, so what they hold and lend is not shown: {error}")
    with suppress(NotFound):
        try:
            metric = await client.get(NODE_METRICS, "", name)
        except Forbidden as error:
            missing.append(f"NodeMetric, so nothing is computed anew: {error}")
    with suppress(NotFound):
        try:
            found = await client.get(CONFIG_MAPS, namespace, config)
        except Forbidden as error:
            missing.append(f"ConfigMap {namespace}/{config}, so lending counts as not configured: {error}")
    with suppress(NotFound, Forbidden):  # no right to read them hides no amounts
        topology = await client.get(CPU_REPORTS, "", name)
    with suppress(NotFound, Forbidden):  # no right to read them hides no amounts
        devices = await client.get(DEVICES, "", name)
    data = None if found is None else found.data or {}
    earned: Sequence[PoolLending] = ()
    allowed: Sequence[Autonomy] = ()
    if any('"lendMode"' in text for text in (data or {}).values()):
        with suppress(NotFound):
            try:
                earned = [read_pool_lending(one) for one in await client.all_of(POOL_LENDINGS)]
                allowed = [read_autonomy(one) for one in await client.all_of(AUTONOMIES)]
            except Forbidden as error:
                missing.append(f"PoolLendings or Autonomy objects, so approvals do not count: {error}")
    view = answer(node, pods.items, metric, data, topology, devices, seals, earned, allowed)
    return msgspec.structs.replace(view, ignored=(*(f"not readable: {entry}" for entry in missing), *view.ignored))


async def _node(client: Client, name: str) -> NodeObject:
    """An agent's account may list nodes and not get one."""
    try:
        return await client.get(NODES, "", name)
    except Forbidden:
        nodes = await client.all_of(NODES, fields=f"metadata.name={name}")
        if not nodes:
            raise Permanent(f"no node {name}") from None
        return nodes[0]


def answer(
    node: NodeObject,
    pods: list[PodObject],
    metric: NodeMetricObject | None,
    data: Mapping[str, str] | None,
    topology: CpuReport | None = None,
    devices: DeviceObject | None = None,
    seals: Seals = NO_SEALS,
    earned: Sequence[PoolLending] = (),
    allowed: Sequence[Autonomy] = (),
) -> NodeOfferView:
    """The answer from the objects. `earned`, `allowed`: what bears on a `lendMode`. Raises `InvalidInput` for a node
    that cannot be read.
    """
    now_s, manager, reader = time.time(), Manager(ManagerSettings(first_look_s=0.0)), PodReader(seals=seals)
    managed = read_managed_node(node)
    ignored = []
    seen = [reader.pod(pod) for pod in pods]
    measured: Mapping[str, MeasuredPod] = {}
    manager.node_seen(managed)
    for observed_pod in seen:
        manager.pod_seen(observed_pod, now_s)
    if metric is not None:
        try:
            as_read = read_node_metric(metric)
            manager.metric_seen(as_read, now_s)
            measured = as_read.pods or {}
        except InvalidInput as error:
            ignored.append(str(error))
    if topology is not None:
        manager.zones_seen(read_node_zones(topology))
    inventory: NodeDevices | None = None
    if devices is not None:
        try:
            inventory = read_devices(devices)
            ignored += inventory.wrong
        except InvalidInput as error:
            ignored.append(str(error))
    for pool in earned:
        manager.pools.pool_seen(pool, now_s)
    for found_object in allowed:
        manager.autonomy_seen(found_object)
    manager.config_seen(data)
    manager.decide(now_s)
    found = manager.explain(managed.name, now_s)
    assert found is not None
    written, source = _written(managed.written)
    computed = {amount.resource: amount for amount in found.computed.amounts}
    amounts = tuple(
        _view(resource, found.lent.get(resource), written.get(resource, {}), computed.get(resource), seen)
        for resource in sorted({*found.lent, *written, *computed})
    )
    view = found.computed.view
    state, reason = found.computed.state, found.computed.reason
    if state == "unknown" and managed.lent:  # one look cannot know the last good configuration: what stands is by it
        state, reason = "lent", "by the last good configuration"
    return NodeOfferView(
        node=managed.name,
        state=state,
        reason=reason,
        strategy=view.source if view is not None else source,
        metric_age_seconds=None if isnan(found.metric_age_s) else round(found.metric_age_s, 1),
        amounts=amounts,
        ignored=(*ignored, *found.ignored),
        config_error=found.config_error,
        zones=_zones(found.zones),
        gpus=_gpus(read_gpu_node(node), inventory, seen),
        lenders=lenders(seen, measured),
    )


def _view(
    resource: str, on_node: int | None, noted: JsonMapping, now: Amount | None, pods: Iterable[ObservedPod]
) -> AmountView:
    """An amount as it stands, as it was written (`noted`), and as it is computed now."""
    by_history = now is not None and now.policy in (Policy.PEAK, Policy.PREDICTED)
    terms = noted.get("terms") or [[term.name, term.amount] for term in (now.terms if now is not None else ())]
    return AmountView(
        resource,
        on_node,
        noted.get("value"),
        str(noted.get("policy") or (now.policy if now is not None else "")),
        tuple(TermView(str(name), int(amount)) for name, amount in terms),
        None if now is None or by_history else now.value,
        holders_of(resource, pods),
    )


def _zones(record: ZoneRecord | None) -> tuple[ZoneAmountsView, ...]:
    """The amounts of the zones that have any."""
    if record is None:
        return ()
    written, found = _zones_written(record.seen.written), []
    for zone in record.seen.zones:
        noted = written.get(zone.name, {})
        computed = {amount.resource: amount for amount in record.computed.get(zone.name, ())}
        names = sorted({*zone.lent, *noted, *computed})
        views = (_view(name, zone.lent.get(name), noted.get(name, {}), computed.get(name), ()) for name in names)
        if names:
            found.append(ZoneAmountsView(zone.name, tuple(views)))
    return tuple(found)


def _gpus(node: GpuNode, devices: NodeDevices | None, pods: Iterable[ObservedPod]) -> tuple[AmountView, ...]:
    """The node's GPU resources, of those that a manager keeps."""
    computed = {amount.resource: amount for amount in gpu_totals(devices).amounts} if devices is not None else {}
    written = _amounts_of(_json(node.written))
    names = sorted({*written, *computed})
    return tuple(_view(name, node.amounts.get(name), written.get(name, {}), computed.get(name), pods) for name in names)


def _written(text: str) -> tuple[dict[str, dict[str, object]], str]:
    """The amounts in the annotation, and the strategy that they are from; empty where it cannot be read."""
    found = _json(text)
    amounts = _amounts_of(found.get("amounts"))
    return amounts, str(found.get("strategy", "")) if amounts else ""


def _zones_written(text: str) -> dict[str, dict[str, dict[str, object]]]:
    """The amounts in the annotation of a NodeResourceTopology, by zone."""
    zones = _json(text).get("zones")
    return {zone: _amounts_of(amounts) for zone, amounts in zones.items()} if isinstance(zones, dict) else {}


def _json(text: str) -> JsonObject:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _amounts_of(amounts: Any) -> dict[str, dict[str, object]]:
    """Amounts with their terms; empty where one of them cannot be read."""
    try:
        for entry in amounts.values():
            [(str(name), int(amount)) for name, amount in entry["terms"]]
        return dict(amounts)
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
