"""One case of experiments at a time on a machine: each waits a minute for another one and then refuses, and removes
what dead ones have left.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """No other worker's or run's case has an experiment meanwhile."""
    with Path(tempfile.gettempdir(), f"cotenant-test-experiments-{os.getuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
