"""Kernels that an image brings are copied once, whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.model.compiled import cache_directory
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


def test_they_are_copied_where_numba_has_made_its_folders_already(tmp_path: Path, image: Path) -> None:
    cache = tmp_path / "cache" / "version"
    for name in ("placement", "of a module that the image did not load"):
        (cache / name).mkdir(parents=True)
    assert bring_kernels({VARIABLE: str(image)}, cache)
    assert (cache / "placement" / "kernel.nbi").read_bytes() == b"code"
    assert (cache / "of a module that the image did not load").is_dir()
    assert [path.name for path in cache.parent.iterdir()] == ["version"]


@pytest.mark.slow
def test_a_process_that_has_loaded_its_modules_still_copies_them(tmp_path: Path) -> None:
    """Modules with compiled functions are loaded before any command runs."""
    (tmp_path / "image" / cache_directory().name / "placement").mkdir(parents=True)
    (tmp_path / "image" / cache_directory().name / "placement" / "kernel.nbi").write_bytes(b"code")
    program = "import cotenant.services.scheduler.main as main; print(main.bring_kernels())"
    environment = {**os.environ, VARIABLE: str(tmp_path / "image"), "COTENANT_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    assert (tmp_path / "cache" / cache_directory().name / "placement" / "kernel.nbi").exists()
