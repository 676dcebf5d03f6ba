"""Evicts pods: those of a cluster through its eviction API, plain groups by the configuration.

A disruption budget must be respected, and a group that was started by hand has no controller to ask. Pods of a cluster
are evicted with the UID as a precondition, so that another pod of that name is never hit; the eviction of a plain group
is only reported (log, metrics, decisions), unless the configuration lets its processes be killed, all at once, and only
below the writable groups.
Limits: a killed group's processes get no time to shut down; without access to a cluster its pods stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cotenant.model.errors import CotenantError, Transient
from cotenant.model.machine.node_decision import EvictPod

PLAIN = "group:"  # prefix of a plain group's UID


class EvictionApi(Protocol):
    """The eviction API of a cluster (`drivers/kube/client.Client`)."""

    async def evict(self, namespace: str, pod: str, uid: str = "", *, grace_s: int | None = None) -> None:
        """Raises `Transient` where a budget does not allow it now, `Permanent` where the pod is gone or cannot be
        evicted.
        """
        ...


class ApiEvictor:
    """Implements loop/actor.Evictor."""

    def __init__(
        self,
        api: EvictionApi | None = None,
        kill: Callable[[str], None] | None = None,
        writable: tuple[str, ...] = (),
        held: Callable[[str], str] = lambda namespace: "",
    ) -> None:
        """`api`: None = no cluster; `kill`: kills every process of a group; None = only report. `held`: why nothing in
        a namespace may be evicted now, "" = it may.
        """
        self._held = held
        self._api = api
        self._kill = kill
        self._writable = writable

    async def evict(self, pod: EvictPod) -> tuple[bool, str]:
        """Whether it was accepted, and the detail."""
        if held := self._held(pod.key.partition("/")[0]):
            return False, f"not now: {held}"
        if pod.uid.startswith(PLAIN):
            return self._evict_plain(pod.uid.removeprefix(PLAIN))
        if self._api is None:
            return False, "no cluster is configured"
        namespace, _, name = pod.key.partition("/")
        if not namespace or not name:
            return False, "no source has named the pod"
        try:
            await self._api.evict(namespace, name, pod.uid, grace_s=pod.grace_s)
        except Transient as error:
            return False, f"not now: {error}"
        except CotenantError as error:
            return False, str(error)  # gone, or replaced by another of its name: discovery will see it too
        return True, "evicted through the API"

    def _evict_plain(self, group: str) -> tuple[bool, str]:
        if self._kill is None:
            return False, "the eviction of a plain group is only reported (plain_eviction: told)"
        if not any(group == root or group.startswith(root + "/") for root in self._writable):
            return False, "it is not below a writable group"
        try:
            self._kill(group)
        except (CotenantError, OSError) as error:
            return False, str(error)
        return True, "its processes were killed"
