"""kill -9 during writes: every acknowledged write survives, and revisions keep increasing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tools.tree import python_path

from cotenant_local.apiserver.storage.sqlite import Database
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api

# Eight writers; each printed line is an acknowledged write: verb, name, resourceVersion.
WRITER = """
import asyncio, json, os, sys
from pathlib import Path
from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.storage.sqlite import Database
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api

async def main():
    api = Api(Store(Database(Path(sys.argv[1]), fsync=sys.argv[2] == "fsync")))
    await api.bootstrap()
    async def writer(me):
        at = 0
        while True:
            at += 1
            name = f"c{me}-{at}"
            target = api.target("", "configmaps", "default", name)
            obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "y" * 500}}
            answer = await api.create(target, obj)
            tell("put", name, json.loads(answer.raw)["metadata"]["resourceVersion"])
            if at % 3 == 0:
                await api.delete(target)
                tell("gone", name, "0")
    def tell(*words):
        os.write(1, (" ".join(words) + "\\n").encode())
    await asyncio.gather(*(writer(me) for me in range(8)))

asyncio.run(main())
"""


def kill_after(directory: Path, how: str, acknowledged: int) -> list[list[str]]:
    """Run a writing process until this many writes are acknowledged, kill it, and return all acknowledged writes."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), how],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": python_path()},
    )
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(acknowledged)]
    child.send_signal(signal.SIGKILL)
    lines += child.stdout.readlines()
    assert child.wait() == -signal.SIGKILL
    return [line.decode().split() for line in lines if line.endswith(b"\n")]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["no-fsync", "fsync"])
def test_every_acknowledged_write_survives_kill_9(tmp_path: Path, how: str) -> None:
    acknowledged: dict[str, int] = {}
    gone: set[str] = set()
    for count in (40, 333, 1):
        told = kill_after(tmp_path, how, count)
        assert len(told) >= count
        newest = 0
        for verb, name, revision in told:
            if verb == "gone":
                gone.add(name)
            else:
                acknowledged[name] = int(revision)
                newest = max(newest, int(revision))

        async def check(least: int) -> None:
            api = Api(Store(Database(tmp_path)))
            assert api.store.revision >= least
            page = await api.list(api.target("", "configmaps", "default"))
            found = {item.name: item.resource_version for item in page.items}
            for name, revision in acknowledged.items():
                if name not in gone and name in found:
                    assert found[name] == revision
                elif name not in gone:
                    # Its deletion may have been committed without being acknowledged.
                    assert int(name.rpartition("-")[2]) % 3 == 0
            assert not gone & found.keys()
            # The next process reuses the names: delete the objects, which also shows that revisions keep increasing.
            before = api.store.revision
            for name in found:
                answer = await api.delete(api.target("", "configmaps", "default", name))
                assert msgspec.json.decode(answer.raw)["status"] == "Success"
            assert api.store.revision == before + len(found)
            acknowledged.clear()
            gone.clear()
            await api.close()

        asyncio.run(check(newest))
