"""Answers about a fleet.

    /api/hosts?q=&region=&tag=&state=&start=&limit=   sums by region and tag, groups, a page of hosts, containers found
    /api/hosts/host/GUID                              a host: its parts' health, containers, figures
    /api/hosts/container/GUID                         a container, its host and figures
    /api/hosts/node/NAME                              the agent of a Kubernetes node; "" where it has none
    /api/hosts/group/NAME                             a group: goal, why it failed, members with states

An answer from the list alone is encoded once for all viewers of a version; figures and members are asked of the fleet,
once for each version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.fleet.figures import TopPage
from cotenant.model.fleet.requests import GroupRow, HostRow
from cotenant.model.fleet.states import LEGAL
from cotenant.model.whole_number import whole_number
from cotenant.services.console.hosts import rows
from cotenant.services.console.hosts.known import KnownFleet, Listing
from cotenant.services.console.query import limit_of
from cotenant.services.console.sources import FLEET
from cotenant.services.console.upstream import Unanswered

SELECTING = ("q", "region", "tag", "state", "start", "limit")
MAX_HOSTS = 200
MAX_CONTAINERS = 500
MAX_FOUND = 50  # containers beside the hosts of a search
MAX_GROUPS = 100
MAX_KEPT = 500  # encoded answers of one version
NOT_CONFIGURED = "no fleet is configured: cotenant console --fleet local, or --fleet nats://HOST:PORT"


class HostAnswers:
    """The section "hosts". `known` is None where no fleet is configured; `is_node`: whether a Kubernetes node has this
    name.
    """

    def __init__(
        self, known: KnownFleet | None, is_node: Callable[[str], bool], *, has_terminals: bool = False
    ) -> None:
        self._known, self._is_node, self._has_terminals = known, is_node, has_terminals

    async def answer(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """An answer as JSON. Raises `NotFound`, `InvalidInput`, `Unanswered`."""
        if self._known is None:
            if len(names) == 2 and names[0] == "node":
                return {"guid": ""}
            raise Unanswered(FLEET, NOT_CONFIGURED, 404)
        listing = await self._known.listing()
        key = (*names, "", *(f"{name}={query[name]}" for name in SELECTING if name in query))
        found = listing.answers.get(key)
        if found is None:
            match names:
                case []:
                    made = self._page(listing, query)
                case ["host", guid]:
                    made = await self._host(self._known, listing, guid)
                case ["container", guid]:
                    made = await self._container(self._known, listing, guid)
                case ["node", name]:
                    made = {"guid": self._agent_of(listing, name)}
                case ["group", name]:
                    made = await self._group(self._known, listing, name)
                case _:
                    raise NotFound("there is no such page")
            found = msgspec.json.encode({**made, "at": listing.at_s})
            if len(listing.answers) < MAX_KEPT:
                listing.answers[key] = found
        return msgspec.Raw(found)

    def _page(self, listing: Listing, query: Mapping[str, str]) -> dict[str, object]:
        state = query.get("state", "")
        if state and state not in rows.STATES.values():
            raise InvalidInput("state", state[:64], "one of " + ", ".join(rows.STATES.values()))
        start = whole_number(query.get("start", "0"))
        if start is None or start < 0:
            raise InvalidInput("start", query["start"][:64], "0 or more")
        limit = limit_of(query, MAX_HOSTS)
        text = query.get("q", "").strip().lower()
        wanted = rows.HostQuery(text, query.get("region"), query.get("tag", ""), state)
        everything = list(listing.hosts.values())
        found = sorted(
            (row for row in everything if wanted.has_host(row)),
            key=lambda row: (row.registration.hostname, row.registration.guid),
        )
        containers = [pair for pair in listing.containers.values() if wanted.has_container(pair[1])] if text else []
        groups = sorted(name for name in listing.of_group if wanted.matches(name))
        sums = {name: sum(rows.STATES[row.state] == name for row in everything) for name in rows.STATES.values()}
        return {
            "hosts": len(everything),
            "containers": len(listing.containers),
            "states": sums,
            "regions": rows.regions_view(everything),
            "tags": rows.tags_view(everything),
            "count": len(found),
            "rows": [rows.host_view(row, self._node_of(row)) for row in found[start : start + limit]],
            "containersFound": len(containers),
            "found": [rows.container_view(*pair) for pair in containers[:MAX_FOUND]],
            "groupsFound": len(groups),
            "groups": [
                rows.group_view(listing.group(name), (status for _, status in listing.of_group[name]))
                for name in groups[:MAX_GROUPS]
            ],
        }

    async def _host(self, known: KnownFleet, listing: Listing, guid: str) -> dict[str, object]:
        row = listing.host(guid)
        measured, why = await self._measured(known, row.registration.guid)
        containers = rows.containers_of(row)
        figures = {found.guid: found for page in measured.hosts for found in page.containers}
        return {
            **rows.host_view(row, self._node_of(row)),
            **rows.parts_view(row),
            "figures": rows.figures_view(measured.hosts[0].host if measured.hosts else None),
            "unmeasured": why,
            "count": len(containers),
            "containers": [
                {**rows.container_view(row, status), "figures": rows.figures_view(figures.get(status.guid))}
                for status in containers[:MAX_CONTAINERS]
            ],
        }

    async def _container(self, known: KnownFleet, listing: Listing, guid: str) -> dict[str, object]:
        row, status = listing.container(guid)
        measured, why = await self._measured(known, row.registration.guid)
        figures = [found for page in measured.hosts for found in page.containers if found.guid == guid]
        return {
            **rows.container_view(row, status),
            "hostState": rows.STATES[row.state],
            "hasTerminal": self._has_terminals,
            "node": self._node_of(row),
            "figures": rows.figures_view(figures[0] if figures else None),
            "unmeasured": why,
        }

    async def _group(self, known: KnownFleet, listing: Listing, name: str) -> dict[str, object]:
        there, group = listing.of_group.get(name, []), listing.group(name)
        stored = await self._asked(known, name)
        if stored is not None:
            group = stored
        members = rows.members_view(group, there, listing.hosts)
        return {
            **rows.group_view(group, (status for _, status in there)),
            "members": members[:MAX_CONTAINERS],
            "changes": {before.value: sorted(after.value for after in legal) for before, legal in LEGAL.items()},
        }

    async def _asked(self, known: KnownFleet, name: str) -> GroupRow | None:
        try:
            return await known.reader.group(name)
        except CotenantError as error:
            raise Unanswered(FLEET, str(error)) from None

    async def _measured(self, known: KnownFleet, agent: str) -> tuple[TopPage, str]:
        """Figures, or why there are none."""
        try:
            found = await known.reader.measured(agent)
        except CotenantError as error:
            return TopPage(), rows.short(str(error))
        return found, rows.short("; ".join(found.unmeasured))

    def _agent_of(self, listing: Listing, node: str) -> str:
        found = (guid for guid, row in listing.hosts.items() if row.registration.hostname == node)
        return next(found, "") if self._is_node(node) else ""

    def _node_of(self, row: HostRow) -> str:
        return row.registration.hostname if self._is_node(row.registration.hostname) else ""
