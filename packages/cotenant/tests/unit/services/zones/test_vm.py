"""Zones in virtual machines: the guest's program against groups in a folder, the link to it, and the zone's end
with its machine.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.unit.services.zones.test_runner import MemoryKeeper

from cotenant.drivers.cgroup.layout import CgroupLayout, LayoutKind
from cotenant.drivers.qemu.machine import MachineSpec, VirtualMachine
from cotenant.engine.zones.zone import Zone, ZoneLimits
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.zones.setting import Backend, ZoneMode, ZoneSetting
from cotenant.model.zones.state import ZoneChange, ZoneState
from cotenant.model.zones.table import ThreadRow, ZoneClass, ZoneRow
from cotenant.services.sockets.peers import Peers
from cotenant.services.zones.backends import BackendLost
from cotenant.services.zones.client import ZoneClient
from cotenant.services.zones.definition import ZoneDefinition
from cotenant.services.zones.host import ZoneHost
from cotenant.services.zones.log_file import read_log
from cotenant.services.zones.opening import ZoneSupport
from cotenant.services.zones.quota import ZoneQuota
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.server import ZoneServer
from cotenant.services.zones.state_file import read_state
from cotenant.services.zones.vm_backend import GuestBackend, GuestState, _row
from cotenant.services.zones.vm_guest_agent import Guest, port_of
from cotenant.services.zones.vm_link import GuestLink
from cotenant.services.zones.vm_opening import first_booted
from cotenant.services.zones.vm_root import FIRST_LINE

ROWS = {"web": ZoneRow(ZoneClass.SERVICE, weight=400), "batch": ZoneRow(ZoneClass.BATCH)}
WRITTEN = {
    "web": {"class": "service", "weight": 400, "sliceUs": 0, "lateUs": 0, "memoryLow": 0, "ioWeight": 0, "threads": []},
    "batch": {"class": "batch", "weight": 0, "sliceUs": 0, "lateUs": 0, "memoryLow": 0, "ioWeight": 0, "threads": []},
}
BOX = "zone: box\nvm: {memory_mib: 512}\ngroups: [{group: web, kind: service}]\nperiod_ms: 100"


def guest(tree: Path) -> Guest:
    """A guest whose groups are folders, with the counters that a kernel would make."""
    for group in ROWS:
        (tree / group).mkdir(parents=True)
        (tree / group / "cpu.stat").write_text("usage_usec 70\nuser_usec 0\n")
    return Guest(tree)


@asynccontextmanager
async def linked(
    path: Path, answer: Callable[[dict[str, Any]], Any]
) -> AsyncIterator[tuple[GuestLink, Callable[[], None]]]:
    """A link to a guest that answers so, and what ends the guest."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(b'{"id": 0, "ok": {"kernel": "7", "python": "3"}}\nnot json\n[]\n{"id": 99, "ok": 1}\n')
        writer.write(b'{"id": [1], "ok": 1}\n' + b"[" * 100_000 + b"\n")
        while line := await reader.readline():
            request = json.loads(line)
            try:
                found = {"id": request["id"], "ok": answer(request)}
            except Exception as error:
                found = {"id": request["id"], "error": str(error)}
            writer.write(json.dumps(found).encode() + b"\n")

    server = await asyncio.start_unix_server(serve, path)
    link = GuestLink()
    assert (await link.open(path, 20))["kernel"] == "7"
    try:
        yield link, lambda: writers[0].transport.abort()
    finally:
        await link.close()
        server.close()


def test_a_guest_has_the_groups_and_weights_of_its_rows(tmp_path: Path) -> None:
    inside = guest(tmp_path)
    found = inside.carry_out({"do": "attach", "rows": WRITTEN, "mode": None, "modes": []})
    assert {name: found[name] for name in ("cpuUs", "runs", "late", "exit", "pods")} == {
        "cpuUs": {"web": 70, "batch": 70},
        "runs": None,
        "late": {},
        "exit": None,
        "pods": {},
    }
    assert (tmp_path / "web/cpu.weight").read_text() == "400"
    assert (tmp_path / "batch/cpu.idle").read_text() == "1"
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+io"  # the last of what was asked for
    with pytest.raises(ValueError, match="unknown request"):
        inside.carry_out({"do": "nothing"})


def test_a_command_in_a_guest_joins_its_group_first(tmp_path: Path) -> None:
    inside = guest(tmp_path)
    found = inside.carry_out({"do": "exec", "group": "web", "command": ["sh", "-c", "echo out; echo err >&2; exit 3"]})
    assert found == {"exit": 3, "stdout": "out\n", "stderr": "err\n"}
    assert (tmp_path / "web/cgroup.procs").read_text().strip().isdecimal()
    missing = inside.carry_out({"do": "exec", "group": "none", "command": ["true"]})
    assert missing["exit"] != 0
    killed = inside.carry_out({"do": "exec", "group": "web", "command": ["sh", "-c", "kill -9 $$"]})
    assert killed["exit"] == 137


