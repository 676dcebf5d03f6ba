"""The store: group commit, failed commits, ordering, and the directory lock."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant.model.errors import InvalidInput, Permanent
from cotenant_local.apiserver.storage import stored as stored_module
from cotenant_local.apiserver.storage.sqlite import Database
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.storage.table import ObjectTable

THINGS = ("example.com", "things")


def thing(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"u-{name}", **more}}


def put(store: Store, table: ObjectTable, name: str, **more: Any) -> Any:
    return store.put(table, ("ns", name), thing(name, **more), table.get(("ns", name)))


def remove(store: Store, table: ObjectTable, name: str) -> Any:
    current = table.get(("ns", name))
    assert current is not None
    return store.remove(table, current, current.decode())


def run(case: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(case())


class FailingDatabase(Database):
    """A database that refuses commits on request, as with a full disk."""

    is_full = False
    commits = 0

    def commit(self, puts: Any, removed: Any, revision: int) -> None:
        if self.is_full:
            raise sqlite3.OperationalError("database or disk is full")
        self.commits += 1
        super().commit(puts, removed, revision)


@pytest.mark.parametrize("fsync", [False, True])
def test_concurrent_writes_share_a_commit(tmp_path: Path, fsync: bool) -> None:
    async def case() -> None:
        database = FailingDatabase(tmp_path, fsync=fsync)
        store = Store(database)
        table = store.table(THINGS)
        for at in range(100):
            put(store, table, f"t{at}")
        await store.settled(store.revision)
        assert database.commits == 1
        await store.close()

    run(case)


@pytest.mark.parametrize("fsync", [False, True])
def test_written_objects_are_loaded_on_reopen(tmp_path: Path, fsync: bool) -> None:
    async def case() -> None:
        store = Store(Database(tmp_path, fsync=fsync))
        table = store.table(THINGS)
        put(store, table, "a", labels={"x": "1"})
        put(store, table, "b")
        put(store, table, "c")
        changed = put(store, table, "b", labels={"x": "2"})
        remove(store, table, "c")
        await store.close()
        again = Store(Database(tmp_path))
        table = again.table(THINGS)
        assert again.revision == 5
        assert [stored.name for stored in table.walk()] == ["a", "b"]
        found = table.get(("ns", "b"))
        assert found is not None
        assert (found.raw, found.labels, found.uid) == (changed.raw, {"x": "2"}, "u-b")
        assert put(again, table, "d").resource_version == 6
        await again.close()

    run(case)


@pytest.mark.parametrize(
    "change",
    [
        "object=x'ff00'",
        "object=CAST('[]' AS BLOB)",
        "object='{'",
        "object=NULL",
        "resource='x'",
        "resource=5",
        "namespace=NULL",
    ],
)
def test_a_damaged_object_is_one_sentence(tmp_path: Path, change: str) -> None:
    async def case() -> None:
        store = Store(Database(tmp_path))
        put(store, store.table(THINGS), "a")
        await store.close()

    run(case)
    with sqlite3.connect(tmp_path / "cluster.db") as connection:
        try:
            connection.execute(f"UPDATE objects SET {change}")
        except sqlite3.IntegrityError:  # the table itself refuses it
            return
    with pytest.raises(Permanent, match=r"cluster\.db: object 1: .*: damaged; restore it") as caught:
        Store(Database(tmp_path))
    assert "\n" not in str(caught.value)


def test_an_object_created_and_removed_in_one_batch_is_not_stored(tmp_path: Path) -> None:
    async def case() -> None:
        store = Store(Database(tmp_path))
        table = store.table(THINGS)
        put(store, table, "a")
        remove(store, table, "a")
        await store.close()
        again = Store(Database(tmp_path))
        assert list(again.table(THINGS).walk()) == []
        assert again.revision == 2
        await again.close()

    run(case)


@pytest.mark.parametrize("fsync", [False, True])
def test_a_failed_commit_is_reverted_and_reported_to_its_writers(tmp_path: Path, fsync: bool) -> None:
    async def case() -> None:
        database = FailingDatabase(tmp_path, fsync=fsync)
        store = Store(database)
        table = store.table(THINGS)
        put(store, table, "kept")
        await store.settled(store.revision)
        before = table.get(("ns", "kept"))
        database.is_full = True
        put(store, table, "new")
        put(store, table, "kept", labels={"x": "1"})
        remove(store, table, "kept")
        with pytest.raises(ApiError, match="the write could not be stored: database or disk is full") as caught:
            await store.settled(store.revision)
        assert caught.value.code == 500
        assert [stored.name for stored in table.walk()] == ["kept"]
        assert table.get(("ns", "kept")) is before
        assert store.failed_commits == 1
        assert store.trouble == "writes cannot be stored: database or disk is full"
        assert len(table.history) == 1
        database.is_full = False
        put(store, table, "later")
        await store.settled(store.revision)
        assert store.trouble == ""
        await store.close()
        again = Store(Database(tmp_path))
        assert [stored.name for stored in again.table(THINGS).walk()] == ["kept", "later"]
        await again.close()

    run(case)


def test_a_write_is_not_visible_before_its_commit(tmp_path: Path) -> None:
    async def case() -> None:
        store = Store(Database(tmp_path))
        table = store.table(THINGS)
        put(store, table, "a")
        assert store.published == 0
        assert len(table.history) == 0
        await store.settled(store.revision)
        assert store.published == 1
        assert len(table.history) == 1
        await store.close()

    run(case)


def test_a_closed_store_refuses_writes() -> None:
    async def case() -> None:
        store = Store()
        table = store.table(THINGS)
        await store.close()
        with pytest.raises(ApiError, match="shutting down"):
            put(store, table, "a")

    run(case)


def test_a_walk_is_ordered_and_starts_after_any_key() -> None:
    async def case() -> None:
        store = Store()
        table = store.table(THINGS)
        for name in ("m", "c", "x"):
            put(store, table, name)
        list(table.walk())
        remove(store, table, "c")
        put(store, table, "a")
        put(store, table, "c")
        store.put(table, ("other", "b"), thing("b"), None)
        assert [stored.name for stored in table.walk("ns")] == ["a", "c", "m", "x"]
        assert [stored.name for stored in table.walk(after=("ns", "m"))] == ["x", "b"]
        assert (table.size(), table.size("ns"), table.size("none")) == (5, 4, 0)
        await store.close()

    run(case)


def test_a_locked_directory_is_refused_with_the_holder(tmp_path: Path) -> None:
    first = Database(tmp_path)
    with pytest.raises(InvalidInput, match=f"process {os.getpid()} since 20"):
        Database(tmp_path)
    first.close()
    Database(tmp_path).close()


def test_a_file_that_is_not_a_database_is_reported(tmp_path: Path) -> None:
    (tmp_path / "cluster.db").write_bytes(b"not a database at all, but long enough to be read as a header" * 20)
    with pytest.raises(Permanent, match=r"cluster\.db: file is not a database"):
        Database(tmp_path)
    # The lock was released: the second attempt gives the same message.
    with pytest.raises(Permanent, match="restore it from a copy"):
        Database(tmp_path)


def test_a_damaged_database_is_reported(tmp_path: Path) -> None:
    async def case() -> None:
        store = Store(Database(tmp_path))
        table = store.table(THINGS)
        for at in range(200):
            put(store, table, f"t{at}", annotations={"a": "x" * 500})
        await store.close()

    run(case)
    path = tmp_path / "cluster.db"
    whole = bytearray(path.read_bytes())
    whole[8192 : len(whole) // 2] = b"\xff" * (len(whole) // 2 - 8192)
    path.write_bytes(whole)
    database = Database(tmp_path)
    with pytest.raises(Permanent, match=r"cluster\.db"):
        Store(database)
    database.close()


def test_an_unknown_format_version_is_reported(tmp_path: Path) -> None:
    Database(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "cluster.db")
    connection.execute("UPDATE facts SET value='99' WHERE name='schema'")
    connection.commit()
    connection.close()
    with pytest.raises(Permanent, match="written in format 99, this version reads 1"):
        Database(tmp_path)


def test_the_directory_and_files_are_readable_by_the_owner_only(tmp_path: Path) -> None:
    at = tmp_path / "new"
    database = Database(at)
    assert at.stat().st_mode & 0o777 == 0o700
    assert (at / "cluster.db").stat().st_mode & 0o777 == 0o600
    assert json.loads((at / "holder.json").read_text())["pid"] == os.getpid()
    database.close()


def test_a_checkpoint_moves_the_log_into_the_file(tmp_path: Path) -> None:
    async def case() -> None:
        database = Database(tmp_path)
        store = Store(database)
        table = store.table(THINGS)
        big = {"a": "x" * 200_000}
        for at in range(100):
            put(store, table, f"t{at}", annotations=big)
        await store.settled(store.revision)
        assert not database.due()  # the commit has already started
        await store.close()
        assert (tmp_path / "cluster.db").stat().st_size > 20_000_000

    run(case)


def test_a_write_during_a_commit_waits_for_the_next(tmp_path: Path) -> None:
    async def case() -> None:
        store = Store(Database(tmp_path, fsync=True))
        table = store.table(THINGS)
        put(store, table, "a")
        await asyncio.sleep(0)  # its commit has started, in the thread
        put(store, table, "b")
        await store.settled(1)
        assert store.published == 1
        assert len(table.history) == 1
        await store.settled(2)
        assert store.published == 2
        await store.close()

    run(case)


@pytest.mark.parametrize("is_listed", [False, True])
def test_names_of_removed_objects_do_not_stay_where_the_table_is_never_listed(is_listed: bool) -> None:
    async def case() -> None:
        store = Store()
        table = store.table(("", "things"))
        for at in range(1_000):
            put(store, table, f"kept{at:03}")
        if is_listed:
            assert len(list(table.walk())) == 1_000
        for at in range(2_000):  # far more removals than a list in between would be worth sorting for
            put(store, table, f"t{at}")
            remove(store, table, f"t{at}")
        names = table._namespaces["ns"]
        assert len(names._order or ()) + len(names._added) <= 1_000
        assert [stored.key[1] for stored in table.walk()] == [f"kept{at:03}" for at in range(1_000)]
        put(store, table, "a")
        remove(store, table, "kept500")
        assert [stored.key[1] for stored in table.walk()][:2] == ["a", "kept000"]
        assert len(list(table.walk())) == 1_000
        await store.close()

    run(case)


def test_a_new_version_keeps_the_labels_of_the_last_where_they_are_equal() -> None:
    async def case() -> None:
        store = Store()
        table = store.table(("", "things"))
        first = put(store, table, "t", labels={"a": "1"})
        stored_module._shared.clear()
        second = put(store, table, "t", labels={"a": "1"})
        third = put(store, table, "t", labels={"a": "2"})
        assert second.labels is first.labels
        assert third.labels == {"a": "2"}
        await store.close()

    run(case)


@pytest.mark.parametrize("what", ["empty", "missing"])
def test_an_empty_database_beside_a_log_is_a_warning_and_the_log_is_kept(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cluster.db-wal").write_bytes(b"the writes of an earlier cluster")
    if what == "empty":
        (tmp_path / "cluster.db").touch()
    Database(tmp_path).close()
    kept = [path for path in tmp_path.iterdir() if path.name.startswith("cluster.db-wal.")]
    assert [path.read_bytes() for path in kept] == [b"the writes of an earlier cluster"]
    assert what in caplog.text
    assert kept[0].name in caplog.text


def test_an_empty_database_without_a_log_is_a_warning_and_a_new_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Database(tmp_path).close()
    Database(tmp_path).close()
    assert not caplog.text
    (tmp_path / "cluster.db").write_bytes(b"")
    Database(tmp_path).close()
    assert "starts without objects" in caplog.text
