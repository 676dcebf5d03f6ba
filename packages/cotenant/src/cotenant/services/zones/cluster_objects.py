"""The cluster's ControlZones on this node: the keeper is asked to run them, and their status says how it went.

A ControlZone is for many nodes, its pods are where the scheduler put them, and the process that runs zones is
privileged and knows no API server. Once a period the agent lists the ControlZones and has the keeper create those for
this node, and destroy those that are gone or changed; the keeper asks the agent for pods and burn rates. What cannot
start, or ended by itself, is tried again after pauses (cluster_starts.py); a virtual machine boots beside all else. The
status has one entry a node (cluster_status.py), patched where it changed.
Limits: a change is up to a period late; zones that were created by hand are left alone, and a ControlZone of the same
name is refused; the role that patches statuses is not limited to the node's own entry.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cotenant.drivers.kube.client.client import MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.control_zone import API_VERSION, CONTROL_ZONES, KIND, ControlZoneObject
from cotenant.drivers.kube.kinds.kind import AnyKind
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.services.zones.client import ZoneClient
from cotenant.services.zones.cluster_starts import ZoneStarts
from cotenant.services.zones.cluster_status import KEPT_BACK, node_entry
from cotenant.services.zones.definition import ZoneDefinition
from cotenant.services.zones.node_files import OF_CLUSTER
from cotenant.services.zones.state_file import read_states
from cotenant.services.zones.zone_files import definition_of_spec

PERIOD_S = 10.0
EVENT_GAP_S = 3600.0
_log = logging.getLogger(__name__)


class ObjectEvents(Protocol):
    """`kube_process.events.EventRecorder`."""

    def record(self, kind: AnyKind, key: str, uid: str, type_: str, reason: str, message: str) -> None:
        """Record an Event; returns at once."""
        ...


class LiveZones:
    """`zones`: the keeper's socket; `folder`: where it writes the zones' states; `listen`: where this agent answers
    the keeper, None: nowhere; `clock`: monotonic seconds; `wall`: Unix seconds; `kept_back`: bytes of memory that the
    node keeps back from pods, None unknown; `events`: records Events of ControlZones, None: there are none.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        zones: ZoneClient,
        folder: Path,
        listen: str | None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        kept_back: Callable[[], int | None] = lambda: None,
        events: ObjectEvents | None = None,
    ) -> None:
        self._events = events
        self._announced_s: dict[str, float] = {}  # by zone: the last Event that memory is not kept back
        self._kept_back = kept_back
        self._client = client
        self._node = node
        self._zones = zones
        self._folder = folder
        self._listen = listen
        self._clock, self._wall = clock, wall
        self._said = ""
        self._starts = ZoneStarts()

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
            failures = await asyncio.to_thread(self._zones.failures)
        except (CotenantError, OSError) as error:
            text = "the cluster has no kind ControlZone" if isinstance(error, NotFound) else str(error)
            if text != self._said:
                _log.warning("zones of the cluster stay as they are: %s", text)
            self._said = text
            return
        self._said = ""
        messages: dict[str, str] = {}
        wanted = {
            name: (entry, definition)
            for entry in found
            if (name := entry.metadata.name) and (definition := self._mine(entry, name, messages))
        }
        self._starts.keep(wanted)
        for zone, source in sources.items():
            if source.startswith(OF_CLUSTER) and (zone not in wanted or source != _source(wanted[zone][0])):
                await self._destroy(zone, messages)
        states = {state["zone"]: state for state in await asyncio.to_thread(read_states, self._folder)}
        for name, (entry, definition) in wanted.items():
            source, now_s = _source(entry), self._clock()
            if name in messages:
                continue
            if sources.get(name) == source:
                self._starts.seen(name, source, bool(states.get(name, {}).get("running")), now_s)
                continue
            failed, why = failures.get(name, ("", ""))
            if self._starts.absent(name, source, why if failed == source else "", now_s):
                await self._create(entry, name, source, wait=definition.vm is None)
        states = {state["zone"]: state for state in await asyncio.to_thread(read_states, self._folder)}
        await self._tell_kept_back(states)
        for entry in found:
            name = entry.metadata.name or ""
            definition = wanted[name][1] if name in wanted else None
            mine = definition is not None or name in messages
            message = messages.get(name) or self._starts.message(name)
            in_machine = definition is not None and definition.vm is not None
            await self._report(entry, (states.get(name), message, in_machine) if mine else None)

    async def _tell_kept_back(self, states: JsonMapping) -> None:
        """Tell the keeper, which shows it with each machine, where what it shows is not so."""
        kept = self._kept_back()
        wanted = None if kept is None else kept >> 20
        if all(state["machines"].get("keptBackMib") == wanted for state in states.values() if "machines" in state):
            return
        try:
            await asyncio.to_thread(self._zones.keeps_back, kept)
        except CotenantError as error:
            _log.warning("the keeper is not told what memory is kept back: %s", error)

    async def _create(self, entry: ControlZoneObject, name: str, source: str, wait: bool) -> None:
        """Have the keeper start it. `wait`: for its first setting; a machine boots for a while, beside all else."""
        document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": entry.spec}
        try:
            await asyncio.to_thread(self._zones.create, json.dumps(document), source, self._listen, wait)
        except CotenantError as error:
            _log.warning("zone %s: %s", name, error)
            self._starts.refused(name, source, str(error), self._clock())
            return
        self._starts.asked(name, source)
        if wait:
            self._starts.seen(name, source, True, self._clock())

    def _mine(self, obj: ControlZoneObject, name: str, messages: dict[str, str]) -> ZoneDefinition | None:
        """The zone where it is for this node; a spec that cannot be used is a message."""
        try:
            definition = definition_of_spec(name, obj.spec, f"{OF_CLUSTER}{name}")
        except InvalidInput as error:
            messages[name] = str(error)
            return None
        return definition if not definition.nodes or self._node in definition.nodes else None

    async def _destroy(self, zone: str, messages: dict[str, str]) -> None:
        try:
            await asyncio.to_thread(self._zones.destroy, zone)
        except CotenantError as error:
            messages[zone] = str(error)
            _log.warning("zone %s: %s", zone, error)

    async def _report(self, obj: ControlZoneObject, found: tuple[JsonMapping | None, str, bool] | None) -> None:
        """Write this node's entry where it changed. `found`: the zone's state, why it does not run, whether it has a
        machine; None: the zone is not this node's.
        """
        name, status = obj.metadata.name or "", obj.status if isinstance(obj.status, dict) else {}
        nodes = status.get("nodes")
        before = nodes.get(self._node) if isinstance(nodes, dict) else None
        entry: JsonObject | None = None
        if found is not None:
            state, message, in_machine = found
            entry = node_entry(
                obj.metadata.generation or 0,
                state,
                message,
                in_machine=in_machine,
                is_starting=self._starts.is_starting(name),
                restarts=self._starts.restarts(name),
                before=before,
                wall_s=self._wall(),
                kept_back_bytes=self._kept_back(),
            )
        if before == entry:
            return
        self._announce(obj, before, entry)
        # a merge patch adds fields to an object: those that are no longer there are removed by null
        patch = entry if entry is None else {**dict.fromkeys(before or {}, None), **entry}
        try:
            await self._client.patch_status(
                CONTROL_ZONES, "", name, {"status": {"nodes": {self._node: patch}}}, content_type=MERGE_PATCH
            )
        except CotenantError as error:
            _log.warning("status of ControlZone %s: %s", name, error)

    def _announce(self, obj: ControlZoneObject, before: object, entry: JsonObject | None) -> None:
        """An Event where pods may now take the memory of this node's machines, an hour apart at least."""
        now = _condition(entry, KEPT_BACK)
        if self._events is None or now is None or now["status"] != "False":
            return
        was, name, now_s = _condition(before, KEPT_BACK), obj.metadata.name or "", self._clock()
        last_s = self._announced_s.get(name)
        if (was is not None and was.get("status") == "False") or (last_s is not None and now_s - last_s < EVENT_GAP_S):
            return
        self._announced_s[name] = now_s
        text = f"{KEPT_BACK} on node {self._node}: {now['message']}"
        self._events.record(CONTROL_ZONES, name, obj.metadata.uid or "", "Warning", now["reason"], text)


def _condition(entry: object, kind: str) -> JsonMapping | None:
    conditions = entry.get("conditions") if isinstance(entry, dict) else None
    found = [one for one in conditions or () if isinstance(one, dict) and one.get("type") == kind]
    return found[0] if found else None


def _source(obj: ControlZoneObject) -> str:
    """Where a zone comes from, in the keeper's list: another generation is another zone."""
    return f"{OF_CLUSTER}{obj.metadata.name}@{obj.metadata.generation or 0}:{obj.metadata.uid or ''}"
