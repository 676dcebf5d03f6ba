"""A zone in a machine from its opening to its end: what the machine is made of, what the guest is asked, and what is
left when it ends or does not come up. QEMU is played, and so is the guest's agent at the other end of its socket.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.images import layer_of, save_image

from cotenant.drivers.cgroup.layout import CgroupLayout, Hierarchy, LayoutKind
from cotenant.drivers.qemu.machine import Forward, MachineSpec, VirtualMachine
from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.zones.setting import Backend
from cotenant.model.zones.zone_reading import MachineSigns
from cotenant.services.zones import vm_opening
from cotenant.services.zones.definition import BackendChoice, ZoneDefinition
from cotenant.services.zones.groups import GroupClass, ZoneGroup
from cotenant.services.zones.opening import ZoneSupport
from cotenant.services.zones.pods import PodImage, PodPort, PodVolume, ZonePod
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.vm_definition import KernelDefinition, KernelPreemption, VmDefinition
from cotenant.services.zones.vm_host_group import remove_groups
from cotenant.services.zones.vm_opening import check_vm, first_booted, opened_vm
from cotenant.services.zones.vm_root import FIRST_LINE

HELLO = {"kernel": "7.1", "python": "3.11", "preempt": "full", "hz": 250}
NO_PROCESS = 2**22 + 1


class PlayedMachine(VirtualMachine):
    """Boots at once, and answers on the guest's port. `made`: all of this test, in order."""

    made: list[PlayedMachine]
    hello: dict[str, object]

    def __init__(
        self,
        spec: MachineSpec,
        initrd: bytes,
        console: Callable[[str], None],
        fill: Callable[[Path], Sequence[tuple[str, Path]]] = lambda place: (),
    ) -> None:
        super().__init__(spec, initrd, console, fill)
        self.initrd, self.says, self.fills = initrd, console, fill
        self.asked: list[dict[str, Any]] = []
        self.controls: list[str] = []
        self.was_stopped = self.was_left = False
        self.folders: Sequence[tuple[str, Path]] = ()
        self._writer: asyncio.StreamWriter | None = None
        self.made.append(self)

    @property
    def agent_socket(self) -> Path:
        return self.spec.folder.parents[2] / "agent"  # a socket's path is short

    @property
    def pid(self) -> int:
        return NO_PROCESS

    @property
    def share_pid(self) -> int:
        return NO_PROCESS

    async def start(self) -> None:
        making = self.spec.folder / "making"
        making.mkdir(parents=True)
        self.folders = self.fills(making)
        self._server = await asyncio.start_unix_server(self._serve, self.agent_socket)
        self.says(FIRST_LINE)

    async def wait(self) -> int:
        await asyncio.Event().wait()
        return 0

    async def control(self, command: str, **arguments: object) -> object:
        self.controls.append(command)
        raise Transient("nobody answers QMP")

    async def stop(self) -> None:
        self.was_stopped = True
        self._server.close()
        shutil.rmtree(self.spec.folder)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps({"id": 0, "ok": self.hello}).encode() + b"\n")
        while line := await reader.readline():
            request = json.loads(line)
            self.asked.append(request)
            answer = {"exit": 0, "stdout": "ran", "stderr": ""} if request["do"] == "exec" else None
            writer.write(json.dumps({"id": request["id"], "ok": answer}).encode() + b"\n")
        self.was_left = True
        writer.close()


