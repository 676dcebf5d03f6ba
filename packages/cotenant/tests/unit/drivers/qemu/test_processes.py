"""Machines of a host are found by what the kernel says of their processes, whatever their owners call themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.drivers.qemu.processes import find_machines
from cotenant.model.vms.host_machine import ThreadTime

POD = "kubepods/besteffort/pod11111111-2222-3333-4444-555555555555/" + "a" * 64
QEMU = "/usr/bin/qemu-system-x86_64"


def process(
    proc: Path,
    pid: int,
    *,
    exe: str = "",
    words: tuple[str, ...] = (),
    group: str = "/",
    parent: int = 1,
    threads: dict[int, tuple[str, int, int]],
) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    if exe:
        (folder / "exe").symlink_to(exe)
    name = threads[min(threads)][0]
    (folder / "comm").write_text(f"{name}\n")
    (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in (*words, "")))
    (folder / "cgroup").write_text(f"9:memory:/elsewhere\n3:cpu,cpuacct:{group}\n0::/\n")
    (folder / "stat").write_text(f"{pid} ({name}) S {parent} 0 0\n")
    for thread, (comm, run_us, wait_us) in threads.items():
        task = folder / "task" / str(thread)
        task.mkdir(parents=True)
        (task / "comm").write_text(f"{comm}\n")
        (task / "schedstat").write_text(f"{run_us * 1000} {wait_us * 1000} 4\n")


def test_a_machine_has_its_name_group_and_vcpus(tmp_path: Path) -> None:
    words = (QEMU, "-name", "guest=shop_db,debug-threads=on", "-m", "1G")
    threads = {
        70: ("qemu-system-x86", 9, 9),
        73: ("CPU 1/KVM", 50, 5),
        72: ("CPU 0/KVM", 100, 20),
        74: ("vhost-70", 3, 0),
    }
    process(tmp_path, 70, exe=QEMU, words=words, group=f"/{POD}", threads=threads)
    process(tmp_path, 71, exe="/usr/bin/python3", threads={71: ("CPU 0/KVM", 1, 1)})
    (tmp_path / "meminfo").write_text("")
    (found,) = find_machines(tmp_path)
    assert (found.pid, found.name, found.accelerator) == (70, "shop_db", "KVM")
    assert (found.pod_uid, found.group) == ("11111111-2222-3333-4444-555555555555", f"/{POD}")
    assert found.vcpus == {0: ThreadTime(100, 20, 4), 1: ThreadTime(50, 5, 4)}
    assert (found.threads, found.other_us, found.vhost_us) == ((70, 72, 73, 74), 9, 3)


def test_only_the_kernels_own_threads_count_for_a_machine(tmp_path: Path) -> None:
    process(tmp_path, 70, exe=QEMU, threads={70: ("qemu-system-x86", 9, 9)})
    process(tmp_path, 80, parent=2, threads={80: ("vhost-70", 30, 0)})
    process(tmp_path, 81, exe="/tmp/mine", parent=1, threads={81: ("vhost-70", 5000, 0)})
    (found,) = find_machines(tmp_path)
    assert found.vhost_us == 30
    assert (found.name, found.vcpus, found.other_us) == ("70", {}, 9)  # its threads have no names


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("web,debug-threads=on", "web"),
        ("debug-threads=on,guest=web", "web"),
        ("guest=", "70"),
        ("debug-threads=on", "70"),
    ],
)
def test_the_name_is_read_in_any_form(tmp_path: Path, value: str, name: str) -> None:
    process(tmp_path, 70, exe=QEMU, words=(QEMU, "-name", value), threads={70: ("qemu-system-x86", 9, 9)})
    assert find_machines(tmp_path)[0].name == name


def test_what_ends_meanwhile_is_left_out(tmp_path: Path) -> None:
    process(tmp_path, 70, exe=QEMU, threads={70: ("qemu-system-x86", 9, 9)})
    (tmp_path / "70" / "task" / "70" / "schedstat").unlink()
    assert find_machines(tmp_path) == ()
