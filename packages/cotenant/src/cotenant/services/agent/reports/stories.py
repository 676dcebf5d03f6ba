"""Which stories of services are to be sent to the trace process: those that have changed.

A story is kilobytes and its incidents change a few times a minute. A story is sent when an incident of its service has
a new event or a new proof, and every story after a new connection, since the receiver keeps them in memory.
Limits: figures that change without an event are those of the next one.
"""

from __future__ import annotations

from collections.abc import Iterator

from cotenant.engine.node.recovery.incident import Incident
from cotenant.engine.node.recovery.policy import RecoveryMemory
from cotenant.engine.node.recovery.story import story
from cotenant.model.machine.node_state import NodeState
from cotenant.services.reporting.stories import StoryReport


class ChangedStories:
    """Remembers what was sent of each service."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._sent: dict[str, object] = {}
        self._connection = 0

    def due(self, memory: RecoveryMemory, state: NodeState, now_s: float, connection: int) -> Iterator[StoryReport]:
        """The reports to send now. `now_s`: Unix time of the state; `connection`: another number means that the
        receiver may know nothing.
        """
        if connection != self._connection:
            self._connection = connection
            self._sent.clear()
        by_service: dict[str, list[Incident]] = {}
        for incident in (*memory.ended, *memory.incidents):
            by_service.setdefault(incident.service, []).append(incident)
        for service in [service for service in self._sent if service not in by_service]:
            del self._sent[service]
        for service, incidents in by_service.items():
            version = tuple(
                (entry.number, entry.events[-1], [proof.helped for proof in entry.proofs]) for entry in incidents
            )
            if self._sent.get(service) == version:
                continue
            self._sent[service] = version
            found = story(service, self._node, state, memory, state.at_us)
            if found is not None:
                yield StoryReport(self._node, now_s, found)