class World:
    """A host with one tree of groups, an image of a pod and a kernel's image beside the zone's file."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.zones, self.tree = folder, folder / "zones", folder / "tree"
        (self.tree / "machines").mkdir(parents=True)
        self.zones.mkdir()
        (folder / "image").write_bytes(b"\x7fELF")
        save_image(folder / "web.tar", [layer_of({"srv": None})], {"Entrypoint": ["/serve"], "Env": ["A=1"]})
        by_controller = {"cpu": Hierarchy(str(self.tree), 2, frozenset({"cpu"}))}
        self.host = ZoneSupport(CgroupLayout(LayoutKind.V2, (), by_controller, None), root=False, sub=False)
        self.lines: list[str] = []
        self.roots: list[tuple[object, bool, object]] = []
        self.shared: list[tuple[str, ...]] = []
        PlayedMachine.made, PlayedMachine.hello = [], HELLO
        monkeypatch.setattr(vm_opening, "missing", lambda: "")
        monkeypatch.setattr(vm_opening, "VirtualMachine", PlayedMachine)
        monkeypatch.setattr(vm_opening, "shared_paths", self._shared_paths)
        monkeypatch.setattr(vm_opening, "first_root", self._first_root)
        monkeypatch.setattr(os, "access", lambda path, mode: True)

    def _shared_paths(self, host_paths: tuple[str, ...]) -> tuple[Path, ...]:
        self.shared.append(host_paths)
        return (Path("/usr/lib/python"),)

    def _first_root(self, modules: object, network: bool, shared: object) -> bytes:
        self.roots.append((modules, network, shared))
        return b"the first root"

    def opened(self, definition: ZoneDefinition, agent: str | None = None) -> Any:
        source = str(self.folder / "box.yaml")
        return opened_vm(definition, self.host, self.zones, source, agent, lambda change: None, self.lines.append)

    @property
    def machine(self) -> PlayedMachine:
        (found,) = PlayedMachine.made
        return found


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def zone(kernel: KernelDefinition | None = None, pods: tuple[ZonePod, ...] = (), **vm: Any) -> ZoneDefinition:
    machine = VmDefinition(1024, 2, "machines/box", kernel or KernelDefinition(file="image"), **vm)
    return ZoneDefinition(
        "box", (ZoneGroup("db", GroupClass.SERVICE, 2),), vm=machine, pods=pods, backend=BackendChoice.AUTO
    )


WEB = ZonePod(
    "web",
    PodImage("web.tar"),
    ports=(PodPort(80, 8080), PodPort(81)),
    volumes=(PodVolume("/data", host="/srv/data"), PodVolume("/own", name="own")),
)


def test_a_machine_is_what_the_zones_file_says_and_nothing_is_left_of_it(world: World) -> None:
    async def main() -> ZoneRunner:
        async with world.opened(zone(KernelDefinition(file="image", cmdline="quiet"), outbound=True)) as runner:
            assert (world.tree / "machines/box").is_dir()
            found: ZoneRunner = runner
            details: Any = found.details["vm"]
            assert {name: value for name, value in details.items() if name != "bootSeconds"} == {
                "pid": NO_PROCESS,
                "accelerator": "kvm",
                "kernel": "7.1",
                "preempt": "full",
                "hz": 250,
                "memoryMib": 1024,
                "cpus": 2,
                "group": "machines/box",
                "cpuMilli": 0,
                "diskMib": 2048,
                "diskBytes": 0,
                "kernelChosen": "",
            }
            assert 0 <= details["bootSeconds"] < 3600
            assert found.details["pods"] == {}
            assert found.signs() == MachineSigns(2, 0.0)
            assert found.burns is None
            assert found.execute is not None
            assert await found.execute("db", ["id", "-u"]) == {"exit": 0, "stdout": "ran", "stderr": ""}
            assert [entry["do"] for entry in world.machine.asked] == ["exec"]  # no pods: none are asked for
            assert (world.machine.asked[0]["group"], world.machine.asked[0]["command"]) == ("db", ["id", "-u"])
            assert not world.machine.was_stopped
            return found

    asyncio.run(main())
    spec = world.machine.spec
    assert (spec.name, spec.kernel, spec.folder) == ("box", world.folder / "image", world.zones / "vm/box")
    assert (spec.memory_mib, spec.cpus, spec.accel, spec.cmdline) == (1024, 2, "kvm", "quiet")
    assert spec.procs == (world.tree / "machines/box/cgroup.procs",)
    assert (spec.network, spec.forwards, spec.outbound) == (False, (), True)
    assert spec.shared == (Path("/usr/lib/python"),)
    assert world.roots == [((), False, (Path("/usr/lib/python"),))]
    assert world.machine.initrd == b"the first root"
    assert (world.zones / "kvm.image").read_text() == "yes"  # KVM boots this kernel here
    assert "quit" in world.machine.controls  # though QMP does not answer, the machine is stopped
    assert (world.machine.was_stopped, world.machine.was_left) == (True, True)
    assert not (world.tree / "machines/box").exists()
    assert not (world.zones / "box.groups").exists()
    assert next(line for line in world.lines if "answers" in line).startswith(
        "the guest answers: Linux 7.1, Python 3.11, after "
    )


def test_a_zones_pods_are_unpacked_named_forwarded_and_started(world: World) -> None:
    async def main() -> None:
        async with world.opened(
            zone(pods=(WEB,), host_paths=("/opt/tools",), namespace="shop"), "unix:/agent"
        ) as runner:
            assert runner.burns is not None
            told = runner.details["pods"]["web"]
            assert (told["namespace"], told["fullName"], told["running"]) == ("shop", "box-web", False)
            (asked,) = world.machine.asked
            (pod,) = asked["pods"]
            assert (asked["do"], pod["name"], pod["command"]) == ("pods", "web", ["/serve"])
            names = f"k8s.namespace.name=shop,k8s.pod.name=box-web,k8s.pod.uid={told['uid']}"
            assert pod["env"] == [f"OTEL_RESOURCE_ATTRIBUTES={names}", "OTEL_SERVICE_NAME=web", "A=1"]

    asyncio.run(main())
    spec = world.machine.spec
    assert (spec.network, spec.outbound) == (True, False)
    assert spec.forwards == (Forward("127.0.0.1", 8080, 80),)  # a port that this host does not name stays inside
    assert world.machine.folders == [("/zone/images/web", world.zones / "vm/box/making/web")]
    assert world.shared == [("/opt/tools", "/srv/data")]  # a volume of the guest's own is none of this host's


def test_an_agent_is_asked_for_burn_rates_of_pods_only(world: World) -> None:
    async def main() -> None:
        async with world.opened(zone(), "unix:/agent") as runner:
            assert runner.burns is None

    asyncio.run(main())


@pytest.mark.parametrize("backend", [BackendChoice.WEIGHTS, BackendChoice.ROOT, BackendChoice.AUTO])
def test_a_guest_may_load_schedulers_unless_its_zone_wants_weights(world: World, backend: BackendChoice) -> None:
    vm = VmDefinition(kernel=KernelDefinition(file="image"))
    definition = ZoneDefinition("box", (ZoneGroup("db", GroupClass.SERVICE),), vm=vm, backend=backend)

    async def main() -> None:
        async with world.opened(definition) as runner:
            runner.zone.start(0.0)
            assert (runner.zone.setting.backend is Backend.ROOT) is (backend is not BackendChoice.WEIGHTS)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (KernelDefinition(file="image", preempt=KernelPreemption.LAZY), "runs preempt=full and not lazy: Linux 7.1"),
        (KernelDefinition(file="image", hz=1000), "has 250 ticks a second and not 1000"),
    ],
)
def test_a_guest_whose_kernel_is_another_than_was_stated_is_refused_and_ended(
    world: World, kernel: KernelDefinition, said: str
) -> None:
    async def main() -> None:
        async with world.opened(zone(kernel)):
            raise AssertionError("it was opened")

    with pytest.raises(Permanent, match=said):
        asyncio.run(main())
    assert world.machine.was_stopped
    assert not (world.tree / "machines/box").exists()


def test_what_the_author_stated_and_the_guest_has_is_taken(world: World) -> None:
    async def main() -> None:
        async with world.opened(zone(KernelDefinition(file="image", preempt=KernelPreemption.FULL, hz=250))) as runner:
            assert runner.details["vm"]["hz"] == 250

    asyncio.run(main())
    PlayedMachine.made, PlayedMachine.hello = [], {**HELLO, "preempt": ""}
    with pytest.raises(Permanent, match="preempt=unknown and not full"):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("known", "may_use_kvm", "tried"),
    [
        ("", True, ("kvm", "tcg")),
        ("yes", True, ("kvm", "tcg")),
        ("no", True, ("tcg",)),
        ("yes", False, ("tcg",)),
        ("", False, ("tcg",)),
    ],
)
def test_kvm_is_tried_where_it_may_be_used_and_has_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str, may_use_kvm: bool, tried: tuple[str, ...]
) -> None:
    asked: list[tuple[str, int]] = []

    def access(path: str, mode: int) -> bool:
        asked.append((path, mode))
        return may_use_kvm

    monkeypatch.setattr(os, "access", access)
    outcome = tmp_path / "kvm.7.1"
    if known:
        outcome.write_text(known)
    assert vm_opening._accelerators(outcome) == tried
    assert set(asked) <= {("/dev/kvm", os.R_OK | os.W_OK)}


def test_a_machine_whose_start_is_given_up_is_stopped(tmp_path: Path) -> None:
    class Unstartable(PlayedMachine):
        async def start(self) -> None:
            raise asyncio.CancelledError

        async def stop(self) -> None:
            self.was_stopped = True

    Unstartable.made = []
    spec = MachineSpec("box", tmp_path, tmp_path, 64, 1, "kvm")
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(first_booted(("kvm", "tcg"), lambda accel, says: Unstartable(spec, b"", says), lambda line: None))
    assert [machine.was_stopped for machine in Unstartable.made] == [True]  # and TCG is not tried


def test_a_kernel_is_the_file_that_was_stated_or_refused(world: World) -> None:
    source = str(world.folder / "box.yaml")
    found = check_vm(zone(), source)
    assert (found.version, found.image, found.modules) == ("image", world.folder / "image", ())
    with pytest.raises(InvalidInput, match=r"vm\.kernel\.file"):
        check_vm(zone(KernelDefinition(file="none")), source)
    with pytest.raises(InvalidInput, match="SHA-256"):
        check_vm(zone(KernelDefinition(file="image", sha256="0" * 64)), source)


def test_a_host_that_lacks_a_part_is_told_which(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vm_opening, "missing", lambda: "busybox (busybox-static)")
    with pytest.raises(Unsupported, match="busybox-static"):
        check_vm(zone(), str(world.folder / "box.yaml"))


def test_groups_that_hold_something_stay_and_their_record_goes(tmp_path: Path) -> None:
    for name in ("empty", "full/child"):
        (tmp_path / name).mkdir(parents=True)
    record = tmp_path / "box.groups"
    record.write_text(f"{tmp_path / 'full'}\n{tmp_path / 'empty'}")
    remove_groups(record)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full"]
