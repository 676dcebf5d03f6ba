"""A run that is told to end, as by timeout(1), ends like one interrupted at the keyboard: fixtures stop the servers
that they started.

The signal's default action ends pytest at once, and what its cases had started runs on.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType


def end_like_an_interruption() -> None:
    """Take SIGTERM for an interruption from now on. A process of which pytest is not the main thread is left alone."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupted)
        os.register_at_fork(after_in_child=_as_before)


def pytest_configure() -> None:
    """As a plugin (`-p tests.termination`); the conftest of the repository calls the same."""
    end_like_an_interruption()


def _interrupted(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would cut the fixtures' ends short
    raise KeyboardInterrupt(signal.Signals(number).name)


def _as_before() -> None:
    """A process that a case forks, and tells to end, ends at once."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
