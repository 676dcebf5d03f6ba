"""Answers about releases and virtual machines.

    /api/releases                      the list, and whether viewers may change them here
    /api/releases/NAMESPACE/NAME       a release: objects, pods by guid with nodes, objectives, quotas, cost
    /api/vms                           virtual machines of KubeVirt
    /api/changes/ID?start=             how far a change is, with the lines that it said

Each costs many requests to the API server, and some of helm: an answer is kept for `KEPT_S`, for all viewers.
Limits: what the console's own kubeconfig may not read is an error in words.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.model.assess.prices import PriceTable
from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.whole_number import whole_number
from cotenant.services.changes.book import ChangeBook
from cotenant.services.changes.machines import Machines
from cotenant.services.changes.releases import Releases

KEPT_S = 2.0
MAX_KEPT = 200
WITHIN_S = 60.0


class ApplicationAnswers:
    """The sections "releases", "vms" and "changes"."""

    def __init__(
        self,
        releases: Releases,
        machines: Machines,
        book: ChangeBook,
        *,
        may_change: bool,
        prices: PriceTable | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._releases, self._machines, self._book, self._prices = releases, machines, book, prices
        self._may_change, self._now = may_change, now
        self._kept: dict[tuple[str, ...], tuple[float, object]] = {}
        self._asking: dict[tuple[str, ...], asyncio.Lock] = {}

    async def releases(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """The list, or one release."""
        match names:
            case []:
                return await self._once(("releases",), self._list)
            case [namespace, name]:
                return await self._once(("releases", namespace, name), lambda: self._release(namespace, name))
        raise NotFound("there is no such page")

    async def vms(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """All machines."""
        if names:
            raise NotFound("there is no such page")
        return await self._once(("vms",), self._vms)

    async def changes(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """How far a change is."""
        start = whole_number(query.get("start", "0"))
        if start is None:
            raise InvalidInput("start", query["start"][:64], "0 or more")
        if len(names) != 1:
            raise NotFound("there is no such page")
        return await self._book.report(names[0], start)

    async def _list(self) -> object:
        return {"releases": await self._releases.every(), "mayChange": self._may_change}

    async def _release(self, namespace: str, name: str) -> object:
        try:
            return {"release": await self._releases.show(namespace, name, self._prices), "mayChange": self._may_change}
        except InvalidInput as error:
            raise NotFound(str(error)) from error

    async def _vms(self) -> object:
        try:
            return {"machines": await self._machines.every(), "mayChange": self._may_change, "lacks": ""}
        except Unsupported as error:
            return {"machines": [], "mayChange": False, "lacks": str(error)}

    async def _once(self, key: tuple[str, ...], ask: Callable[[], Awaitable[object]]) -> object:
        """The kept answer, or a new one: many viewers ask once."""
        async with self._asking.setdefault(key, asyncio.Lock()):
            at_s, found = self._kept.get(key, (float("-inf"), None))
            if self._now() - at_s < KEPT_S:
                return found
            async with asyncio.timeout(WITHIN_S):
                found = await ask()
            self._kept[key] = (self._now(), found)
        while len(self._kept) > MAX_KEPT:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._asking.pop(oldest, None)
        return found


class Section:
    """One method of the answers as a section of the page's questions."""

    def __init__(self, ask: Callable[[Sequence[str], Mapping[str, str]], Awaitable[object]]) -> None:
        self._ask = ask

    async def answer(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """The answer, which is sent as JSON."""
        return await self._ask(names, query)
