"""Stored values as files of a folder, for one process. Implements `KeyValueStore`."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec

from cotenant.drivers.nats.contract import RevisionConflict, StoredValue
from cotenant.model.errors import Permanent, Transient

_SUFFIX = ".json"


class _File(msgspec.Struct):
    revision: int
    value: msgspec.Raw


class FileStore:
    """The folder is this process's alone, from here to `close`.

    Values are JSON. Raises `Permanent` where another process has it, or a file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise Permanent(f"another process uses {folder}") from error
        self._known: dict[str, StoredValue] = {}
        for path in folder.glob(f"*{_SUFFIX}"):
            try:
                found = msgspec.json.decode(path.read_bytes(), type=_File)
            except msgspec.DecodeError as error:
                self.close()
                raise Permanent(f"{path} is damaged: {error}; move it away to go on without it") from error
            self._known[path.name.removesuffix(_SUFFIX)] = StoredValue(bytes(found.value), found.revision)

    def close(self) -> None:
        """Let others have the folder."""
        os.close(self._lock)

    def get(self, key: str) -> StoredValue | None:
        """As the Protocol."""
        return self._known.get(key)

    def names(self) -> list[str]:
        """As the Protocol."""
        return list(self._known)

    async def put(self, key: str, value: bytes, revision: int | None = None) -> int:
        """As the Protocol; on disk when it returns."""
        known = self._known.get(key)
        last = known.revision if known is not None else 0
        if revision is not None and revision != last:
            raise RevisionConflict(f"{key} has revision {last}, not {revision}")
        text = msgspec.json.encode(_File(last + 1, msgspec.Raw(value)))
        try:
            self._write(self._folder / f"{key}{_SUFFIX}", text)
        except OSError as error:
            raise Transient(f"{key} cannot be stored: {error.strerror}") from error
        self._known[key] = StoredValue(value, last + 1)
        return last + 1

    async def read(self, key: str) -> StoredValue | None:
        """As the Protocol."""
        return self._known.get(key)

    async def delete(self, key: str, revision: int | None = None) -> None:
        """As the Protocol."""
        known = self._known.get(key)
        if revision is not None and known is not None and revision != known.revision:
            raise RevisionConflict(f"{key} has revision {known.revision}, not {revision}")
        self._known.pop(key, None)
        (self._folder / f"{key}{_SUFFIX}").unlink(missing_ok=True)

    def _write(self, path: Path, text: bytes) -> None:
        temporary = path.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(descriptor)
        temporary.replace(path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
