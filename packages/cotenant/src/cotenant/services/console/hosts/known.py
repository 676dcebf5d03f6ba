"""What the console knows of a fleet: the last list, with indexes. A fleet is asked only while somebody looks.

Each question of a viewer keeps the list fresh for `WANTED_S`; a new list has a new version, which the one event stream
tells all viewers, and their pages ask for what they show. A source that failed is not asked again for `PERIOD_S`, so
that many viewers wait for one failure only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.model.errors import CotenantError
from cotenant.model.fleet.host import HostContainer
from cotenant.model.fleet.requests import GroupRow, HostRow, Listed
from cotenant.services.console.hosts.contract import FleetReader
from cotenant.services.console.sources import FLEET, ConsoleSources
from cotenant.services.console.upstream import Unanswered

PERIOD_S = 2.0
WANTED_S = 30.0
STALE_S = 8.0


class Listing:
    """One list of a fleet, by guid and by name."""

    def __init__(self, listed: Listed, version: int, at_s: float) -> None:
        self.version, self.at_s = version, at_s
        self.hosts = {row.registration.guid: row for row in listed.hosts}
        self.groups = {row.name: row for row in listed.groups}
        self.containers: dict[str, tuple[HostRow, HostContainer]] = {}
        self.of_group: dict[str, list[tuple[HostRow, HostContainer]]] = {name: [] for name in self.groups}
        for row in listed.hosts:
            for status in row.beat.containers if row.beat is not None else ():
                self.containers[status.guid] = (row, status)
                if status.group:
                    self.of_group.setdefault(status.group, []).append((row, status))
        self.answers: dict[tuple[str, ...], bytes] = {}  # encoded, by what was asked

    def host(self, guid: str) -> HostRow:
        """The host with this agent, or the only one of this name. Raises `NotFound`."""
        found = self.hosts.get(guid)
        if found is None:
            named = [row for row in self.hosts.values() if row.registration.hostname == guid]
            if len(named) != 1:
                raise NotFound(f"no host of this fleet is {guid}")
            found = named[0]
        return found

    def container(self, guid: str) -> tuple[HostRow, HostContainer]:
        """A container and its host. Raises `NotFound`."""
        try:
            return self.containers[guid]
        except KeyError:
            raise NotFound(f"no host of this fleet has the container {guid} now") from None

    def group(self, name: str) -> GroupRow:
        """A group; one that only its containers' labels tell of is up. Raises `NotFound`."""
        found = self.groups.get(name)
        if found is None:
            if name not in self.of_group:
                raise NotFound(f"this fleet has no group {name}")
            found = GroupRow(name, "up", True, "", len(self.of_group[name]))
        return found


class KnownFleet:
    """Keeps the list. `changed` is called with each new version."""

    def __init__(
        self,
        reader: FleetReader,
        sources: ConsoleSources,
        now: Callable[[], float],
        changed: Callable[[int], None],
        *,
        period_s: float = PERIOD_S,
    ) -> None:
        self.reader = reader
        self._period_s = period_s
        self._sources, self._now, self._changed = sources, now, changed
        self._listing: Listing | None = None
        self._version = 0
        self._asking = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._wanted_s = 0.0
        self._failed: tuple[float, str] | None = None  # when, and why

    async def run(self) -> None:
        """List again and again while somebody looks."""
        while True:
            await self._wanted.wait()
            if self._now() - self._wanted_s > WANTED_S:
                self._wanted.clear()
                continue
            async with self._asking:
                await self.refresh()
            await asyncio.sleep(self._period_s)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody looked a short while ago."""
        return self._wanted.is_set()

    async def refresh(self) -> None:
        """Ask once. A failure is kept as the source's state, and what was known stays."""
        try:
            listed = await self.reader.listed()
        except CotenantError as error:
            self._failed = (self._now(), str(error))
            self._sources.failed(FLEET, str(error))
            return
        self._failed = None
        self._sources.ok(FLEET)
        self._version += 1
        self._listing = Listing(listed, self._version, self._now())
        self._changed(self._version)

    async def listing(self) -> Listing:
        """What is known, not older than `STALE_S`. Raises `Unanswered`."""
        self._wanted_s = self._now()
        self._wanted.set()
        if not self._is_fresh():
            async with self._asking:
                is_wasted = self._failed is not None and self._now() - self._failed[0] < self._period_s
                if not self._is_fresh() and not is_wasted:
                    await self.refresh()
        if self._listing is None or not self._is_fresh():
            raise Unanswered(FLEET, self._failed[1] if self._failed is not None else "it has not answered yet", 503)
        return self._listing

    def _is_fresh(self) -> bool:
        return self._listing is not None and self._now() - self._listing.at_s <= STALE_S
