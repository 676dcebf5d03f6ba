"""The cluster's ControlZones on this node: the keeper is asked to run them, and their status says how it went.

A ControlZone is for many nodes, its pods are where the scheduler put them, and the process that runs zones is
privileged and knows no API server. Once a period the agent lists the ControlZones and has the keeper create those for
this node, and destroy those that are gone or changed; the keeper asks the agent for pods and burn rates. The status has
one entry a node, patched where it changed.
Limits: a change is up to a period late; zones that were created by hand are left alone, and a ControlZone of the same
name is refused; the role that patches statuses is not limited to the node's own entry.
"""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

from cotenant.drivers.kube.client.client import MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.control_zone import API_VERSION, CONTROL_ZONES, KIND, ControlZoneObject
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.services.zones.client import ZoneClient
from cotenant.services.zones.state_file import read_states
from cotenant.services.zones.zone_files import definition_of_spec

PERIOD_S = 10.0
_PREFIX = f"{KIND}/"
_MAX_TEXT = 500
_log = logging.getLogger(__name__)


class LiveZones:
    """`zones`: the keeper's socket; `folder`: where it writes the zones' states; `listen`: where this agent answers
    the keeper, None: nowhere.
    """

    def __init__(self, client: Client, node: str, zones: ZoneClient, folder: Path, listen: str | None) -> None:
        self._client = client
        self._node = node
        self._zones = zones
        self._folder = folder
        self._listen = listen
        self._said = ""

    async def run(self, period_s: float = PERIOD_S) -> None:
        """Follow each period, until cancelled."""
        while True:
            await self.follow()
            await asyncio.sleep(period_s)

    async def follow(self) -> None:
        """List once, create and destroy, and write statuses that changed. A server or a keeper that does not answer
        changes nothing.
        """
        try:
            found = await self._client.all_of(CONTROL_ZONES)
            sources = await asyncio.to_thread(self._zones.sources)
        except (CotenantError, OSError) as error:
            text = "the cluster has no kind ControlZone" if isinstance(error, NotFound) else str(error)
            if text != self._said:
                _log.warning("zones of the cluster stay as they are: %s", text)
            self._said = text
            return
        self._said = ""
        messages: dict[str, str] = {}
        wanted = {
            name: entry for entry in found if (name := entry.metadata.name) and self._is_mine(entry, name, messages)
        }
        for zone, source in sources.items():
            if source.startswith(_PREFIX) and (zone not in wanted or source != _source(wanted[zone])):
                await self._attempt(zone, messages, self._destroy, zone)
        kept = {zone for zone, source in sources.items() if zone in wanted and source == _source(wanted[zone])}
        for name, entry in wanted.items():
            if name not in kept and name not in messages:
                await self._attempt(name, messages, self._create, entry)
        states = {state["zone"]: state for state in await asyncio.to_thread(read_states, self._folder)}
        for entry in found:
            name = entry.metadata.name or ""
            mine = name in wanted or name in messages
            await self._report(entry, _status(entry, states.get(name), messages.get(name, "")) if mine else None)

    def _is_mine(self, obj: ControlZoneObject, name: str, messages: dict[str, str]) -> bool:
        """Whether the zone is for this node; a spec that cannot be used is a message."""
        try:
            definition = definition_of_spec(name, obj.spec, f"{_PREFIX}{name}")
        except InvalidInput as error:
            messages[name] = str(error)
            return False
        return not definition.nodes or self._node in definition.nodes

    def _create(self, obj: ControlZoneObject) -> None:
        document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": obj.metadata.name}, "spec": obj.spec}
        self._zones.create(json.dumps(document), _source(obj), self._listen)

    def _destroy(self, zone: str) -> None:
        self._zones.destroy(zone)

    async def _attempt(self, zone: str, messages: dict[str, str], work: Any, argument: object) -> None:
        try:
            await asyncio.to_thread(work, argument)
        except CotenantError as error:
            messages[zone] = str(error)
            _log.warning("zone %s: %s", zone, error)

    async def _report(self, obj: ControlZoneObject, entry: JsonMapping | None) -> None:
        status = obj.status if isinstance(obj.status, dict) else {}
        nodes = status.get("nodes")
        before = nodes.get(self._node) if isinstance(nodes, dict) else None
        if before == entry:
            return
        # a merge patch adds fields to an object: those that are no longer there are removed by null
        patch = entry if entry is None else {**dict.fromkeys(before or {}, None), **entry}
        try:
            await self._client.patch_status(
                CONTROL_ZONES,
                "",
                obj.metadata.name or "",
                {"status": {"nodes": {self._node: patch}}},
                content_type=MERGE_PATCH,
            )
        except CotenantError as error:
            _log.warning("status of ControlZone %s: %s", obj.metadata.name, error)


def _source(obj: ControlZoneObject) -> str:
    """Where a zone comes from, in the keeper's list: another generation is another zone."""
    return f"{_PREFIX}{obj.metadata.name}@{obj.metadata.generation or 0}:{obj.metadata.uid or ''}"


def _status(obj: ControlZoneObject, state: JsonMapping | None, message: str) -> dict[str, object]:
    """This node's entry. Only what changes with the zone's state: readings are in the node's own state file."""
    entry: JsonObject = {"observedGeneration": obj.metadata.generation or 0}
    if message:
        return {**entry, "state": "refused", "message": message[:_MAX_TEXT]}
    if state is None or not state["running"]:
        return {**entry, "state": "unknown"}
    entry |= {"state": state["state"], "setting": state["setting"], "groups": len(state["rows"])}
    if state["history"]:
        last = state["history"][-1]
        entry["lastChange"] = f"{last['what']}: {last['reason']}"[:_MAX_TEXT]
    return entry
