"""Kernels that an image brings are copied once, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cotenant.services.kernels import VARIABLE, bring_kernels


@pytest.fixture
def image(tmp_path: Path) -> Path:
    folder = tmp_path / "image" / "version" / "placement"
    folder.mkdir(parents=True)
    (folder / "kernel.nbi").write_bytes(b"code")
    os.utime(folder / "kernel.nbi", (1, 1))
    return tmp_path / "image"


def test_the_kernels_of_this_version_are_copied_where_there_are_none(tmp_path: Path, image: Path) -> None:
    cache = tmp_path / "cache" / "version"
    assert bring_kernels({VARIABLE: str(image)}, cache)
    copied = cache / "placement" / "kernel.nbi"
    assert (copied.read_bytes(), copied.stat().st_mtime) == (b"code", 1)
    assert [path.name for path in cache.parent.iterdir()] == ["version"]
    copied.write_bytes(b"of this processor")
    assert not bring_kernels({VARIABLE: str(image)}, cache)
    assert copied.read_bytes() == b"of this processor"


def test_without_kernels_or_room_nothing_is_left_behind(tmp_path: Path, image: Path) -> None:
    cache = tmp_path / "cache" / "version"
    assert not bring_kernels({}, cache)
    assert not bring_kernels({VARIABLE: str(tmp_path / "none")}, cache)
    assert not bring_kernels({VARIABLE: str(image)}, tmp_path / "cache" / "another version")
    (tmp_path / "file").write_text("")
    assert not bring_kernels({VARIABLE: str(image)}, tmp_path / "file" / "version")
    assert not (tmp_path / "cache").exists()
