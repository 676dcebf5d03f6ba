from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.drivers.ebpf.libbpf import LoadedObject, library
from cotenant.drivers.ebpf.runqueue import RunQueue
from cotenant.model.errors import CotenantError, InvalidInput, Unsupported


def test_an_object_that_was_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="make bpf"):
        RunQueue("/sys/fs/cgroup", 2, path=tmp_path / "runqueue.bpf.o")


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