def test_the_port_is_found_by_its_name(tmp_path: Path) -> None:
    for number, name in enumerate(("other", "cotenant.agent")):
        (tmp_path / f"vport0p{number}").mkdir()
        (tmp_path / f"vport0p{number}/name").write_text(f"{name}\n")
    assert port_of(tmp_path) == Path("/dev/vport0p1")
    (tmp_path / "vport0p1/name").write_text("third")
    with pytest.raises(LookupError):
        port_of(tmp_path)


def test_a_zone_runs_on_a_guest_and_ends_with_it(tmp_path: Path) -> None:
    inside = guest(tmp_path / "tree")

    async def main() -> None:
        async with linked(tmp_path / "agent.sock", inside.carry_out) as (link, end_guest):
            state = GuestState(link)
            backends = {
                backend: GuestBackend(state, backend, (ZoneMode.LATENCY,))
                for backend in (Backend.ROOT, Backend.WEIGHTS)
            }
            zone = Zone("box", ROWS, (ZoneSetting(Backend.WEIGHTS),), limits=ZoneLimits(canary_s=0.001))
            now_s = [0.0]

            def clock() -> float:
                now_s[0] += 1
                return now_s[0]

            runner = ZoneRunner(zone, backends, lambda: state.used_us, clock=clock)
            await runner.start()
            await runner.step()
            assert (zone.state, str(zone.setting)) == (ZoneState.ACTIVE, "weights")
            assert state.used_us == {"web": 70, "batch": 70}
            assert (tmp_path / "tree/web/cpu.weight").read_text() == "400"
            with pytest.raises(Permanent, match="in the guest: unknown request"):
                await link.ask("nonsense")
            end_guest()
            with pytest.raises(BackendLost, match=r"ended|port"):
                await runner.step()
            await runner.stop()

    asyncio.run(main())


@pytest.mark.parametrize(
    "answer", [None, [], {"cpuUs": 3}, {"cpuUs": {}, "runs": "fast", "late": {}, "exit": None}, {"cpuUs": {"a": "x"}}]
)
def test_a_hostile_guest_is_refused(tmp_path: Path, answer: Any) -> None:
    async def main() -> None:
        async with linked(tmp_path / "agent.sock", lambda request: answer) as (link, _):
            with pytest.raises(Permanent, match="not a reading"):
                await GuestState(link).ask("read")

    asyncio.run(main())


@asynccontextmanager
async def memory_vm(
    definition: ZoneDefinition,
    host: ZoneSupport,
    folder: Path,
    source: str,
    agent: str | None,
    changed: Callable[[ZoneChange], None],
    log: Callable[[str], None],
) -> AsyncIterator[ZoneRunner]:
    async def never() -> None:
        """A backend's refresh."""

    class Weights:
        async def attach(self, setting: ZoneSetting) -> None: ...
        def runs(self, setting: ZoneSetting) -> bool:
            return True

        def put(self, rows: object) -> None: ...

        refresh: Callable[[], Awaitable[None]] = staticmethod(never)

        def late(self) -> None: ...
        def events(self) -> None: ...
        def last_exit(self) -> None: ...
        async def detach(self) -> None: ...

    runner = ZoneRunner(definition.machine(root=False), {Backend.WEIGHTS: Weights()}, dict, changed, log=log)
    runner.details = {"vm": {"pid": 1}}

    async def execute(group: str, command: list[str]) -> dict[str, Any]:
        return {"exit": 0, "stdout": f"{group}: {command}", "stderr": ""}

    runner.execute = execute
    yield runner


