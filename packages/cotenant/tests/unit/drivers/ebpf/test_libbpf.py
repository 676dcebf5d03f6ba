from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.drivers.ebpf.libbpf import (
    OBJECTS_VARIABLE,
    LoadedObject,
    how_to_get,
    kernel_lacks,
    library,
    objects_folder,
)
from cotenant.drivers.ebpf.runqueue import RunQueue
from cotenant.model.errors import CotenantError, InvalidInput, Unsupported


def test_an_object_that_was_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="make bpf"):
        RunQueue("/sys/fs/cgroup", 2, path=tmp_path / "runqueue.bpf.o")


def test_an_installed_wheel_says_what_its_user_can_do(tmp_path: Path) -> None:
    told = how_to_get(tmp_path / "of-no-source.bpf.o")  # as without the sources beside the package
    assert "reinstall on a machine with make, clang and libbpf's headers" in told
    assert OBJECTS_VARIABLE in told


def test_objects_may_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert objects_folder().parent.name == "ebpf"
    monkeypatch.setenv(OBJECTS_VARIABLE, str(tmp_path))
    assert objects_folder() == tmp_path
    with pytest.raises(Unsupported, match="make bpf"):
        RunQueue("/sys/fs/cgroup", 2)


def test_a_file_that_is_not_an_object_is_refused(tmp_path: Path) -> None:
    try:
        library()
    except CotenantError as error:
        pytest.skip(str(error))
    if not Path("/sys/kernel/btf/vmlinux").exists():
        pytest.skip("this kernel has no BTF")
    path = tmp_path / "some.bpf.o"
    path.write_bytes(b"not an object")
    with pytest.raises(Unsupported, match="an object that libbpf can read"):
        LoadedObject(path, lambda loaded: None)


def test_a_cgroup_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidInput):
        RunQueue("/sys/fs/cgroup", 3)


@pytest.mark.parametrize(
    "line",
    [
        "libbpf: extern (func ksym) 'scx_bpf_kick_cpu': func_proto [113] incompatible with vmlinux [48029]",
        "libbpf: extern (func ksym) 'scx_bpf_kick_cpu': not found in kernel or module BTFs",
        "kfunc 'scx_bpf_kick_cpu' is referenced but wasn't resolved",
    ],
)
def test_a_function_that_a_kernel_lacks_or_describes_wrongly_is_named(line: str) -> None:
    resolved = "libbpf: extern (func ksym) 'bpf_rcu_read_lock': resolved to vmlinux [66278]"
    told = kernel_lacks([resolved, line], "7.1.13+deb13-cloud-amd64")
    assert told.startswith("a kernel that programs can call scx_bpf_kick_cpu of (this is 7.1.13+deb13-cloud-amd64; ")
    assert "broken type information, 7.2.13 and 7.3 have not" in told
    of_others = line.replace("scx_bpf_kick_cpu", "bpf_cpumask_create")
    assert kernel_lacks([of_others], "6.1") == "a kernel that programs can call bpf_cpumask_create of (this is 6.1)"
    assert kernel_lacks([resolved, "R1 invalid mem access 'scalar'"], "6.1") == ""
