"""Asking pods to leave: those of a cluster through its eviction API, plain groups as the configuration says.

Problem: a disruption budget must be respected, and a group that somebody started by hand has nobody to ask. Choice: pods of a cluster are evicted
with the UID as a precondition, so that another pod of that name is never hit; a plain group is only told of (log, metrics, decisions), unless the
configuration lets its processes be killed, all at once, and only below the groups that may be written. Limits: a killed group's processes get no time to
end well; without access to a cluster its pods stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cotenant.model.errors import CotenantError, Transient
from cotenant.model.machine.node_decision import EvictPod

PLAIN = "group:"  # how the UID of a plain group begins


class Api(Protocol):
    """The eviction API of a cluster (`drivers/kube/client.Client`)."""

    async def evict(self, namespace: str, pod: str, uid: str = "") -> None:
        """Raises `Transient` where a budget does not allow it now, `Permanent` where the pod is gone or not to be evicted."""
        ...


class Evictions:
    """Meets services/agent/acting.Evictor."""

    def __init__(
        self,
        api: Api | None = None,
        kill: Callable[[str], None] | None = None,
        writable: tuple[str, ...] = (),
    ) -> None:
        """`api`: None = no cluster; `kill`: ends every process of a group, None = it is only told."""
        self._api = api
        self._kill = kill
        self._writable = writable

    async def evict(self, pod: EvictPod) -> tuple[bool, str]:
        """Whether it was accepted, and what was said."""
        if pod.uid.startswith(PLAIN):
            return self._evict_plain(pod.uid.removeprefix(PLAIN))
        if self._api is None:
            return False, "there is no cluster to evict through"
        namespace, _, name = pod.key.partition("/")
        try:
            await self._api.evict(namespace, name, pod.uid)
        except Transient as error:
            return False, f"not now: {error}"
        except CotenantError as error:
            return False, str(error)  # gone, or another of its name: discovery will say so too
        return True, "evicted through the API"

    def _evict_plain(self, group: str) -> tuple[bool, str]:
        if self._kill is None:
            return False, "a plain group is only told of (plain_eviction: told)"
        if not any(group == root or group.startswith(root + "/") for root in self._writable):
            return False, "it is not below a group that may be written"
        try:
            self._kill(group)
        except (CotenantError, OSError) as error:
            return False, str(error)
        return True, "its processes were killed"
