"""The account book of tenants' credit, from the credit process.

    /api/credit/tenants                every tenant's balance and standing
    /api/credit/tenants/NAME?limit=N   one tenant with its last entries
    /api/credit/entries?limit=N        the last entries of all, the latest first

Balances alone explain nothing; an entry with its cause and figures does. The credit process has that already, so its
answers are passed on unchanged.
Limits: only the last `MAX_ENTRIES`; `cotenant credit export` has all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

import msgspec

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.services.console.query import limit_of
from cotenant.services.console.sources import CREDIT, ConsoleSources
from cotenant.services.console.upstream import Unanswered, Upstream

MAX_ENTRIES = 1000
_PREFIX = "/credit/v1/"


class Credit:
    """Questions to the credit process; None = none is configured."""

    def __init__(self, upstream: Upstream | None, sources: ConsoleSources) -> None:
        self._upstream, self._sources = upstream, sources

    async def answer(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """The answer to a page below `/api/credit`. Raises `NotFound`, `InvalidInput`, `Unanswered`."""
        if self._upstream is None:
            raise Unanswered(CREDIT, "no credit process is configured: cotenant console --credit URL", 404)
        limit = str(limit_of(query, MAX_ENTRIES))
        match names:
            case ["tenants"]:
                found = await self._upstream.get(_PREFIX + "tenants")
            case ["tenants", name]:
                found = await self._upstream.get(f"{_PREFIX}tenants/{quote(name, safe='')}", [("limit", limit)])
            case ["entries"]:
                found = await self._upstream.get(_PREFIX + "entries", [("newest", "1"), ("limit", limit)])
            case _:
                raise NotFound("there is no such page")
        self._sources.ok(CREDIT)
        return msgspec.Raw(found)
