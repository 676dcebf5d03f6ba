"""The zones of one host, in the process that runs them: made, switched and ended at a client's request, within quotas.

Several clients create zones on one machine, a zone that fails must not end another, and a client must learn at once
whether its zone runs. Each zone is a task of its own; `create` returns after its first setting was tried. What was
created is kept as a file, so that zones are there again after a restart of this process.
Limits: the folder is lost at a reboot; the groups of zones are not compared, so two zones with the same group write the
same knobs by turns, unless they are refused here by name.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cotenant.drivers.signatures.ed25519 import TrustedKeys
from cotenant.engine.node.interfaces import Keeper
from cotenant.model.errors import CotenantError, InvalidInput, Permanent
from cotenant.model.json_object import JsonObject
from cotenant.model.zones.state import ZoneChange
from cotenant.services.zones.ban_file import KeptBans
from cotenant.services.zones.definition import ZoneDefinition, setting_of
from cotenant.services.zones.executing import group_for
from cotenant.services.zones.host_ports import check_host_ports
from cotenant.services.zones.log_file import ZoneLog
from cotenant.services.zones.node_files import OF_CLUSTER, place_of
from cotenant.services.zones.opening import ZoneSupport, check_host, opened
from cotenant.services.zones.package_trust import trusted
from cotenant.services.zones.pods import NAME
from cotenant.services.zones.quota import ZoneQuota, check_machine, quota_shown
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.scene_file import KeptScenes
from cotenant.services.zones.state_file import read_state, read_states, remove_state, state_of, write_state
from cotenant.services.zones.vm_host_group import GROUPS_SUFFIX, remove_groups
from cotenant.services.zones.vm_opening import MACHINES, check_vm, opened_vm
from cotenant.services.zones.zone_files import definition_of

_log = logging.getLogger(__name__)
STARTED_WITHIN_S = 60.0
VM_STARTED_WITHIN_S = 200.0
MAX_FAILURES = 64
LOCAL_AGENT = "127.0.0.1:10262"


class Opener(Protocol):
    """Opens one zone: `opening.opened`."""

    def __call__(
        self,
        definition: ZoneDefinition,
        host: ZoneSupport,
        keeper: Keeper,
        agent: str | None,
        changed: Callable[[ZoneChange], None],
        log: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> AbstractAsyncContextManager[ZoneRunner]:
        """The runner, not started."""
        ...


class VmOpener(Protocol):
    """Opens one zone in a virtual machine: `vm.opening.opened_vm`."""

    def __call__(
        self,
        definition: ZoneDefinition,
        host: ZoneSupport,
        folder: Path,
        source: str,
        agent: str | None,
        changed: Callable[[ZoneChange], None],
        log: Callable[[str], None],
    ) -> AbstractAsyncContextManager[ZoneRunner]:
        """The runner, not started, of a machine that runs. `source`: the file beside which the zone's files are."""
        ...


@dataclass(slots=True)
class _Running:
    definition: ZoneDefinition
    source: str
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    runner: ZoneRunner | None = None
    kept: tuple[KeptScenes, KeptBans] | None = None
    task: asyncio.Task[None] | None = None
    failure: str = ""


