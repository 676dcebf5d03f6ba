"""Processes that use CPU until they are killed, in the tests' groups."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cotenant.drivers.cgroup.tree import Groups

# says when it runs, and burns when it is told to
_BURN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print("on", flush=True)
sys.stdin.readline()
while True:
    pass
"""


@contextmanager
def burning(groups: Groups, group: str, count: int = 1, cpu: int = 0) -> Iterator[tuple[int, ...]]:
    """`count` processes in the group that all want the same CPU. Over, when the block ends."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            process = subprocess.Popen(
                [sys.executable, "-c", _BURN, str(cpu)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            started.append(process)
            assert process.stdout is not None
            process.stdout.readline()
            groups.move(process.pid, group)
        for process in started:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
        yield tuple(process.pid for process in started)
    finally:
        for process in started:
            process.kill()
            process.wait()
            for end in (process.stdin, process.stdout):
                if end is not None:
                    end.close()
