"""What a zone's services feel on each node, and both sides of its machines: asked of the nodes' agents.

    /api/zone/NAME    the nodes that report the zone, each with its agent's figures or why there are none

Those figures change every second, too often for an object's status, so they are asked for while somebody looks.
Limits: at most `MAX_NODES` nodes, those without an active zone first, as in the list of zones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.services.console.agents import Agents, read_answer
from cotenant.services.console.sources import AGENT
from cotenant.services.console.upstream import Unanswered
from cotenant.services.zones.agent_zones import MachinesTogether, ZoneFigures, ZonesPage

MAX_NODES = 32


@dataclass(frozen=True, slots=True)
class NodeMonitors:
    """One node. `problem`: why there are no figures, "" where there are."""

    node: str
    problem: str
    figures: ZoneFigures | None = None
    machines: MachinesTogether | None = None


@dataclass(frozen=True, slots=True)
class MonitorsPage:
    """The answer. `left_out`: nodes that were not asked."""

    nodes: tuple[NodeMonitors, ...]
    left_out: int


class ZoneMonitors:
    """Answers for one zone. `nodes_of`: the nodes that report a zone; raises `NotFound`."""

    def __init__(self, nodes_of: Callable[[str], Sequence[str]], agents: Agents) -> None:
        self._nodes_of, self._agents = nodes_of, agents

    async def answer(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """The answer to `/api/zone/NAME`. Raises `NotFound`."""
        if len(names) != 1:
            raise NotFound("there is no such page")
        nodes = self._nodes_of(names[0])
        asked = nodes[:MAX_NODES]
        found = await asyncio.gather(*(self._of(node, names[0]) for node in asked))
        return MonitorsPage(tuple(found), len(nodes) - len(asked))

    async def _of(self, node: str, zone: str) -> NodeMonitors:
        try:
            page = read_answer(await self._agents.get(node, "/v1/zones"), ZonesPage)
            if page.node != node:
                raise Unanswered(AGENT, f"the agent that answers is that of node {page.node}", 404)
        except Unanswered as error:
            return NodeMonitors(node, error.why)
        figures = next((entry for entry in page.zones if entry.zone == zone), None)
        return NodeMonitors(node, "" if figures is not None else "it does not run there now", figures, page.machines)
