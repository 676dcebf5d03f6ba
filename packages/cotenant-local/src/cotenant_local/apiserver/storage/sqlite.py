"""The database under the store: one SQLite file in the cluster's directory, and the exclusive lock on that directory.

After kill -9 every acknowledged write must be present, and two processes must never write one directory. SQLite in WAL
mode; a batch of writes is one transaction. With `synchronous=NORMAL` (the default) a commit is in the kernel's page
cache before it is acknowledged: kill -9 of this process loses nothing. A power cut or a kernel crash may lose the
commits since the last checkpoint, never the file's consistency; with `fsync=True` (`synchronous=FULL`) every commit is
forced to the disk first, which prevents that. The directory is locked by flock on `holder.json`, which names the holder
and its last committed revision; the kernel releases it when the process dies. A database that is behind the revision of
a killed holder has lost writes, however that came about: the next holder says so and assigns none of those revisions
again, so that clients that have seen them list anew. Files that are taken away from a running process take no writes.
Limits: local file systems (WAL and flock need shared memory and locks). Checkpoints run in another thread with a
connection of their own, since they wait for the disk.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cotenant.model.errors import InvalidInput, Permanent

SCHEMA_VERSION = 1
FILE = "cluster.db"
HOLDER = "holder.json"
CHECKPOINT_BYTES = 16 << 20  # WAL size that triggers a checkpoint
_log = logging.getLogger("cotenant.apiserver")
_BUSY_MS = 250
_WAL_LIMIT_BYTES = 512 << 20  # beyond this the writer itself checkpoints
_REVISION = re.compile(rb'"revision": (\d{1,18})\b')

_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
  id INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  revision INTEGER NOT NULL, object BLOB NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One stored object. `resource` is `GROUP/PLURAL`."""

    id: int
    resource: str
    namespace: str
    name: str
    revision: int
    object: bytes


