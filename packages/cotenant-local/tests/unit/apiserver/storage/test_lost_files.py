"""Files of the store that are lost: a log of a killed process, and what is taken away while it runs."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.storage.sqlite import Database
from cotenant_local.apiserver.storage.store import Store

THINGS = ("example.com", "things")


def put(store: Store, name: str) -> None:
    store.put(store.table(THINGS), ("ns", name), {"metadata": {"name": name, "uid": f"u-{name}"}}, None)


def run(case: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(case())


def _damaged(log: Path, how: str, earlier: bytes) -> None:
    whole = log.read_bytes()
    if how == "removed":
        log.unlink()
    elif how == "a bit":  # in the middle of it: what follows counts as never written
        at = len(whole) // 2
        log.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    else:
        contents = {"emptied": b"", "cut short": whole[: len(whole) // 2], "of another time": earlier}
        log.write_bytes(contents.get(how, whole))


@pytest.mark.parametrize("lost", ["removed", "emptied", "cut short", "a bit", "of another time", ""])
def test_a_lost_log_of_a_killed_process_is_noticed(tmp_path: Path, lost: str, caplog: pytest.LogCaptureFixture) -> None:
    async def case() -> None:
        store = Store(Database(tmp_path))
        earlier = b""
        for name in "abcdef":
            put(store, name)
            await store.settled(store.revision)
            earlier = earlier or (tmp_path / "cluster.db-wal").read_bytes()
        killed, log = tmp_path / "killed", tmp_path / "killed" / "cluster.db-wal"
        killed.mkdir()
        for name in ("cluster.db", "cluster.db-wal", "holder.json"):  # as kill -9 leaves them
            (killed / name).write_bytes((tmp_path / name).read_bytes())
        await store.close()
        _damaged(log, lost, earlier)
        as_killed = (killed / "holder.json").read_bytes()
        for _ in range(2):  # also where the first of the two wrote nothing and was killed
            (killed / "holder.json").write_bytes(as_killed)
            again = Store(Database(killed))
            assert (len(list(again.table(THINGS).walk())) < 6) is bool(lost)
            assert ("although 6 was committed" in caplog.text) is bool(lost)
            assert bool(caplog.records) is bool(lost)
            assert again.revision == 6  # what a client may have seen is not assigned again
            caplog.clear()
            as_killed = (killed / "holder.json").read_bytes()
            await again.close()
        last = Store(Database(killed))
        put(last, "g")
        await last.close()
        caplog.clear()
        await Store(Database(killed)).close()  # the last end was a clean one, after a write
        assert not caplog.records

    run(case)


@pytest.mark.parametrize("name", ["cluster.db", "cluster.db-wal"])
@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_what_is_taken_away_from_a_running_process_takes_no_writes(tmp_path: Path, name: str, how: str) -> None:
    async def case() -> None:
        store = Store(Database(tmp_path))
        table = store.table(THINGS)
        put(store, "a")
        await store.settled(store.revision)
        taken = tmp_path / "taken"
        (tmp_path / name).rename(taken)
        if how == "replaced":
            (tmp_path / name).write_bytes(taken.read_bytes())
        put(store, "b")
        with pytest.raises(ApiError, match="was removed or replaced while it is in use"):
            await store.settled(store.revision)
        assert "was removed or replaced" in store.trouble
        assert [stored.name for stored in table.walk()] == ["a"]
        taken.rename(tmp_path / name)
        put(store, "c")
        await store.settled(store.revision)
        assert store.trouble == ""
        await store.close()
        again = Store(Database(tmp_path))
        assert [stored.name for stored in again.table(THINGS).walk()] == ["a", "c"]
        await again.close()

    run(case)


def test_a_log_that_cannot_be_shortened_is_no_failed_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit before it has succeeded, and is seen by readers."""

    async def case() -> None:
        database = Database(tmp_path)

        def full() -> None:
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(database, "_bound_log", full)
        store = Store(database)
        put(store, "a")
        await store.settled(store.revision)
        assert [stored.name for stored in store.table(THINGS).walk()] == ["a"]
        await store.close()

    run(case)
