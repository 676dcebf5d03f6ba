"""What machines of zones may have: the host's group with its limit of CPU time, and the quotas of all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.images import layer_of, save_image
from tests.unit.services.zones.test_runner import MemoryKeeper

from cotenant.cli.zone.showing import _quotas
from cotenant.drivers.cgroup.layout import CgroupLayout, Hierarchy, LayoutKind
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.zones.setting import Backend
from cotenant.model.zones.state import ZoneChange
from cotenant.services.keeper.keeper_arguments import KeeperArguments, check
from cotenant.services.zones.backends import WeightsBackend
from cotenant.services.zones.cluster_status import node_entry
from cotenant.services.zones.definition import ZoneDefinition
from cotenant.services.zones.host import ZoneHost
from cotenant.services.zones.opening import ZoneSupport
from cotenant.services.zones.pods import PodImage, ZonePod
from cotenant.services.zones.quota import ZoneQuota, check_machine, quota_shown
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.state_file import read_state
from cotenant.services.zones.vm_definition import VmDefinition
from cotenant.services.zones.vm_host_group import host_group
from cotenant.services.zones.vm_images import unpack_images
from cotenant.services.zones.zone_files import definition_of_spec


def test_a_machine_is_of_its_group_and_the_group_is_removed_also_after_a_kill(tmp_path: Path) -> None:
    tree, record = tmp_path / "tree", tmp_path / "box.groups"
    (tree / "a").mkdir(parents=True)
    host = ZoneSupport(
        CgroupLayout(LayoutKind.V2, (), {"cpu": Hierarchy(str(tree), 2, frozenset({"cpu"}))}, None),
        root=False,
        sub=False,
    )
    with host_group(host.layout, VmDefinition(group="a/box"), record) as procs:
        assert procs == (tree / "a/box/cgroup.procs",)
        killed = record.read_text()
    assert not (tree / "a/box").exists()
    (tree / "a/box").mkdir()
    record.write_text(killed)  # as a process that was killed leaves it
    with host_group(host.layout, VmDefinition(group="a/box"), record):
        pass
    assert not (tree / "a/box").exists()
    with host_group(host.layout, VmDefinition(group="a"), record):
        pass
    assert (tree / "a").exists()  # was there before
    missing = VmDefinition(group="b/c")
    with pytest.raises(Permanent, match="parent does not exist"), host_group(host.layout, missing, record):
        pass


def limited(tree: Path, version: int = 2) -> tuple[CgroupLayout, VmDefinition]:
    """A host with one tree, whose groups are folders, and a machine with a limit."""
    (tree / "a").mkdir(parents=True)
    layout = CgroupLayout(LayoutKind.V2, (), {"cpu": Hierarchy(str(tree), version, frozenset({"cpu"}))}, None)
    return layout, VmDefinition(group="a/box", cpu_milli=1500)


@pytest.mark.parametrize(
    ("version", "written"),
    [(2, {"cpu.max": "150000 100000"}), (1, {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"})],
)
def test_the_limit_of_cpu_time_is_that_of_the_group_that_was_made(
    tmp_path: Path, version: int, written: dict[str, str]
) -> None:
    layout, vm = limited(tmp_path, version)
    with host_group(layout, vm, tmp_path / "box.groups"):
        group = tmp_path / "a/box"
        assert {path.name: path.read_text() for path in group.iterdir()} == written
        for path in group.iterdir():  # a group's files go with it
            path.unlink()
    assert not group.exists()


def test_a_new_group_of_v1s_cpuset_tree_has_the_cpus_of_the_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, vm = limited(tmp_path, 1)
    files = {"cpuset.cpus": "0-1\n", "cpuset.mems": "0\n"}
    for name, value in files.items():
        (tmp_path / "a" / name).write_text(value)
    make = Path.mkdir

    def make_with_files(path: Path, *arguments: Any, **options: Any) -> None:  # as the kernel does
        make(path, *arguments, **options)
        for name in files:
            (path / name).write_text("\n")

    monkeypatch.setattr(Path, "mkdir", make_with_files)
    with host_group(layout, vm, tmp_path / "box.groups"):
        assert {name: (tmp_path / "a/box" / name).read_text() for name in files} == {
            "cpuset.cpus": "0-1",
            "cpuset.mems": "0",
        }
        for path in (tmp_path / "a/box").iterdir():
            path.unlink()


def test_no_limit_is_written_to_a_group_of_somebody_else(tmp_path: Path) -> None:
    layout, vm = limited(tmp_path)
    (tmp_path / "a/box").mkdir()
    with (
        pytest.raises(Permanent, match=r"group a/box is there already.*name another one"),
        host_group(layout, vm, tmp_path / "box.groups"),
    ):
        pass
    assert list((tmp_path / "a/box").iterdir()) == []


def test_a_group_that_takes_no_limit_is_removed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, vm = limited(tmp_path)

    def refuse(path: Path, text: str) -> int:
        if path.name == "cpu.max":
            raise PermissionError(13, "Permission denied")
        return original(path, text)

    original = Path.write_text
    monkeypatch.setattr(Path, "write_text", refuse)
    with (
        pytest.raises(Permanent, match=r"vm\.cpu_milli: .*cpu\.max: Permission denied: .*CPU controller"),
        host_group(layout, vm, tmp_path / "box.groups"),
    ):
        pass
    assert not (tmp_path / "a/box").exists()


@asynccontextmanager
async def machine_in_memory(
    definition: ZoneDefinition,
    host: ZoneSupport,
    folder: Path,
    source: str,
    agent: str | None,
    changed: Callable[[ZoneChange], None],
    log: Callable[[str], None],
) -> AsyncIterator[ZoneRunner]:
    backends = {Backend.WEIGHTS: WeightsBackend(MemoryKeeper())}
    yield ZoneRunner(definition.machine(root=False), backends, dict, changed)


ONE = "zone: one\nvm: {memory_mib: 512, cpus: 2, disk_mib: 100}\npods: [{name: web, image: {archive: web.tar}}]"
TWO = ONE.replace("zone: one", "zone: two")
BARE = "zone: bare\nvm: {memory_mib: 512, cpus: 2, disk_mib: 65536}\ngroups: [{group: web, kind: service}]"


@pytest.mark.parametrize(
    ("quota", "text", "said"),
    [
        (
            ZoneQuota(memory_mib=1023),
            TWO,
            r"vm\.memory_mib.*512.*at most 1023 MiB in all zones.*512 are used.*larger --max-zone-memory-mib",
        ),
        (ZoneQuota(vcpus=3), TWO, r"vm\.cpus.*2.*at most 3 vCPUs in all zones.*larger --max-zone-vcpus"),
        (ZoneQuota(disk_mib=199), TWO, r"vm\.disk_mib.*100.*at most 199 MiB of images.*larger --max-zone-disk-mib"),
        (ZoneQuota(memory_mib=1024, vcpus=4, disk_mib=200), TWO, ""),
        (ZoneQuota(memory_mib=1024, vcpus=4, disk_mib=100), BARE, ""),  # without pods nothing is unpacked
    ],
)
def test_machines_together_have_what_the_keeper_allows(tmp_path: Path, quota: ZoneQuota, text: str, said: str) -> None:
    host = ZoneSupport(CgroupLayout(LayoutKind.V2, (), {}, None), root=False, sub=False)

    async def main() -> None:
        zones = ZoneHost(
            *(MemoryKeeper(), host, tmp_path, ("kubepods",), quota),
            vm_opener=machine_in_memory,
            vm_check=lambda definition, source: None,
        )
        await zones.create(ONE, "one.yaml")
        if said:
            with pytest.raises(InvalidInput, match=said):
                await zones.create(text, "two.yaml")
            await zones.destroy("one")
            await zones.create(text, "two.yaml")  # what was given back can be had
        else:
            state = await zones.create(text, "two.yaml")
            assert state["machines"]["memoryMib"] == [1024, 1024]
            assert read_state(tmp_path, state["zone"])["machines"]["vcpus"] == [4, 4]
        await zones.stop()

    asyncio.run(main())


@pytest.mark.parametrize(("first", "second"), [(1500, 0), (0, 1500), (1500, 1500)])
def test_a_limit_of_cpu_time_is_one_machines(first: int, second: int) -> None:
    def machine(name: str, group: str, cpu_milli: int) -> ZoneDefinition:
        pods = (ZonePod("web", PodImage("web.tar")),)
        return ZoneDefinition(name, vm=VmDefinition(group=group, cpu_milli=cpu_milli), pods=pods)

    one = machine("one", "a/box", first)
    with pytest.raises(InvalidInput, match=r"vm\.group: a/box: .*cpu_milli; the machine of zone one is in it"):
        check_machine(machine("two", "a/box", second), [one], ZoneQuota())
    check_machine(machine("two", "a/other", second), [one], ZoneQuota())
    check_machine(machine("two", "a/box", 0), [machine("one", "a/box", 0)], ZoneQuota())  # an administrator's group


def test_images_take_the_disk_of_their_zone_and_no_more(tmp_path: Path) -> None:
    save_image(tmp_path / "web.tar", [layer_of({"data": b"x" * (700 << 10)})], {"Entrypoint": ["/serve"]})
    pods = tuple(ZonePod(name, PodImage("web.tar")) for name in ("one", "two"))
    source = str(tmp_path / "box.yaml")
    _, specs, used = unpack_images(pods, source, tmp_path / "fits", 2)
    assert ([spec["name"] for spec in specs], used) == (["one", "two"], 2 * (700 << 10))
    with pytest.raises(InvalidInput, match=r"vm\.disk_mib is 1, .*take 1: raise it"):
        unpack_images(pods, source, tmp_path / "small", 1)
    assert not (tmp_path / "small/two").exists()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cpu_milli": 99, "group": "a"}, "cpu_milli.*99.*100 to 64000"),
        ({"cpu_milli": 500}, "cpu_milli.*500.*a group with it"),
        ({"disk_mib": 0}, "disk_mib.*0.*1 to 65536"),
    ],
)
def test_a_machine_asks_for_what_can_be(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        VmDefinition(**fields)


def test_a_control_zone_has_the_same_limits() -> None:
    pods = [{"name": "web", "image": {"archive": "web.tar"}}]
    spec = {"vm": {"cpuMilli": 500, "diskMib": 64, "group": "a/box"}, "pods": pods}
    vm = definition_of_spec("box", spec, "ControlZone box").vm
    assert vm is not None
    assert (vm.cpu_milli, vm.disk_mib) == (500, 64)
    with pytest.raises(InvalidInput, match="diskMib"):
        definition_of_spec("box", {**spec, "vm": {"diskMib": 1 << 20}}, "ControlZone box")


@pytest.mark.parametrize(
    ("kept_back_mib", "in_pod", "expected"),
    [
        (
            1024,
            False,
            ("True", "KeptBack", "machines of this node have 1024 MiB, and it keeps 1024 MiB back from pods"),
        ),
        (
            1000,
            False,
            (
                "False",
                "PodsMayTakeIt",
                "machines of this node have 1024 MiB, and it keeps 1000 MiB back from pods: raise systemReserved of "
                "its kubelet by 24 MiB",
            ),
        ),
        (0, True, None),  # the requests of the keeper's pod stand for it
        (None, False, None),
    ],
)
def test_a_node_says_whether_it_keeps_the_memory_of_machines_back_from_pods(
    kept_back_mib: int | None, in_pod: bool, expected: tuple[str, str, str] | None
) -> None:
    pods = (ZonePod("web", PodImage("web.tar")),)
    zones = [ZoneDefinition(name, vm=VmDefinition(), pods=pods) for name in ("one", "two")]
    machines = quota_shown(zones, ZoneQuota(), {"KUBERNETES_SERVICE_HOST": "10.0.0.1"} if in_pod else {})
    vm = {"kernel": "7.3", "accelerator": "tcg"}
    state = {"zone": "one", "running": True, "state": "active", "setting": "weights", "rows": {}, "history": []}
    kept_back_bytes = None if kept_back_mib is None else kept_back_mib << 20
    entry = node_entry(1, {**state, "vm": vm, "machines": machines}, "", kept_back_bytes=kept_back_bytes)
    found = {one["type"]: (one["status"], one["reason"], one["message"]) for one in entry["conditions"]}
    assert found.get("MemoryKeptBack") == expected
    assert found["Ready"][0] == "True"  # the zone runs all the same


def test_inspect_tells_of_memory_that_pods_may_take() -> None:
    zones = [ZoneDefinition("one", vm=VmDefinition(), pods=(ZonePod("web", PodImage("web.tar")),))]
    for kept_mib, said in ((None, False), (512, False), (100, True)):
        kept = None if kept_mib is None else kept_mib << 20
        machines = quota_shown(zones, ZoneQuota(), {}, kept)
        assert machines.get("keptBackMib") == kept_mib
        lines = _quotas({}, machines)
        assert any("pods may take 412 MiB of it: this node keeps 100 MiB back" in line for line in lines) is said


@pytest.mark.parametrize("option", ["max_zone_memory_mib", "max_zone_vcpus", "max_zone_disk_mib"])
def test_a_keeper_is_given_no_negative_quota(option: str) -> None:
    check(KeeperArguments(("kubepods",), **{option: 0}))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=f"--{option.replace('_', '-')}.*-1"):
        check(KeeperArguments(("kubepods",), **{option: -1}))  # type: ignore[arg-type]