class ZoneHost:
    """All zones of this process. `roots`: groups that zones may have, with those below them; `folder`: states, logs
    and definitions; `files`: where files that ControlZones name are, None: nowhere; `keys`: whose packages zones may
    be of that name files, None: anybody's.
    """

    def __init__(
        self,
        keeper: Keeper,
        host: ZoneSupport,
        folder: Path,
        roots: tuple[str, ...],
        quota: ZoneQuota | None = None,
        opener: Opener = opened,
        vm_opener: VmOpener = opened_vm,
        vm_check: Callable[[ZoneDefinition, str], object] = check_vm,
        files: Path | None = None,
        keys: TrustedKeys | None = None,
    ) -> None:
        self._files = files
        self._keys = keys
        self._vm_check = vm_check
        self._vm_opener = vm_opener
        self._keeper = keeper
        self._host = host
        self._folder = folder
        self._roots = roots
        self._quota = quota or ZoneQuota()
        self._opener = opener
        self._kept_back_bytes: int | None = None
        self._zones: dict[str, _Running] = {}
        self._failures: dict[str, tuple[str, str]] = {}
        self._settling: set[asyncio.Task[None]] = set()

    @property
    def sources(self) -> dict[str, str]:
        """The zones that run, each with the name that it was created from."""
        return {zone: self._zones[zone].source for zone in sorted(self._zones)}

    @property
    def failures(self) -> dict[str, tuple[str, str]]:
        """Zones that failed and do not run, each with the name that it was created from and why."""
        return dict(self._failures)

    def sweep(self) -> None:
        """Remove what machines of a process that was killed left: their folders, and groups that were made for them.
        The machines themselves ended with it.
        """
        for record in self._folder.glob(f"*{GROUPS_SUFFIX}"):
            remove_groups(record)
        shutil.rmtree(self._folder / MACHINES, ignore_errors=True)

    async def restore(self) -> None:
        """Create again what ran before this process. A zone that is refused now is logged and left out."""
        for path in sorted(self._folder.glob("*.zone")):
            try:
                head, _, text = path.read_text().partition("\n")
                stored = json.loads(head.removeprefix("#"))
                # states may name a process that ended, or have this one's number: this process is the only one at its
                # socket
                await self._create(text, stored["source"], stored["agent"])
            except (CotenantError, OSError, ValueError, LookupError, TypeError) as error:
                _log.error("zone of %s is not created again: %s", path, error)

    async def create(self, text: str, name: str, agent: str | None = None, wait: bool = True) -> dict[str, object]:
        """Create a zone from the text of its file; its state after the first attach, without `wait` only its name.
        `agent`: this host's. Raises `InvalidInput`, `Permanent` or `Unsupported`.
        """
        zone = definition_of(text.encode(), name).zone
        if zone not in self._zones and any(
            state["zone"] == zone and state["running"] for state in read_states(self._folder)
        ):
            raise InvalidInput("zone", zone, "a zone that does not run yet", "another keeper runs it")
        return await self._create(text, name, agent, wait)

    async def _create(self, text: str, name: str, agent: str | None, wait: bool = True) -> dict[str, object]:
        definition = definition_of(text.encode(), name)
        if definition.applications and agent is None:
            agent = LOCAL_AGENT
        self._check(definition, agent)
        signer = ""
        if definition.vm is None:
            check_host(definition, self._host, agent)
        else:
            place = place_of(definition, name, self._files)
            if self._keys is not None:
                files = self._files if name.startswith(OF_CLUSTER) else None
                definition, signer = trusted(definition, text, place, files, self._keys)
            self._vm_check(definition, place)
        running = self._zones[definition.zone] = _Running(definition, name)
        log = ZoneLog(self._folder, definition.zone)
        log(f"created from {name}{f', signed by {signer}' if signer else ''}")
        self._failures.pop(definition.zone, None)
        store = self._store(definition.zone)
        is_new = not store.exists()
        store.write_text(f"# {json.dumps({'source': name, 'agent': agent})}\n{text}")
        running.task = asyncio.create_task(self._run(running, agent, log), name=f"zone {definition.zone}")
        settled = asyncio.create_task(self._settle(running, store if is_new else None))
        self._settling.add(settled)
        settled.add_done_callback(self._settling.discard)
        if not wait:
            return {"zone": definition.zone}
        await asyncio.shield(settled)
        if running.failure:
            raise Permanent(f"zone {definition.zone}: {running.failure}")
        return self._state(running)

    async def _settle(self, running: _Running, store: Path | None) -> None:
        """Wait until the zone's first setting was tried, or it failed. `store`: removed then."""
        within_s = STARTED_WITHIN_S if running.definition.vm is None else VM_STARTED_WITHIN_S
        try:
            async with asyncio.timeout(within_s):
                await running.started.wait()
        except TimeoutError:
            await self._end(running)
            running.failure = "it did not start in time; cotenant zone logs has more"
            self._failed(running)
        if running.failure and store is not None:
            store.unlink(missing_ok=True)

    def _failed(self, running: _Running) -> None:
        while len(self._failures) >= MAX_FAILURES:
            del self._failures[next(iter(self._failures))]
        self._failures[running.definition.zone] = (running.source, running.failure)

    async def switch(self, zone: str, setting: str) -> dict[str, object]:
        """Change the setting of a zone (`latency`, `root/latency`, `weights`); the state with the change on trial.
        Raises `InvalidInput` or `Permanent`.
        """
        running = self._named(zone)
        assert running.runner is not None
        wanted = setting_of(setting, running.runner.zone.setting)
        if wanted.backend not in running.runner.backends:
            raise InvalidInput("setting", setting, f"a back end of this host: {', '.join(running.runner.backends)}")
        await running.runner.request(wanted)
        self._write(running)
        return self._state(running)

    async def execute(self, zone: str, group: str, command: list[str]) -> JsonObject:
        """Run a command in a group of a zone in a virtual machine: `exit`, `stdout`, `stderr`. Raises
        `InvalidInput` or `Permanent`.
        """
        running = self._named(zone)
        assert running.runner is not None
        if running.runner.execute is None:
            raise InvalidInput(
                "zone", zone, "a zone in a virtual machine", "a command of this host joins the group itself"
            )
        if not command:
            raise InvalidInput("command", "", "a command and its arguments")
        chosen = group_for(self._state(running), group)
        ZoneLog(self._folder, zone)(f"exec in {chosen}: {' '.join(command)}")
        return {"zone": zone, "group": chosen, **await running.runner.execute(chosen, command)}

    def keeps_back(self, kept_back_bytes: int | None) -> None:
        """How much memory the node keeps back from pods, as its agent knows; shown beside what machines have."""
        self._kept_back_bytes = kept_back_bytes

    async def destroy(self, zone: str) -> str:
        """End a zone; its log and its last state stay. A zone that ended already is forgotten with both. What was
        done. Raises `InvalidInput`.
        """
        self._store(zone).unlink(missing_ok=True)
        self._failures.pop(zone, None)
        running = self._zones.get(zone)
        if running is not None:
            await self._end(running)
            return "destroyed"
        state = read_state(self._folder, zone)
        if state["running"]:
            raise InvalidInput("zone", zone, "a zone of the keeper", f"process {state['pid']} runs it: stop that one")
        remove_state(self._folder, zone)
        return "forgotten"

    async def stop(self) -> None:
        """End all zones of this process; a restart creates them again."""
        for running in list(self._zones.values()):
            await self._end(running)

    async def _end(self, running: _Running) -> None:
        running.stop.set()
        if running.runner is None and running.task is not None:  # a machine that still boots
            running.task.cancel()
        if running.task is not None:
            await asyncio.gather(running.task, return_exceptions=True)
        if running.runner is None:
            running.failure = running.failure or "it was destroyed while it started"
            self._zones.pop(running.definition.zone, None)  # a task that never ran did not
            running.started.set()

    async def _run(self, running: _Running, agent: str | None, log: ZoneLog) -> None:
        zone = running.definition.zone

        def write() -> None:
            self._write(running)
            running.started.set()

        try:
            async with self._open(running, agent, log) as runner:
                running.runner = runner
                of_zone = self._folder, running.definition, runner.zone, log
                running.kept = KeptScenes(*of_zone), KeptBans(*of_zone)
                await runner.run(running.stop, running.definition.period_ms / 1000, None, write)
            log("destroyed")
        except asyncio.CancelledError:
            log("destroyed while it started")
        except (CotenantError, OSError) as error:
            running.failure = str(error)
            log(f"failed: {error}")
            _log.error("zone %s: %s", zone, error)
        except Exception as error:
            running.failure = f"an unexpected error: {error!r}"
            log(f"failed: {error!r}")
            _log.exception("zone %s", zone)
        finally:
            self._zones.pop(zone, None)
            if running.failure and not running.stop.is_set():
                self._failed(running)
            running.started.set()

    def _open(self, running: _Running, agent: str | None, log: ZoneLog) -> AbstractAsyncContextManager[ZoneRunner]:
        definition = running.definition

        def changed(change: ZoneChange) -> None:
            """Changes are in the log already."""

        if definition.vm is not None:
            place = place_of(definition, running.source, self._files)
            return self._vm_opener(definition, self._host, self._folder, place, agent, changed, log)
        return self._opener(definition, self._host, self._keeper, agent, changed, log, log)

    def _check(self, definition: ZoneDefinition, agent: str | None) -> None:
        name = definition.zone
        if name in self._zones:
            raise InvalidInput("zone", name, "a zone that does not run yet", "cotenant zone list shows what runs")
        if len(self._zones) >= self._quota.zones:
            raise InvalidInput("zone", name, f"at most {self._quota.zones} zones", f"{', '.join(self._zones)} run")
        if agent is not None and not agent.startswith(("unix:/", "127.0.0.1:", "localhost:", "[::1]:")):
            raise InvalidInput("--agent", agent, "an agent of this host: 127.0.0.1:PORT or unix:/PATH")
        here = [entry for entry in self._definitions if entry.vm is None]
        listed = {group: entry.zone for entry in here for group in entry.rows()}
        if definition.vm is not None:
            self._check_machine(definition, definition.vm.group)
            return
        for group in definition.rows():
            if not any(group == root or group.startswith(f"{root}/") for root in self._roots):
                raise InvalidInput("groups", group, f"a group at or below {', '.join(self._roots)} (--root)")
            if group in listed:
                raise InvalidInput("groups", group, "a group of no other zone", f"zone {listed[group]} has it")
        if len(listed) + len(definition.groups) > self._quota.groups:
            raise InvalidInput("groups", len(definition.groups), f"at most {self._quota.groups} groups in all zones")

    def _check_machine(self, definition: ZoneDefinition, group: str) -> None:
        check_machine(definition, self._definitions, self._quota)
        check_host_ports(definition, self._definitions)
        if group and not any(group == root or group.startswith(f"{root}/") for root in self._roots):
            raise InvalidInput("vm.group", group, f"a group at or below {', '.join(self._roots)} (--root)")

    @property
    def _definitions(self) -> list[ZoneDefinition]:
        return [running.definition for running in self._zones.values()]

    def _named(self, zone: str) -> _Running:
        running = self._zones.get(zone)
        if running is None or running.runner is None:
            known = ", ".join(self._zones)
            raise InvalidInput("zone", zone, "a zone that runs", f"zones are {known}" if known else "there are none")
        return running

    def _state(self, running: _Running) -> dict[str, object]:
        runner = running.runner
        assert runner is not None
        state = {**state_of(runner.zone, time.monotonic(), time.time(), runner.last), **runner.details}
        if running.definition.vm is not None:
            state["machines"] = quota_shown(self._definitions, self._quota, kept_back_bytes=self._kept_back_bytes)
        return state

    def _write(self, running: _Running) -> None:
        try:
            write_state(self._folder, self._state(running))
            for file in running.kept or ():
                file.save()
        except OSError as error:
            _log.warning("zone %s: its state cannot be written: %s", running.definition.zone, error)

    def _store(self, zone: str) -> Path:
        if not NAME.fullmatch(zone):
            raise InvalidInput("zone", zone, "a zone's name: 1 to 40 of a-z, 0-9 and -")
        return self._folder / f"{zone}.zone"
