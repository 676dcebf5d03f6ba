"""Stored values in a bucket of NATS JetStream. Implements `KeyValueStore`; what others write is heard at once and
kept here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from cotenant.drivers.nats.client import NatsBus
from cotenant.drivers.nats.contract import RevisionConflict, StoredValue
from cotenant.model.errors import Transient, Unsupported

if TYPE_CHECKING:
    from datetime import datetime

    from nats.js import JetStreamContext
    from nats.js.kv import KeyValue

_log = logging.getLogger(__name__)
_REPEAT_S = 30.0  # the watch begins anew this often: a server that was replaced may have forgotten it
_AGAIN_S = 1.0
_WRONG_LAST_SEQUENCE = 10071


class JetStreamStore:
    """One bucket. Open it with `open_bucket`, then have `run` as a task."""

    def __init__(self, values: KeyValue, streams: JetStreamContext, name: str) -> None:
        self._values, self._streams, self._name = values, streams, name
        self._created: datetime | None = None
        self._known: dict[str, StoredValue] = {}
        self._dropped: dict[str, int] = {}  # deleted here, and the deletion was not heard yet: the last revision before

    def get(self, key: str) -> StoredValue | None:
        """As the Protocol."""
        return self._known.get(key)

    def names(self) -> list[str]:
        """As the Protocol."""
        return list(self._known)

    async def put(self, key: str, value: bytes, revision: int | None = None) -> int:
        """As the Protocol."""
        from nats.errors import Error
        from nats.js.errors import APIError, KeyWrongLastSequenceError

        try:
            if revision is None:
                written = await self._values.put(key, value)
            elif revision == 0:
                written = await self._values.create(key, value)
            else:
                written = await self._values.update(key, value, last=revision)
        except KeyWrongLastSequenceError as error:
            raise RevisionConflict(f"{key} was changed by another controller") from error
        except APIError as error:
            if error.err_code == _WRONG_LAST_SEQUENCE:  # nats-py has not made it its own error everywhere
                raise RevisionConflict(f"{key} was changed by another controller") from error
            raise Transient(f"{key} cannot be stored: {error.description}") from error
        except (Error, TimeoutError, OSError) as error:
            raise Transient(f"{key} cannot be stored: {error}") from error
        if (known := self._known.get(key)) is None or known.revision < written:
            self._known[key] = StoredValue(value, written)
        return written

    async def read(self, key: str) -> StoredValue | None:
        """As the Protocol."""
        from nats.errors import Error
        from nats.js.errors import KeyNotFoundError

        try:
            found = await self._values.get(key)
        except KeyNotFoundError as error:
            if error.entry is not None:  # deleted, by this revision
                self._heard(key, None, error.entry.revision or 0, is_deleted=True)
            return None
        except (Error, TimeoutError, OSError) as error:
            raise Transient(f"{key} cannot be read: {error or type(error).__name__}") from error
        self._heard(key, found.value, found.revision or 0, is_deleted=False)
        return StoredValue(found.value or b"", found.revision or 0)

    async def delete(self, key: str, revision: int | None = None) -> None:
        """As the Protocol."""
        from nats.errors import Error
        from nats.js.errors import APIError

        try:
            await self._values.delete(key, last=revision)
        except APIError as error:
            if error.err_code == _WRONG_LAST_SEQUENCE:
                raise RevisionConflict(f"{key} was changed by another controller") from error
            raise Transient(f"{key} cannot be deleted: {error.description}") from error
        except (Error, TimeoutError, OSError) as error:
            raise Transient(f"{key} cannot be deleted: {error}") from error
        known = self._known.pop(key, None)
        if known is not None:
            self._dropped[key] = known.revision  # what is heard late of it does not bring it back

    async def load(self) -> None:
        """Read all values. Raises `Transient`.

        Asks for the keys, then for each of them: nats-py's watch says "all has come" too early while others write.
        """
        from nats.errors import Error
        from nats.js.errors import KeyNotFoundError

        try:
            for key in await self._forget():
                with contextlib.suppress(KeyNotFoundError):
                    found = await self._values.get(key)
                    self._heard(key, found.value, found.revision or 0, is_deleted=False)
        except (Error, TimeoutError, OSError) as error:
            raise Transient(f"stored values cannot be read: {error or type(error).__name__}") from error

    async def _forget(self) -> set[str]:
        """Drop what the stream has no trace of any more; the keys that it has, deleted ones among them."""
        info = await self._streams.stream_info(f"KV_{self._name}", subjects_filter=">")
        if info.created != self._created:  # another server's: its revisions begin anew
            self._known, self._created = {}, info.created
            self._dropped.clear()
        there = {subject.removeprefix(f"$KV.{self._name}.") for subject in info.state.subjects or ()}
        for key, stored in list(self._known.items()):
            if key not in there and stored.revision <= info.state.last_seq:
                del self._known[key]
        return there

    async def run(self) -> None:
        """Follow changes until cancelled."""
        while True:
            try:
                await self._follow()
            except Exception as error:  # nats-py's many, while the server is away
                _log.info("following stored values: %s", error or type(error).__name__)
                await asyncio.sleep(_AGAIN_S)

    async def _follow(self) -> None:
        watcher = await self._values.watchall()
        try:
            await self._forget()
            async with asyncio.timeout(_REPEAT_S):
                async for change in watcher:
                    if change is not None:
                        is_deleted = change.operation in ("DEL", "PURGE")
                        self._heard(change.key, change.value, change.revision, is_deleted)
        except TimeoutError:
            pass
        finally:
            with contextlib.suppress(Exception):
                await watcher.stop()

    def _heard(self, key: str, value: bytes | None, revision: int, is_deleted: bool) -> None:
        known = self._known.get(key)
        if (known is not None and known.revision >= revision) or self._dropped.get(key, 0) >= revision:
            return
        self._dropped.pop(key, None)
        if is_deleted:
            self._known.pop(key, None)
        else:
            self._known[key] = StoredValue(value or b"", revision)


async def open_bucket(bus: NatsBus, name: str) -> JetStreamStore:
    """The bucket, made where it is not there. Raises `Unsupported` without JetStream."""
    from nats.errors import Error

    streams = bus.client.jetstream()
    try:
        values = await streams.create_key_value(bucket=name, history=1)
    except (Error, TimeoutError) as error:
        raise Unsupported("the fleet's stored groups and configurations", "JetStream: nats-server -js") from error
    store = JetStreamStore(values, streams, name)
    await store.load()
    return store
