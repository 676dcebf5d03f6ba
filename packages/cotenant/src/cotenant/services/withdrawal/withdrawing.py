"""Withdraw webhooks and lending, in that order, while the processes that serve them still run.

A webhook configuration whose process is gone delays or refuses every pod, and a node whose manager is gone offers for
ever what nobody measures. The webhook configurations are deleted first; then the manager's ConfigMap, whose text is
printed, because without it the running manager takes all amounts back; then nodes are read until none offers any.
Repeating it is harmless.
Limits: knobs are not touched here: keepers restore them as they stop. Amounts of GPUs and ratios stay on nodes. Where
no manager runs, the amounts stay, and that is reported.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from time import monotonic

import msgspec

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound, Unavailable
from cotenant.drivers.kube.kinds.config_map import CONFIG_MAPS
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.drivers.kube.kinds.webhook_configuration import MUTATING, VALIDATING
from cotenant.model.errors import Permanent
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY

LENT = (BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY)
LOOK_S = 1.0
PAGE = 500  # nodes a request

Say = Callable[[str], None]


class _Status(msgspec.Struct, frozen=True):
    allocatable: dict[str, str] | None = None


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Node(msgspec.Struct):
    metadata: _Meta = _Meta()
    status: _Status = _Status()


class _ListMeta(msgspec.Struct, frozen=True):
    continue_: str = msgspec.field(default="", name="continue")


class _Nodes(msgspec.Struct):
    items: list[_Node] = []
    metadata: _ListMeta = _ListMeta()


async def withdraw(
    client: Client,
    webhooks: str,
    config: tuple[str, str] | None,
    within_s: float,
    say: Say,
    look_s: float = LOOK_S,
) -> None:
    """Delete the configurations named `webhooks` ("" = none), then the ConfigMap (namespace, name), and wait until no
    node lends.

    Raises `Permanent` with the nodes that still offer amounts after `within_s` seconds, other `CotenantError` of the
    server.
    """
    for kind in (MUTATING, VALIDATING) if webhooks else ():
        try:
            await client.delete(kind, "", webhooks)
            say(f"deleted {kind.name} {webhooks}")
        except NotFound:
            say(f"there is no {kind.name} {webhooks}")
    if config is not None:
        await _stop_lending(client, *config, say)
        await _wait(client, within_s, say, look_s)


async def _stop_lending(client: Client, namespace: str, name: str, say: Say) -> None:
    try:
        found = await client.get(CONFIG_MAPS, namespace, name)
    except NotFound:
        say(f"there is no ConfigMap {namespace}/{name}")
        return
    kept = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name},
        "data": found.data,
    }
    say(f"the ConfigMap, should it be wanted again: {json.dumps(kept)}")
    try:
        await client.delete(CONFIG_MAPS, namespace, name)
    except NotFound:
        return  # deleted by another meanwhile
    say(f"deleted ConfigMap {namespace}/{name}")


async def _wait(client: Client, within_s: float, say: Say, look_s: float = LOOK_S) -> None:
    until = monotonic() + within_s
    while True:
        try:
            lending = await offering(client)
        except Unavailable:
            if monotonic() >= until:
                raise
        else:
            if not lending:
                say("no node offers batch or mid resources")
                return
            if monotonic() >= until:
                some = ", ".join(lending[:3]) + (" and others" if len(lending) > 3 else "")
                raise Permanent(
                    f"{len(lending)} nodes still offer batch or mid resources after {within_s:g} s ({some}): no "
                    "manager runs, or another one lends"
                )
        await asyncio.sleep(look_s)


async def offering(client: Client) -> list[str]:
    """The nodes whose allocatable has any batch or mid resource above 0."""
    found, token = [], ""
    while True:
        query = {"limit": str(PAGE), **({"continue": token} if token else {})}
        page = msgspec.json.decode(await client.request("GET", NODES.path(""), query=query), type=_Nodes)
        for node in page.items:
            amounts = node.status.allocatable or {}
            if any(amounts.get(name, "0") not in ("0", "") for name in LENT):
                found.append(node.metadata.name)
        token = page.metadata.continue_
        if not token:
            return found