class DirectoryLock:
    """An exclusive lock on a directory, held by this process until released."""

    def __init__(self, directory: Path) -> None:
        """Raises InvalidInput naming the holder if another process holds the lock."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = directory / HOLDER
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(self._fd, 4096, 0)
            os.close(self._fd)
            try:
                holder = json.loads(text)
                holder_text = f"process {holder['pid']} since {holder['since']}"
            except (ValueError, KeyError, TypeError):
                holder_text = "another process"
            raise InvalidInput(
                "directory",
                str(directory),
                f"a directory that no other process uses, but {holder_text} holds it",
                "stop it, or name another directory",
            ) from None
        found = _REVISION.search(os.pread(self._fd, 4096, 0))
        self.noted = int(found[1]) if found else 0  # the last revision of a holder that did not release it
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._head = f'{{"pid": {os.getpid()}, "since": "{since}", "revision": '
        os.ftruncate(self._fd, self._write(self.noted))

    def note(self, revision: int) -> None:
        """Note the last committed revision, so that the next holder misses it. It never falls."""
        with suppress(OSError):  # a full disk: the commit itself has succeeded
            self._write(revision)

    def _write(self, revision: int) -> int:
        return os.pwrite(self._fd, f"{self._head}{revision}}}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock. The file stays, empty: removing it would let two processes lock two different files."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1


class Database:
    """The objects of a cluster on disk. `commit` may be called from one thread at a time."""

    def __init__(self, directory: Path, *, fsync: bool = False) -> None:
        """Open or create. Raises InvalidInput if another process holds the directory, Permanent if the file is
        unusable.
        """
        self._lock = DirectoryLock(directory)
        self.path = directory / FILE
        self.fsync = fsync
        self._since_checkpoint = 0
        try:
            self._connection = self._open()
            # From here on the event loop blocks on it, so another connection's lock must fail quickly.
            self._connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
            self._miss_writes()
            self._files = self._identities()
        except sqlite3.DatabaseError as error:
            self._lock.release()
            raise Permanent(
                f"{self.path}: {error}: not a usable database; restore it from a copy, or move it away to start empty"
            ) from error
        except BaseException:
            self._lock.release()
            raise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=5.0, cached_statements=64
        )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={'FULL' if self.fsync else 'NORMAL'}")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("PRAGMA cache_size=-8192")
        return connection

    def _open(self) -> sqlite3.Connection:
        self._keep_orphaned_log()
        if not self.path.exists():
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # may hold secrets
        connection = self._connect()
        connection.executescript(_TABLES)
        found = connection.execute("SELECT value FROM facts WHERE name='schema'").fetchone()
        if found is None:
            connection.execute("INSERT INTO facts VALUES ('schema', ?), ('revision', '0')", (str(SCHEMA_VERSION),))
        elif found[0] != str(SCHEMA_VERSION):
            connection.close()
            raise Permanent(
                f"{self.path}: written in format {found[0]}, this version reads {SCHEMA_VERSION}; use the version "
                "that wrote it, "
                "or another directory"
            )
        return connection

    def _keep_orphaned_log(self) -> None:
        """Warn where the database file is empty or missing although a log exists: SQLite would delete the log with
        all its writes.
        """
        size = self.path.stat().st_size if self.path.exists() else -1
        if size > 0:
            return
        log = Path(f"{self.path}-wal")
        if log.exists() and log.stat().st_size:
            kept = log.with_name(f"{log.name}.{time.time_ns()}")
            os.replace(log, kept)
            Path(f"{self.path}-shm").unlink(missing_ok=True)
            what = "missing" if size < 0 else "empty"
            _log.warning(
                "%s is %s but has a log: the cluster starts without objects; the log is kept as %s",
                self.path,
                what,
                kept,
            )
        elif size == 0:
            _log.warning("%s is empty: the cluster starts without objects; restore a copy if it had any", self.path)

    def _miss_writes(self) -> None:
        """Warn where the database is behind what a killed holder had committed."""
        if self._lock.noted and (found := self._revision()) < self._lock.noted:
            _log.warning(
                "%s is at revision %d, although %d was committed by the process that was killed: the writes since are "
                "lost; is %s-wal missing, cut short, damaged or of another time? objects are as they were then, and "
                "clients may have seen newer ones; put the file back, or restore a copy, before more is written",
                self.path,
                found,
                self._lock.noted,
                self.path,
            )

    def _identities(self) -> list[tuple[int, int]]:
        """Which files the database and its log are."""
        found = [os.stat(path) for path in (self.path, f"{self.path}-wal")]
        return [(file.st_dev, file.st_ino) for file in found]

    def _check_files(self) -> None:
        """Raises sqlite3.Error where a file was removed or replaced: what is written into it is in no directory."""
        try:
            same = self._identities() == self._files
        except OSError:
            same = False
        if not same:
            raise sqlite3.OperationalError(
                f"{self.path} or its log was removed or replaced while it is in use; put it back, or stop and restore "
                "a copy"
            )

    def revision(self) -> int:
        """The last revision that was ever committed."""
        return max(self._revision(), self._lock.noted)

    def _revision(self) -> int:
        try:
            found = self._connection.execute("SELECT value FROM facts WHERE name='revision'").fetchone()
            newest = self._connection.execute("SELECT max(revision) FROM objects").fetchone()[0]
            return max(int(found[0]), newest or 0)
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:
            raise Permanent(
                f"{self.path}: {error}: not a usable database; restore it from a copy, or move it away"
            ) from error

    def rows(self) -> Iterator[StoredRow]:
        """Every stored object. Raises Permanent if the file is damaged."""
        try:
            for found in self._connection.execute(
                "SELECT id, resource, namespace, name, revision, object FROM objects"
            ):
                yield StoredRow(*found)
        except sqlite3.DatabaseError as error:
            raise self.damaged(str(error)) from error

    def damaged(self, why: str) -> Permanent:
        """The error of contents that cannot be read; releases the directory."""
        self._lock.release()
        return Permanent(f"{self.path}: {why}: damaged; restore it from a copy, or move it away to start empty")

    def commit(
        self, puts: Sequence[tuple[int, str, str, str, int, bytes]], removed: Iterable[int], revision: int
    ) -> None:
        """Commit one transaction. Raises sqlite3.Error (disk full, I/O); nothing is written then."""
        connection = self._connection
        self._check_files()
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany("INSERT OR REPLACE INTO objects VALUES (?,?,?,?,?,?)", puts)
            self._since_checkpoint += sum(len(put[5]) for put in puts)
            connection.executemany("DELETE FROM objects WHERE id=?", ((row,) for row in removed))
            connection.execute("UPDATE facts SET value=? WHERE name='revision'", (str(revision),))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._lock.note(revision)
        with suppress(sqlite3.Error, OSError):  # the commit itself has succeeded; the next one tries again
            self._bound_log()

    def due(self) -> bool:
        """Whether enough was committed since the last checkpoint that a background checkpoint should run."""
        return self._since_checkpoint > CHECKPOINT_BYTES

    def checkpoint(self) -> None:
        """Move the log into the file. May run in any thread, since it opens its own connection. Raises
        sqlite3.Error.
        """
        self._since_checkpoint = 0
        connection = self._connect()
        try:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        finally:
            connection.close()

    def _bound_log(self) -> None:
        """Bound the log's size: under continuous writes a background checkpoint never empties it, so beyond a limit
        the writer does.
        """
        if os.stat(f"{self.path}-wal").st_size > _WAL_LIMIT_BYTES:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def close(self) -> None:
        """Close the file (which checkpoints it) and release the directory."""
        self._connection.close()
        self._lock.release()
