"""One object of this node in the cluster, written each period: counts, and one line in the log where that begins to
fail or works again.

The agent writes several objects (NodeMetric, NodeResourceTopology, Device), and a kind that is not installed, or a
right that is missing, fails each period. One base class that counts, keeps the problem for the status page and logs
only changes; a subclass compares and writes.
Limits: what is no `CotenantError` is a defect and ends the agent.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod

from cotenant.drivers.kube.client.client import Client
from cotenant.model.errors import CotenantError

_log = logging.getLogger(__name__)


class ObjectWriter(ABC):
    """Base of the writers. `written` and `failures` are for metrics; `problem` is why the object is not up to date,
    empty where it is.
    """

    def __init__(self, kind: str, client: Client, node: str, period_s: float) -> None:
        """`kind` as users know it; `period_s` may change from one write to the next."""
        self.period_s = period_s
        self.written = 0
        self.failures = 0
        self.problem = ""
        self._kind = kind
        self._client = client
        self._node = node

    async def write(self) -> bool:
        """Once. False where nothing was to be written, or, counted, where the server did not take it."""
        try:
            changed = await self._update()
        except CotenantError as error:
            self.failures += 1
            if not self.problem:
                _log.warning("%s %s is not written: %s", self._kind, self._node, error)
            self.problem = str(error)
            return False
        if changed is None:
            return False
        if self.problem:
            _log.info("%s %s is written again", self._kind, self._node)
        self.problem = ""
        self.written += changed
        return changed

    @abstractmethod
    async def _update(self) -> bool | None:
        """Write what differs. True = written, False = nothing differs, None = there is nothing to compare yet."""

    def _leave_alone(self, reason: str) -> None:
        """Note, once, that the object is not ours to write."""
        if self.problem != reason:
            _log.warning("%s", reason)
        self.problem = reason
