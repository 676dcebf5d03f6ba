"""ServiceObjectives of a cluster: watched, counted here, their statuses written.

Objectives change while spans arrive, and a status that is written with every request is a load on the API server. A
watch of all namespaces; a status is written at once when the state, an alert, a condition or the last action changes,
else every `REFRESH_S` while figures change. There is no leader: one trace process is meant to run against a cluster.
Limits: two processes write the same statuses in turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.custom.service_objective import SERVICE_OBJECTIVES, read_service_objective
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.objective import ServiceObjective
from cotenant.services.kube_process.statuses import StatusWriter
from cotenant.services.kube_process.watches import ObjectHandler, Watches
from cotenant.services.running import TaskSet
from cotenant.services.traces.objective_board import ObjectiveBoard, status_of
from cotenant.services.traces.saved_counts import CountsFile

LOOK_S, REFRESH_S = 1.0, 15.0
WRITES_PER_S = 20.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WrittenStatus:
    """A status to write."""

    key: str
    uid: str
    fields: Mapping[str, object]


@dataclass(slots=True)
class _Known:
    uid: str
    urgent: object = None
    fields: Mapping[str, object] | None = None
    written_s: float = 0.0


class ClusterObjectives:
    """The watch and the writer. The client is the caller's."""

    def __init__(self, client: Client, board: ObjectiveBoard, saved: CountsFile | None = None) -> None:
        self.client = client
        self._board, self._saved = board, saved
        self._known: dict[str, _Known] = {}
        self._read_only = {tracked.objective.key for tracked in board.objectives}  # from a file
        self.watches = Watches(client)
        self.watches.handle(
            SERVICE_OBJECTIVES, ObjectHandler(read_service_objective, self._seen, self._gone), optional=True
        )
        self.writer = StatusWriter(client, {WrittenStatus: _write}, per_s=WRITES_PER_S)

    def start(self, tasks: TaskSet) -> None:
        """Start the tasks."""
        tasks.start("objectives", self.watches.run())
        tasks.start("statuses of objectives", self.writer.run())
        tasks.start("looks at objectives", self._look())

    def uid_of(self, key: str) -> str:
        """The UID of an objective that is watched; "" for any other."""
        known = self._known.get(key)
        return "" if known is None else known.uid

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.put_due()

    def put_due(self) -> None:
        """Put the statuses that are due."""
        now_s = self._board.now()
        for key, known in self._known.items():
            tracked = self._board.objectives.get(key)
            if tracked is None:
                continue
            view = self._board.view(tracked)
            fields = status_of(view, tracked.objective)
            conditions = [
                (condition.type, condition.status, condition.reason, condition.message) for condition in view.conditions
            ]
            firing = [alert.firing for alert in view.alerts]
            calm = [condition[:3] if condition[0] == "Alerting" else condition for condition in conditions]
            urgent = (view.state, calm, firing, view.last_action, tracked.objective.generation)
            due = abs(now_s - known.written_s) >= REFRESH_S and fields != known.fields
            if urgent != known.urgent or due:
                known.urgent, known.fields, known.written_s = urgent, fields, now_s
                self.writer.put(key, WrittenStatus(key, known.uid, fields))

    def _seen(self, objective: ServiceObjective) -> None:
        if objective.key in self._read_only:
            _log.warning("ServiceObjective %s is not used: --objectives has one of this name", objective.key)
            return
        try:
            self._board.objectives.set(objective, self._board.now())
        except InvalidInput as error:
            _log.warning("ServiceObjective is not used: %s", error)
            return
        tracked = self._board.objectives.get(objective.key)
        if self._saved is not None and tracked is not None:
            self._saved.restore(tracked)
        known = self._known.get(objective.key)
        if known is None or known.uid != objective.uid:
            self._known[objective.key] = _Known(objective.uid)

    def _gone(self, key: str) -> None:
        if self._known.pop(key, None) is not None:
            self.writer.discard(key)
            self._board.forget(key)


async def _write(client: Client, status: WrittenStatus) -> None:
    namespace, _, name = status.key.partition("/")
    await client.set_status(SERVICE_OBJECTIVES, namespace, name, status.uid, status.fields)
