"""A guest's root: the named paths of this host at their places, links as here, and nothing else."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from cotenant.drivers.qemu.guest_root import build_root, libraries
from cotenant.drivers.qemu.modules import in_order, module_name
from cotenant.model.errors import InvalidInput

needs_busybox = pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is the guest's shell")


@needs_busybox
def test_a_root_has_mount_points_for_the_named_paths_and_the_links_to_them(tmp_path: Path) -> None:
    host = tmp_path / "host"
    (host / "real/deep").mkdir(parents=True)
    (host / "real/deep/file").write_text("content")
    (host / "real/secret").write_text("secret")
    (host / "link").symlink_to("real")
    (host / "loop").symlink_to("loop")
    root, made = tmp_path / "root", tmp_path / "made"
    for folder in (root, made):
        folder.mkdir()
    (made / "content").write_text("made")
    named = (host / "link/deep", host / "real/deep/file", host / "real/deep")
    binds = build_root(root, named, [("/zone/images/web", made)])
    assert binds == (host / "real/deep",)  # what is below it comes with it
    place = root / host.relative_to("/")
    assert (place / "link").readlink() == Path("real")
    assert list((place / "real").iterdir()) == [place / "real/deep"]
    assert not any(path.name == "secret" for path in root.rglob("*"))
    assert (root / "zone/images/web/content").read_text() == "made"
    assert os.access(root / "bin/sh", os.X_OK)
    with pytest.raises(InvalidInput, match="does not exist"):
        build_root(_empty(tmp_path), (host / "none",))
    with pytest.raises(InvalidInput, match="absolute"):
        build_root(_empty(tmp_path), (Path("relative"),))
    with pytest.raises(InvalidInput, match="below it"):
        build_root(_empty(tmp_path), (Path("/"),))
    (host / "all").symlink_to("/")
    with pytest.raises(InvalidInput, match="links lead it to the whole root"):
        build_root(_empty(tmp_path), (host / "real", host / "all"))


def _empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


@pytest.mark.skipif(shutil.which("ldd") is None, reason="ldd names the libraries")
def test_the_libraries_of_an_interpreter_have_its_c_library() -> None:
    found = libraries([Path(os.path.realpath(sys.executable)), Path(os.path.realpath("/bin/sh"))])
    assert any(path.name.startswith("libc.") for path in found)
    assert all(path.is_absolute() and path.exists() for path in found)


def test_modules_are_loaded_after_those_that_they_need() -> None:
    files = {"a": b"\0depends=b,c-d\0", "b": b"\0depends=c_d\0", "c_d": b"\0depends=\0", "other": b""}
    assert list(in_order(files.get, ("a", "built_in", "b"))) == ["c_d", "b", "a"]
    assert [module_name(name) for name in ("x/virtio-net.ko.xz", "y.ko", "z.txt")] == ["virtio_net", "y", ""]
