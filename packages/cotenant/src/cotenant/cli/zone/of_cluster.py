"""Output of `cotenant explain zone --kubeconfig`: a ControlZone on each of its nodes, as its status says; or all of it
as JSON.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound, Unavailable
from cotenant.drivers.kube.kinds.custom.control_zone import CONTROL_ZONES, ControlZoneObject
from cotenant.model.counted import counted
from cotenant.model.errors import InvalidInput, Transient
from cotenant.services.zones.overview import PodOnNode, ZoneOnNode, ZoneView, zone_view


def zone_of_cluster(name: str, kubeconfig: Path, context: str, as_json: bool) -> int:
    """Ask the API server. Raises `InvalidInput` where it has no such ControlZone."""
    try:
        view = zone_view(asyncio.run(_asked(name, kubeconfig, context)))
    except Unavailable as error:
        raise Transient(f"the API server of {kubeconfig} does not answer: {error}") from error
    except NotFound:
        raise InvalidInput(
            "zone", name, "a ControlZone of the cluster", "kubectl get controlzones lists them"
        ) from None
    print(msgspec.json.encode(view).decode() if as_json else "\n".join(lines(view)))
    return 0


async def _asked(name: str, kubeconfig: Path, context: str) -> ControlZoneObject:
    async with Client(load_access(kubeconfig, context), qps=10, burst=10, in_flight=1) as client:
        return await client.get(CONTROL_ZONES, "", name)


def lines(view: ZoneView) -> list[str]:
    """The answer as text."""
    of = f"active on {view.active} of {counted(len(view.nodes), 'node')}" if view.nodes else "no node reports it"
    found = [f"{view.name}: {of}, back end {view.backend or '-'}"]
    if view.wrong:
        found.append(f"  {view.wrong}")
    for node in view.nodes:
        found += _node(node)
    return found


def _node(node: ZoneOnNode) -> list[str]:
    stale = ", of an earlier definition" if node.outdated else ""
    again = f", started again {counted(node.restarts, 'time')}" if node.restarts else ""
    setting = f", {node.setting}" if node.setting else ""
    found = [f"  node {node.node}: {node.state}{setting}{again}{stale}"]
    if node.machine:
        found.append(f"    virtual machine: {node.machine}")
    found += [f"    {_pod(pod)}" for pod in node.pods]
    found += [
        f"    {condition.type}: {condition.status}, {condition.reason}: {condition.message} (since {condition.since})"
        for condition in node.conditions
    ]
    if said := node.message or node.last_change:
        found.append(f"    {said}")
    return found


def _pod(pod: PodOnNode) -> str:
    if pod.running:
        now = "runs, ready" if pod.ready else "runs, not ready"
    else:
        now = "not started" if pod.exit is None else f"ended with status {pod.exit}"
    ports = f" ({', '.join(pod.ports)})" if pod.ports else ""
    last = f"; {pod.message}" if pod.message else ""
    return f"pod {pod.name}{ports}: {now}, started again {counted(pod.restarts, 'time')}{last}"
