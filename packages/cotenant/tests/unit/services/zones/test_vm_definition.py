"""What a zone's machine, kernel, ports and paths may be, at their bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.zones.pods import PodImage, PodPort, check_digest, check_host_path
from cotenant.services.zones.vm_definition import (
    LONGEST_CMDLINE,
    MAX_CPUS,
    MAX_HOST_PATHS,
    MAX_MEMORY_MIB,
    MIN_MEMORY_MIB,
    PACKAGE,
    KernelDefinition,
    KernelPreemption,
    VmDefinition,
)

VM = VmDefinition()


@pytest.mark.parametrize(
    ("field", "taken", "refused"),
    [
        ("memory_mib", (MIN_MEMORY_MIB, MAX_MEMORY_MIB), (MIN_MEMORY_MIB - 1, MAX_MEMORY_MIB + 1)),
        ("cpus", (1, MAX_CPUS), (0, MAX_CPUS + 1)),
        ("group", ("", "a/b"), ("/", "a/../b", "a//b")),
        ("host_paths", ((), ("/a",) * MAX_HOST_PATHS), (("/a",) * (MAX_HOST_PATHS + 1), ("a",), ("/a", "/proc/1"))),
    ],
)
def test_a_machine(field: str, taken: tuple[object, ...], refused: tuple[object, ...]) -> None:
    for value in taken:
        assert getattr(replace(VM, **{field: value}), field) == value  # type: ignore[arg-type]
    for value in refused:
        with pytest.raises(InvalidInput):
            replace(VM, **{field: value})  # type: ignore[arg-type]


def test_a_kernel_is_a_package_or_a_file_and_its_parameters_are_not_the_machines_own() -> None:
    assert KernelDefinition(PACKAGE).command_line == ""
    found = KernelDefinition(
        file="/b/Image", sha256="a" * 64, preempt=KernelPreemption.FULL, hz=250, cmdline=" a=1  b "
    )
    assert found.command_line == "preempt=full a=1 b"
    assert KernelDefinition(cmdline="nohz_full=1-3,5 x.y-z").command_line == "nohz_full=1-3,5 x.y-z"
    assert KernelDefinition(cmdline="a=" + "b" * (LONGEST_CMDLINE - 2)).command_line
    for hz in (0, 100, 250, 300, 1000):
        assert KernelDefinition(hz=hz).hz == hz
    for given, field in (
        ({"package": PACKAGE, "file": "Image"}, "file"),
        ({"package": "bash"}, "package"),
        ({"package": "linux-image-a;b"}, "package"),
        ({"file": "a\0b"}, "file"),
        ({"sha256": "a" * 63}, "sha256"),
        ({"hz": 50}, "hz"),
        ({"hz": -100}, "hz"),
        ({"cmdline": "a=1 init=/bin/sh"}, "cmdline"),
        ({"cmdline": "preempt=full"}, "cmdline"),
        ({"cmdline": "root"}, "cmdline"),
        ({"cmdline": 'a="b'}, "cmdline"),
        ({"cmdline": "a;b"}, "cmdline"),
        ({"cmdline": "psi=0"}, "cmdline"),
        ({"cmdline": "cgroup-no-v1=cpu"}, "cmdline"),
        ({"cmdline": "a=" + "b" * (LONGEST_CMDLINE - 1)}, "cmdline"),
    ):
        with pytest.raises(InvalidInput) as refused:
            KernelDefinition(**given)  # type: ignore[arg-type]
        assert refused.value.field == field


def test_ports_of_pods() -> None:
    for port in (PodPort(1), PodPort(65535, 65535), PodPort(80, 1, "0.0.0.0")):
        assert port.container
    for given in ((0,), (65536,), (80, -1), (80, 65536)):
        with pytest.raises(InvalidInput):
            PodPort(*given)
    for address in ("", "localhost", "1.2.3", "1.2.3.4.5", "256.0.0.1", "1.2.3.999", "::1", "١.2.3.4", "1.2.3.4\n"):
        with pytest.raises(InvalidInput, match="IPv4"):
            PodPort(80, 0, address)


@pytest.mark.parametrize("path", ["/", "/a", "/a/b/", "/a/..b", "/srv/proc", "/process", "/devices"])
def test_paths_of_the_host_that_a_guest_can_see(path: str) -> None:
    check_host_path("p", path)


@pytest.mark.parametrize("path", ["", "a", "//a", "/a/../b", "/..", "/a\0", "/proc", "/sys/x", "/dev/null", "/run/a"])
def test_paths_that_it_cannot(path: str) -> None:
    with pytest.raises(InvalidInput):
        check_host_path("p", path)


def test_digests_and_images() -> None:
    check_digest("d", "")
    check_digest("d", "0123456789abcdef" * 4)
    for text in ("0123456789abcdef" * 4 + "0", "A" * 64, "g" * 64, "a" * 64 + "\n"):
        with pytest.raises(InvalidInput):
            check_digest("d", text)
    assert PodImage("web.tar").sha256 == ""
    for archive in ("", "a\0"):
        with pytest.raises(InvalidInput, match="archive"):
            PodImage(archive)
