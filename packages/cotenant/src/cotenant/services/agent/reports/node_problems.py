"""Writes the conditions that groups' waits show into the status of this node, and an Event where one begins or ends.

Nothing else writes these types; the kubelet leaves conditions that it does not know. They are written where one
changes, and every five minutes, so that a reader sees by `lastHeartbeatTime` that somebody still looks. A condition
changes twice a minute at most (engine/node/problems.py), and its Events begin every ten minutes at most.
Limits: `lastTransitionTime` begins with this process; the conditions of an agent that is gone stay.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.kind import AnyKind
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.engine.node.problems import NodeProblem
from cotenant.services.agent.reports.object_writer import ObjectWriter

HEARTBEAT_S = 300.0
EVENT_GAP_S = 600.0  # between two Events that one condition holds
_RETRY_S = 60.0
_NORMAL, _WARNING = "Normal", "Warning"


class NodeEvents(Protocol):
    """`kube_process.events.EventRecorder`."""

    def record(self, kind: AnyKind, key: str, uid: str, type_: str, reason: str, message: str) -> None:
        """Record an Event; returns at once."""
        ...


class NodeProblemWriter(ObjectWriter):
    """Writes the conditions of one node. `monotonic`, `wall`: clocks in seconds."""

    def __init__(
        self,
        client: Client,
        node: str,
        events: NodeEvents,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        super().__init__("conditions of Node", client, node, HEARTBEAT_S)
        self._events = events
        self._monotonic = monotonic
        self._wall = wall
        self._problems: tuple[NodeProblem, ...] = ()
        self._changed: dict[str, tuple[bool, str]] = {}  # by type: whether it holds, and since when
        self._written: dict[str, bool] = {}
        self._due_s = 0.0
        self._announced_s: dict[str, float] = {}  # by type: the last Event that it holds
        self._to_end: set[str] = set()  # those whose end is worth an Event

    async def told(self, problems: tuple[NodeProblem, ...]) -> bool:
        """Take the conditions of now, and write them where that is due; whether they were written."""
        now_s, self._problems = self._monotonic(), problems
        for problem in problems:
            before = self._changed.get(problem.type)
            if before is None or before[0] != problem.is_true:
                self._changed[problem.type] = (problem.is_true, self._time())
                self._announce(problem, now_s)
        differs = self._written != {problem.type: problem.is_true for problem in problems}
        if now_s < self._due_s and (self.problem or not differs):
            return False
        written = await self.write()
        self._due_s = now_s + (HEARTBEAT_S if written else _RETRY_S)
        return written

    def _announce(self, problem: NodeProblem, now_s: float) -> None:
        if problem.is_true:
            last_s = self._announced_s.get(problem.type)
            if last_s is not None and now_s - last_s < EVENT_GAP_S:
                return
            self._announced_s[problem.type] = now_s
            self._to_end.add(problem.type)
        elif problem.type not in self._to_end:
            return
        else:
            self._to_end.discard(problem.type)
        # the kubelet's own Events name a node by its name, and so `kubectl describe node` finds them
        self._events.record(
            NODES,
            self._node,
            self._node,
            _WARNING if problem.is_true else _NORMAL,
            problem.reason,
            f"{problem.type}: {problem.message}",
        )

    async def _update(self) -> bool | None:
        now = self._time()
        conditions = [
            {
                "type": problem.type,
                "status": str(problem.is_true),
                "reason": problem.reason,
                "message": problem.message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": self._changed[problem.type][1],
            }
            for problem in self._problems
        ]
        await self._client.patch_status(NODES, "", self._node, {"status": {"conditions": conditions}})
        self._written = {problem.type: problem.is_true for problem in self._problems}
        return True

    def _time(self) -> str:
        return datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
