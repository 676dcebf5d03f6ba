"""Saved images: layers merged as an overlay would show them, and nothing outside the root that they are written to."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest
from tests.fakes.images import layer_of, save_image

from cotenant.drivers.docker.archive import ImageLimits, digest_of, unpack_image
from cotenant.model.errors import InvalidInput

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="owners of an image's files are written by root only")


def shown(root: Path) -> dict[str, str]:
    """Every file below a folder with its content or target."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        else:
            found[name] = "" if path.is_dir() else path.read_text()
    return found


@root_only
def test_layers_are_merged_and_the_configuration_is_read(tmp_path: Path) -> None:
    first = layer_of({"bin": None, "bin/sh": b"one", "etc/old": b"x", "data/a": b"a", "data/b": b"b", "l": "-> /etc"})
    second = layer_of(
        {"etc/.wh.old": b"", "data/.wh..wh..opq": b"", "data/c": b"c", "bin/sh2": "=> bin/sh", "l/in": b"i"}
    )
    started = {"Entrypoint": ["/bin/sh"], "Cmd": ["-c", "x"], "Env": ["A=1"], "WorkingDir": "/data", "User": "7:8"}
    archive = save_image(tmp_path / "image.tar", [first, second], started)
    config = unpack_image(archive, tmp_path / "root")
    assert shown(tmp_path / "root") == {
        "bin": "",
        "bin/sh": "one",
        "bin/sh2": "one",
        "data": "",
        "data/c": "c",
        "etc": "",
        "l": "",  # a folder of a later layer, in place of the link
        "l/in": "i",
    }
    assert (tmp_path / "root/bin/sh").samefile(tmp_path / "root/bin/sh2")
    assert config.entrypoint == ("/bin/sh",)
    assert (config.command, config.env, config.workdir, config.user) == (("-c", "x"), ("A=1",), "/data", "7:8")
    assert config.digest.startswith("sha256:")


@root_only
def test_modes_and_owners_are_kept_and_devices_left_out(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind, mode in (("su", tarfile.REGTYPE, 0o4755), ("dir", tarfile.DIRTYPE, 0o1777)):
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.uid, info.gid = kind, mode, 12, 34
            tar.addfile(info, io.BytesIO())
        info = tarfile.TarInfo("sda")
        info.type, info.devmajor = tarfile.BLKTYPE, 8
        tar.addfile(info)
    unpack_image(save_image(tmp_path / "image.tar", [out.getvalue()], {}), tmp_path / "root")
    for name, mode in (("su", 0o4755), ("dir", 0o1777)):
        status = (tmp_path / "root" / name).stat()
        assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (mode, 12, 34)
    assert sorted(path.name for path in (tmp_path / "root").iterdir()) == ["dir", "su"]


@root_only
def test_no_link_of_an_image_leads_out_of_its_root(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("kept")
    first = layer_of({"way": f"-> {outside}", "up": "-> ../.."})
    second = layer_of({"way/secret": b"taken", "up/new": b"new"})
    unpack_image(save_image(tmp_path / "image.tar", [first, second], {}), tmp_path / "root")
    assert shown(outside) == {"secret": "kept"}
    assert shown(tmp_path / "root")["way/secret"] == "taken"
    assert not (tmp_path / "new").exists()
    for number, layer in enumerate(
        ({"../x": b"x"}, {"a": f"=> ../{outside.name}/secret"}, {"w": f"-> {outside}", "a": "=> w/secret"})
    ):
        with pytest.raises(InvalidInput):
            unpack_image(save_image(tmp_path / f"{number}.tar", [layer_of(layer)], {}), tmp_path / "bad")
        assert not (tmp_path / "bad").exists()


def test_what_an_image_says_of_itself_is_checked(tmp_path: Path) -> None:
    layer = layer_of({"a": b"content " * 2500})
    wrong = save_image(tmp_path / "wrong.tar", [layer], {}, wrong="sha256:" + "0" * 64)
    with pytest.raises(InvalidInput, match="a layer with the digest sha256:000"):
        unpack_image(wrong, tmp_path / "root")
    assert not (tmp_path / "root").exists()
    right = save_image(tmp_path / "right.tar", [layer], {})
    for limits, expected in (
        (ImageLimits(bytes=16_000), "at most 16000"),
        (ImageLimits(layer_bytes=1000), "layers within the limit"),
        (ImageLimits(files=1), "at most 1"),
        (ImageLimits(layers=0), "at most 0"),
    ):
        with pytest.raises(InvalidInput, match=expected):
            unpack_image(right, tmp_path / "root", limits)
        assert not (tmp_path / "root").exists()
    for text in (b"", b"no tar", right.read_bytes()[:700]):
        (tmp_path / "broken.tar").write_bytes(text)
        with pytest.raises(InvalidInput):
            unpack_image(tmp_path / "broken.tar", tmp_path / "root")
    assert len(digest_of(right)) == 64
    with pytest.raises(InvalidInput):
        digest_of(tmp_path / "none")
