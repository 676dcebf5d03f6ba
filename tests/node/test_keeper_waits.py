"""A keeper that counts who ran while a service waited: its probe in this kernel, its capabilities dropped, read over
its socket. Skipped where the object is not built or not accepted.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.fakes.node.keeper_process import KeeperProcess
from tests.fakes.waiting import eventually

from cotenant.drivers.cgroup.tree import Groups
from cotenant.model.errors import Unsupported
from cotenant.model.machine.run_queue import RunQueueReading
from cotenant.services.knobs.client import KeeperClient

pytestmark = pytest.mark.slow
SPIN = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); print(flush=True)\nwhile True: pass"


@pytest.fixture
def keeper(groups: Groups, group: str) -> Iterator[KeeperProcess]:
    groups.make(f"{group}/victim")
    groups.make(f"{group}/hog")
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder, "run")
        state.mkdir()
        with KeeperProcess(state, [group], "--waits") as process:
            yield process.ready()


def read(keeper: KeeperProcess, *asked: str) -> RunQueueReading:
    async def ask() -> RunQueueReading:
        client = KeeperClient(keeper.path)
        try:
            return await client.waits(asked)
        finally:
            await client.close()

    try:
        return asyncio.run(ask())
    except Unsupported as error:
        pytest.skip(str(error))


def test_two_groups_that_share_a_cpu_are_told_apart(groups: Groups, group: str, keeper: KeeperProcess) -> None:
    victim, hog = f"{group}/victim", f"{group}/hog"
    cpu = str(max(os.sched_getaffinity(0)))
    with ExitStack() as started:
        for place in (victim, hog):
            process = subprocess.Popen([sys.executable, "-c", SPIN, cpu], stdout=subprocess.PIPE)
            started.callback(process.wait)
            started.callback(process.kill)
            groups.move(process.pid, place)
            assert process.stdout is not None
            process.stdout.readline()

        def blamed_us() -> int:
            blame = read(keeper, victim).blame
            assert {entry.victim for entry in blame} <= {victim}
            return sum(entry.ran_us for entry in blame if entry.culprit == hog)

        eventually("the one that ran is named", lambda: blamed_us() > 20_000)
    assert keeper.process.poll() is None
