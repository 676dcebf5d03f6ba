"""The store: every object in memory as encoded bytes, one revision counter, and group commit to SQLite.

Thousands of writes per second from hundreds of connections, each acknowledged only once it is durable, in one process.
A write changes the tables immediately, so the next write in the same loop sees it (optimistic concurrency needs no
lock), and joins the pending batch; the batch is one transaction, committed when the event loop has run what was ready.
Only after the commit are events published, writes acknowledged and reads of those revisions answered: no client sees a
state that a crash could revert. Without fsync the commit is a page-cache write of about ten microseconds per row and
runs in the loop; with fsync it runs in a thread while the next batch collects. A failed commit (disk full) reverts its
batch and every write after it; those clients get 500 and the store continues.
Limits: one event loop; without a database (`--ephemeral`) the same path, with nothing written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.storage.history import ADDED, DELETED, MODIFIED, HistoryBounds, HistoryEvent
from cotenant_local.apiserver.storage.sqlite import Database
from cotenant_local.apiserver.storage.stored import Key, Selectable, StoredObject, encode, field_values, share_labels
from cotenant_local.apiserver.storage.table import ObjectTable, Storage

_log = logging.getLogger("cotenant.apiserver")


class _Meta(msgspec.Struct):
    uid: str = ""
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct):
    metadata: _Meta


_head = msgspec.json.Decoder(_Head).decode


MAX_OBJECT_BYTES = 3 << 19  # 1.5 MiB, etcd's limit of a request


def check_size(size: int) -> None:
    """Raise ApiError 413 if an object of this many bytes is too large."""
    if size > MAX_OBJECT_BYTES:
        raise ApiError(
            413,
            "RequestEntityTooLarge",
            f"Request entity too large: an object has {size} bytes, limit is {MAX_OBJECT_BYTES}",
        )


class _Write:
    """One write in a batch."""

    __slots__ = ("event", "table")

    def __init__(self, table: ObjectTable, event: HistoryEvent) -> None:
        self.table = table
        self.event = event


class Store:
    """All tables and their shared revision. All methods but `settled` and `close` return immediately; use from one
    event loop.
    """

    def __init__(
        self,
        database: Database | None = None,
        *,
        clock: Callable[[], float] = time.time,
        bounds: HistoryBounds | None = None,
    ) -> None:
        """Load the database's objects. Raises Permanent if it is damaged."""
        self._database = database
        self._clock = clock
        self._bounds = bounds if bounds is not None else HistoryBounds()
        self.revision = database.revision() if database is not None else 0
        self.published = self.revision
        self._opened_at = self.revision
        self._tables: dict[Storage, ObjectTable] = {}
        self._next_id = 1
        self._pending: list[_Write] = []
        self._in_flight: list[_Write] = []
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._is_scheduled = False
        self._is_closed = False
        self._thread: ThreadPoolExecutor | None = None
        self._checkpoints: set[asyncio.Future[None]] = set()
        self.failed_commits = 0
        self.trouble = ""  # why the last batch could not be stored; empty = it was
        if database is not None:
            self._thread = ThreadPoolExecutor(1, "store")
            self._load(database)

    def _load(self, database: Database) -> None:
        for row in database.rows():
            try:
                group, plural = row.resource.split("/", 1)
                head = _head(row.object).metadata
            except (msgspec.MsgspecError, AttributeError, TypeError, ValueError) as error:
                raise database.damaged(f"object {row.id}: {error}") from error
            table = self._table((group, plural))
            labels = share_labels(head.labels)
            table.put(StoredObject(row.id, (row.namespace, row.name), row.revision, head.uid, row.object, labels, None))
            self._next_id = max(self._next_id, row.id + 1)

    def _table(self, storage: Storage) -> ObjectTable:
        found = self._tables.get(storage)
        if found is None:
            found = self._tables[storage] = ObjectTable(storage, self._opened_at, self._bounds)
        return found

    def table(self, storage: Storage, selectable: Selectable = ()) -> ObjectTable:
        """The table of a storage, created on first use. `selectable` are the fields that field selectors may use."""
        table = self._table(storage)
        if selectable and [name for name, _ in selectable] != [name for name, _ in table.selectable]:
            table.selectable = selectable
            for stored in table.walk():
                stored.fields = None
        return table

    def tables(self) -> tuple[ObjectTable, ...]:
        """Every table that has or had objects."""
        return tuple(self._tables.values())

    def put(self, table: ObjectTable, key: Key, obj: Manifest, current: StoredObject | None) -> StoredObject:
        """Create (`current` None) or replace. Sets the resourceVersion of `obj` and encodes it. `current` must be the
        table's object.

        Raises ApiError 413 if it is too large, 503 if the store is closed.
        """
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(self.revision + 1)
        raw = encode(obj)
        check_size(len(raw))
        revision = self._advance()
        if current is None:
            row = self._next_id
            self._next_id += 1
        else:
            row = current.id
        stored = StoredObject(
            row,
            key,
            revision,
            metadata.get("uid", ""),
            raw,
            share_labels(metadata.get("labels"), None if current is None else current.labels),
            field_values(obj, table.selectable),
        )
        table.put(stored)
        self._enqueue(
            _Write(table, HistoryEvent(ADDED if current is None else MODIFIED, stored, current, self._clock()))
        )
        return stored

    def remove(self, table: ObjectTable, current: StoredObject, obj: Manifest) -> StoredObject:
        """Remove an object; `obj` is its last state and gets the resourceVersion of the removal."""
        revision = self._advance()
        obj["metadata"]["resourceVersion"] = str(revision)
        last = StoredObject(current.id, current.key, revision, current.uid, encode(obj), current.labels, current.fields)
        table.drop(current.key)
        self._enqueue(_Write(table, HistoryEvent(DELETED, last, current, self._clock())))
        return last

    def _advance(self) -> int:
        if self._is_closed:
            raise ApiError(503, "ServiceUnavailable", "the server is shutting down", retry_after_s=1)
        self.revision += 1
        return self.revision

    def _enqueue(self, write: _Write) -> None:
        self._pending.append(write)
        if not self._is_scheduled and not self._in_flight:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    async def settled(self, revision: int) -> None:
        """Return once everything up to a revision is committed. Raises ApiError 500 if the commit failed.

        Await it in the same step as the write or read it concerns: a failure is reported only to tasks already waiting.
        """
        if revision <= self.published or not (self._pending or self._in_flight):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((revision, future))
        await future

    def pending_changes(self, table: ObjectTable, state: dict[Key, StoredObject | None]) -> None:
        """Add to `state` the version before each uncommitted write of a table."""
        for write in reversed(self._in_flight + self._pending):
            if write.table is table:
                state[write.event.new.key] = write.event.old

    def _flush(self) -> None:
        self._is_scheduled = False
        if self._in_flight or not self._pending:
            return
        self._in_flight, self._pending = self._pending, []
        database = self._database
        if database is None:
            self._committed(None)
        elif database.fsync and self._thread is not None:
            loop = asyncio.get_running_loop()
            loop.run_in_executor(self._thread, self._commit, database).add_done_callback(
                lambda done: self._committed(done.exception())
            )
        else:
            try:
                self._commit(database)
            except Exception as error:  # counted and reported to every waiting writer; the store continues
                self._committed(error)
            else:
                self._committed(None)

    def _commit(self, database: Database) -> None:
        last: dict[int, tuple[int, str, str, str, int, bytes] | None] = {}
        for write in self._in_flight:
            new = write.event.new
            last[new.id] = (
                None
                if write.event.type == DELETED
                else (new.id, write.table.resource, new.key[0], new.key[1], new.resource_version, new.raw)
            )
        puts = [put for put in last.values() if put is not None]
        removed = [row for row, put in last.items() if put is None]
        database.commit(puts, removed, self._in_flight[-1].event.resource_version)

    def _committed(self, error: BaseException | None) -> None:
        writes, self._in_flight = self._in_flight, []
        if error is not None:
            self._undo(writes, error)
            return
        if self.trouble:
            _log.warning("writes are stored again")
            self.trouble = ""
        self.published = writes[-1].event.resource_version
        by_table: dict[ObjectTable, list[HistoryEvent]] = {}
        for write in writes:
            by_table.setdefault(write.table, []).append(write.event)
        for table, events in by_table.items():
            table.publish(events)
        waiting: list[tuple[int, asyncio.Future[None]]] = []
        for revision, future in self._waiters:
            if revision > self.published:
                waiting.append((revision, future))
            elif not future.done():
                future.set_result(None)
        self._waiters = waiting
        if self._pending:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)
        self._maybe_checkpoint()

    def _undo(self, writes: list[_Write], error: BaseException) -> None:
        """Revert a failed batch and everything written after it, newest first."""
        self.failed_commits += 1
        if not self.trouble:
            _log.error("writes are refused, since they cannot be stored: %s", error)
        self.trouble = f"writes cannot be stored: {error}"
        for write in reversed(writes + self._pending):
            event = write.event
            if event.old is None:
                write.table.drop(event.new.key)
            else:
                write.table.put(event.old)
        self._pending = []
        self.published = self.revision  # the revisions in between were never published
        waiters, self._waiters = self._waiters, []
        why = ApiError(500, "InternalError", f"Internal error occurred: the write could not be stored: {error}")
        for _, future in waiters:
            if not future.done():
                future.set_exception(why)

    def _maybe_checkpoint(self) -> None:
        database = self._database
        if database is None or self._checkpoints or self._thread is None or not database.due():
            return
        future = asyncio.get_running_loop().run_in_executor(self._thread, database.checkpoint)
        self._checkpoints.add(future)
        future.add_done_callback(self._checkpointed)

    def _checkpointed(self, future: asyncio.Future[None]) -> None:
        self._checkpoints.discard(future)
        if not future.cancelled() and isinstance(future.exception(), sqlite3.Error):
            self.failed_commits += (
                1  # nothing is lost: the log still has the data, and the next commit reports the error
            )

    async def close(self) -> None:
        """Commit pending writes, then refuse further ones. Idempotent."""
        if self._is_closed:
            return
        while self._pending or self._in_flight:
            with contextlib.suppress(ApiError):  # already reported to its writers
                await self.settled(self.revision)
        self._is_closed = True
        for table in self._tables.values():
            for channel in table.channels.values():
                for watch in tuple(channel.watches):
                    watch.close()
        if self._checkpoints:
            await asyncio.wait(self._checkpoints)
        if self._thread is not None:
            self._thread.shutdown()
        if self._database is not None:
            self._database.close()
