"""The union of several sources of pods, each of which may be unavailable for a while.

Plain groups from a file, a kubelet's tree, a container runtime and an API server know different parts, and one that
fails must not make the others' pods vanish: a pod that vanishes loses its protection. Each source's last answer stays
in force while it fails, however long; the agent sees the union. Where two list the same UID or group, the earlier
source wins.
Limits: a pod that ended while its source is unavailable is listed until the source is back; its group has no counters
then, so no decision uses it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cotenant.engine.node.interfaces import PodDiscovery
from cotenant.model.errors import CotenantError
from cotenant.model.machine.node_pod import NodePod
from cotenant.services.agent.discovery.claims import CpuClaims

WITHIN_S = 20.0
_log = logging.getLogger(__name__)


class PlainGroups:
    """The groups of the configuration."""

    def __init__(self, pods: Sequence[NodePod]) -> None:
        self._pods = tuple(pods)

    async def pods(self) -> tuple[NodePod, ...]:
        """All of them, whether they exist now or not."""
        return self._pods


@dataclass(slots=True)
class DiscoverySource:
    """One source with its state."""

    name: str
    discovery: PodDiscovery
    failures: int = 0
    last: tuple[NodePod, ...] = ()
    answered_s: float | None = None  # monotonic
    said: str = ""


def plain(pods: Sequence[NodePod]) -> DiscoverySource:
    """The groups of the configuration as a source, with its answer already set: a discovery under way uses it."""
    return DiscoverySource("groups", PlainGroups(pods), last=tuple(pods))


@dataclass(slots=True)
class DiscoverySources:
    """All sources as one. Implements engine/node/interfaces.PodDiscovery, and never raises for an unavailable
    source.
    """

    monotonic: Callable[[], float]
    sources: list[DiscoverySource] = field(default_factory=list)
    _claims: CpuClaims = field(default_factory=CpuClaims)

    async def pods(self) -> tuple[NodePod, ...]:
        """The union, each pod once, after all sources have answered."""
        await asyncio.gather(*(self._query(source) for source in self.sources))
        found: dict[str, NodePod] = {}
        groups: set[str] = set()
        for source in self.sources:
            for pod in source.last:
                if pod.uid not in found and pod.group not in groups:
                    found[pod.uid] = pod
                    groups.add(pod.group)
        return self._claims.settled(found.values())

    async def _query(self, source: DiscoverySource) -> None:
        try:
            async with asyncio.timeout(WITHIN_S):
                source.last = await source.discovery.pods()
        except (CotenantError, OSError) as error:
            source.failures += 1
            if not source.said:
                _log.warning("%s does not list its pods, the last answer stays in force: %s", source.name, error)
            source.said = str(error) or f"no answer within {WITHIN_S:g} s"
        else:
            if source.said:
                _log.info("%s lists its pods again", source.name)
            source.said = ""
            source.answered_s = self.monotonic()
