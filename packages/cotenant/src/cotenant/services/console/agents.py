"""Where the agents of nodes answer, and questions to them.

    --agents http://{ip}:10262      each node's agent at the node's internal address
    --agents http://{node}:10262    by the node's name
    --agents http://127.0.0.1:10262 one agent; only its own node has answers
    --agents http://HOST:PORT/{node}  several behind one address, as in `cotenant up`

An agent listens on its own node, and nothing in the cluster says where. One pattern for all nodes; only names and
addresses of nodes that the API server knows are put into it.
Limits: agents have no TLS of their own and listen on loopback unless their configuration says that the network is
trusted; `AT_ONCE` questions at a time, and a node that does not answer within `ANSWER_S` counts as away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import quote

import msgspec

from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.services.console.console_arguments import ADDRESS, NODE
from cotenant.services.console.sources import AGENT
from cotenant.services.console.upstream import Unanswered, Upstream

ANSWER_S = 5.0
T = TypeVar("T")


class Agents:
    """The agents; an empty pattern = none are configured. `is_known` says whether a node exists."""

    def __init__(self, pattern: str, is_known: Callable[[str], bool]) -> None:
        self._pattern, self._is_known = pattern, is_known
        self._upstream = Upstream(AGENT, lambda: "", answer_s=ANSWER_S)
        self._addresses: dict[str, str] = {}

    @property
    def is_configured(self) -> bool:
        """Whether agents can be asked."""
        return bool(self._pattern)

    def address_seen(self, node: str, address: str) -> None:
        """A node's internal address; empty = it has none."""
        host = _host(address)
        if host:
            self._addresses[node] = host
        else:
            self._addresses.pop(node, None)

    def node_gone(self, node: str) -> None:
        """A node was deleted."""
        self._addresses.pop(node, None)

    async def get(self, node: str, path: str, query: Sequence[tuple[str, str]] = ()) -> bytes:
        """A page of a node's agent, as JSON. Raises `Unanswered`."""
        return await self._upstream.get(path, query, base=self._url(node))

    async def close(self) -> None:
        """Close connections."""
        await self._upstream.close()

    def _url(self, node: str) -> str:
        if not self._pattern:
            raise Unanswered(AGENT, "no agents are configured: cotenant console --agents http://{ip}:10262", 404)
        if not self._is_known(node):
            raise Unanswered(AGENT, f"node {node} does not exist", 404)
        address = self._addresses.get(node, "")
        if ADDRESS in self._pattern and not address:
            raise Unanswered(AGENT, f"node {node} has no internal address", 404)
        return self._pattern.replace(NODE, quote(node, safe="")).replace(ADDRESS, address)


def read_answer(body: bytes, type_: type[T], source: str = AGENT) -> T:
    """The answer of an agent or another source. Raises `Unanswered` where it has another form."""
    try:
        return msgspec.json.decode(body, type=type_)
    except UNREADABLE:
        raise Unanswered(source, "its answer cannot be read: it is of another version") from None


def _host(address: str) -> str:
    """An address as it is written in a URL; anything else is dropped."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return ""
    return f"[{parsed}]" if parsed.version == 6 else str(parsed)
