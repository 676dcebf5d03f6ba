"""A file locked by another program, and a clock that jumps: writes are refused or continue, and no acknowledged
write is lost.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import ListOptions
from cotenant_local.apiserver.storage.history import HistoryBounds
from cotenant_local.apiserver.storage.sqlite import Database
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api


def config(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


@pytest.mark.slow
def test_writes_are_refused_while_another_program_locks_the_file(tmp_path: Path) -> None:
    async def case() -> None:
        api = Api(Store(Database(tmp_path)))
        await api.bootstrap()
        at = api.target("", "configmaps", "default")
        await api.create(at, config("before"))
        other = sqlite3.connect(tmp_path / "cluster.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ApiError, match="the write could not be stored: database is locked") as caught:
            await api.create(at, config("during"))
        assert caught.value.code == 500
        assert [item.name for item in (await api.list(at)).items] == ["before"]
        other.execute("ROLLBACK")
        other.close()
        await api.create(at, config("after"))
        await api.close()
        again = Api(Store(Database(tmp_path)))
        assert [item.name for item in (await again.list(again.target("", "configmaps"))).items] == ["after", "before"]
        await again.close()

    asyncio.run(case())


def test_a_watch_survives_a_clock_jump() -> None:
    async def case() -> None:
        time = [1_800_000_000.0]
        api = Api(Store(clock=lambda: time[0], bounds=HistoryBounds(age_s=300)), clock=lambda: time[0])
        await api.bootstrap()
        at = api.target("", "configmaps", "default")
        start = api.store.revision
        watch = api.watch(at, ListOptions(resource_version=str(start)))
        await api.create(at, config("a"))
        time[0] += 86_400
        await api.create(at, config("b"))
        time[0] -= 7 * 86_400
        await api.create(at, config("c"))
        assert b"".join([await anext(watch) for _ in range(3)]).count(b"ADDED") == 3
        # Events that seem a day old are compacted; watches can start from the others.
        with pytest.raises(ApiError, match="too old resource version"):
            api.watch(at, ListOptions(resource_version=str(start)))
        assert b'"b"' in await anext(api.watch(at, ListOptions(resource_version=str(start + 1))))
        await api.close()

    asyncio.run(case())
