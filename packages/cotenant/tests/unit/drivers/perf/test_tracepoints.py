"""Tracepoints of threads are counted by the real kernel where tracefs is mounted; else what is missing is said."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from cotenant.drivers.perf.tracepoints import ThreadTracepoints
from cotenant.model.errors import Unsupported

SLEEPS = 20


def test_a_threads_events_are_counted_and_no_others() -> None:
    ready, go = threading.Event(), threading.Event()

    def sleeper() -> None:
        ready.set()
        go.wait()
        for _ in range(SLEEPS):
            time.sleep(0.001)

    thread = threading.Thread(target=sleeper)
    thread.start()
    ready.wait()
    assert thread.native_id is not None
    try:
        counters = ThreadTracepoints([thread.native_id, 2**22 + 1], ["sched:sched_switch", "kvm:no_such_event"])
    except Unsupported as error:
        pytest.skip(str(error))
    finally:
        go.set()
    try:
        thread.join()
        assert counters.missing == ("kvm:no_such_event",)
        assert counters.read()["sched:sched_switch"] >= SLEEPS
    finally:
        counters.close()
    assert counters.read() == {}


def test_without_tracefs_the_command_that_mounts_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="mount -t tracefs"):
        ThreadTracepoints([1], ["sched:sched_switch"], (tmp_path,))


def test_a_number_that_cannot_be_read_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "events/sched/sched_switch").mkdir(parents=True)
    (tmp_path / "events/sched/sched_switch/id").write_text("many")
    with pytest.raises(Unsupported, match="root"):
        ThreadTracepoints([1], ["sched:sched_switch"], (tmp_path,))