def test_commands_go_to_the_guest_for_root_only_and_memory_is_bounded(tmp_path: Path) -> None:
    host = ZoneSupport(CgroupLayout(LayoutKind.V2, (), {}, None), root=False, sub=False)

    async def main() -> None:
        zones = ZoneHost(
            MemoryKeeper(),
            host,
            tmp_path,
            ("kubepods",),
            ZoneQuota(memory_mib=800),
            vm_opener=memory_vm,
            vm_check=lambda definition, source: None,
        )
        server = ZoneServer(tmp_path / "zones.sock", zones, Peers())
        await server.start()
        client = ZoneClient(tmp_path / "zones.sock")
        state = await asyncio.to_thread(client.create, BOX, "box.yaml")
        assert state["vm"] == {"pid": 1}
        assert read_state(tmp_path, "box")["vm"] == {"pid": 1}
        found = await asyncio.to_thread(client.execute, "box", "", ["uname"])
        assert found == {"zone": "box", "group": "web", "exit": 0, "stdout": "web: ['uname']", "stderr": ""}
        assert "exec in web: uname" in [entry["text"] for entry in read_log(tmp_path, "box", 50)]
        for arguments, expected in (
            (("box", "db", ["uname"]), "at or below one of web"),
            (("box", "", []), "a command and its arguments"),
            (("none", "", ["uname"]), "a zone that runs"),
        ):
            with pytest.raises(InvalidInput, match=expected):
                await asyncio.to_thread(client.execute, *arguments)
        request = {"do": "exec", "zone": "box", "group": "", "command": ["uname"]}
        with pytest.raises(Permanent, match="for root"):
            await server._carry_out(request, user=12345)
        with pytest.raises(InvalidInput, match="at most 800 MiB"):
            await asyncio.to_thread(client.create, BOX.replace("box", "two"), "two.yaml")
        small = BOX.replace("box", "two").replace("512", "256, group: system.slice/x")
        with pytest.raises(InvalidInput, match="at or below kubepods"):
            await asyncio.to_thread(client.create, small, "two.yaml")
        await server.stop()

    asyncio.run(main())


def test_qemu_makes_no_device_beyond_those_named_and_starts_nothing(tmp_path: Path) -> None:
    spec = MachineSpec("box", Path("/kernel"), tmp_path, 512, 2, "tcg")
    words = VirtualMachine(spec, b"", lambda line: None)._command()
    devices = [word.partition(",")[0] for before, word in pairwise(words) if before == "-device"]
    assert devices == ["virtio-serial-pci", "virtserialport", "vhost-user-fs-pci"]
    assert {"-nodefaults", "-no-user-config", "512M"} <= set(words)
    assert "spawn=deny" in words[words.index("-sandbox") + 1]
    counted = VirtualMachine(replace(spec, counted=True), b"", lambda line: None)._command()
    assert counted[counted.index("-icount") + 1] == "shift=2,sleep=off"
    assert "-icount" not in words
    assert words[words.index("-smp") + 1] == "2"
    paired = VirtualMachine(replace(spec, cpus=4, threads=2), b"", lambda line: None)._command()
    assert paired[paired.index("-smp") + 1] == "4,sockets=1,cores=2,threads=2"


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="processes of machines are started by setpriv (util-linux)")
def test_a_process_that_cannot_start_is_refused_with_what_it_said_last(tmp_path: Path) -> None:
    lines: list[str] = []

    async def main() -> None:
        machine = VirtualMachine(MachineSpec("box", Path("/kernel"), tmp_path, 512, 1, "tcg"), b"", lines.append)
        process = await machine._run(["sh", "-c", "echo begins; echo no host forwarding for 24080; exit 1"])
        await process.wait()
        with pytest.raises(Transient, match="QEMU did not start: no host forwarding for 24080; the zone's log"):
            await machine._appears(tmp_path / "none", process, "QEMU")
        await machine.stop()

    asyncio.run(main())
    assert lines == ["begins", "no host forwarding for 24080"]


def test_rows_of_threads_reach_the_guests_kernel() -> None:
    row = ZoneRow(ZoneClass.SERVICE, late_us=7, threads=(ThreadRow("gc*", ZoneClass.BATCH, 500),))
    inside = Guest()
    inside.rows = {"web": json.loads(json.dumps(_row(row)))}
    assert inside._kernel_rows() == {"web": row}


class ScriptedMachine(VirtualMachine):
    """A machine whose QEMU cannot start (`refuses`), ends at once (`ends`) or boots (`boots`)."""

    def __init__(self, does: str, console: Callable[[str], None]) -> None:
        super().__init__(MachineSpec("box", Path("/k"), Path("/nonexistent"), 64, 1, does), b"", console)
        self.does = does
        self.print = console
        self.stopped = False

    async def start(self) -> None:
        if self.does == "refuses":
            raise Transient("QEMU did not start")
        if self.does == "boots":
            self.print(FIRST_LINE)

    async def wait(self) -> int:
        if self.does == "boots":
            await asyncio.Event().wait()
        return 1

    async def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize("first", ["refuses", "ends"])
def test_a_machine_that_kvm_cannot_start_or_boot_runs_under_the_next_accelerator(first: str) -> None:
    made: list[ScriptedMachine] = []

    def make(accel: str, console: Callable[[str], None]) -> VirtualMachine:
        made.append(ScriptedMachine(accel, console))
        return made[-1]

    lines: list[str] = []
    found = asyncio.run(first_booted((first, "boots"), make, lines.append))
    assert found is made[1]
    assert [machine.stopped for machine in made] == [True, False]
    assert f"{first} does not boot the guest here" in lines[0]
    with pytest.raises(Transient if first == "refuses" else Permanent, match=r"not (start|boot)"):
        asyncio.run(first_booted((first,), make, lines.append))
