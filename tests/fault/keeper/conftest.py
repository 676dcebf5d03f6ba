"""The state folder of the keepers under test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

IN_MEMORY = Path("/dev/shm")


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where available: the result of a kill does not depend on the disk, and a thousand syncs
    take minutes.
    """
    if not IN_MEMORY.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="cotenant-test-", dir=IN_MEMORY))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
