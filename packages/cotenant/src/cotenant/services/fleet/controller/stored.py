"""Groups and configurations as they are stored: one key each, changed by compare and set."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.drivers.nats.contract import KeyValueStore, StoredValue
from cotenant.model.fleet.group import GroupRecord
from cotenant.model.fleet.host import Registered
from cotenant.services.fleet.rpc import decode, encode

_GROUP, _CONFIGURATION = "group.", "configuration."


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A record and the revision to write over."""

    record: GroupRecord
    revision: int


class FleetStore:
    """The store in the fleet's terms."""

    def __init__(self, store: KeyValueStore) -> None:
        self._store = store

    def group(self, name: str) -> StoredGroup | None:
        """The group of this name, as it is known here."""
        return _group(name, self._store.get(_GROUP + name))

    async def group_now(self, name: str) -> StoredGroup | None:
        """As it is stored: what another controller did a moment ago counts. Raises `Transient`."""
        return _group(name, await self._store.read(_GROUP + name))

    def groups(self) -> list[StoredGroup]:
        """All, by name."""
        names = sorted(key.removeprefix(_GROUP) for key in self._store.names() if key.startswith(_GROUP))
        return [found for name in names if (found := self.group(name)) is not None]

    async def put_group(self, record: GroupRecord, revision: int) -> int:
        """Write over that revision (0: there was none). Raises `RevisionConflict`, `Transient`."""
        return await self._store.put(_GROUP + record.name, encode(record), revision)

    async def forget_group(self, found: StoredGroup) -> None:
        """Delete it, unless it was changed since. Raises `RevisionConflict`, `Transient`."""
        await self._store.delete(_GROUP + found.record.name, found.revision)

    def configuration(self, role: str, platform: str) -> Registered:
        """What agents of this role and platform are to use; revision 0 where nothing is stored."""
        found = self._store.get(f"{_CONFIGURATION}{role}.{platform}")
        return Registered() if found is None else Registered(found.revision, found.value.decode())

    async def put_configuration(self, role: str, platform: str, text: str) -> int:
        """Store one; its revision."""
        return await self._store.put(f"{_CONFIGURATION}{role}.{platform}", text.encode())


def _group(name: str, stored: StoredValue | None) -> StoredGroup | None:
    return None if stored is None else StoredGroup(decode(GroupRecord, stored.value, name), stored.revision)
