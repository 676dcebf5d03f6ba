"""How the ServiceObjectives that cover a pod stand: whether their budgets burn, as evidence for or against a move.

The p99 that a pod reports is of one window, and a service within its budget should not be disturbed for it; an
objective's alerts over two windows are the better evidence, but an objective selects no pods, and its status stays when
nobody counts any more. An objective covers the pods whose application label is its service, in the namespace of the
service or of the object, and the pods of the workloads that its worst replicas were of. An alert that fires is evidence
for a move, an objective without one is evidence against it, and one without data (no requests, alerts that are off, no
status, or one that has not changed for `CURRENT_S`) is none. Of several objectives of a pod, one that burns counts
before one that holds.
Limits: objectives of errors do not count, since another place mends no errors; when the process starts, every status
counts as new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from cotenant.model.cluster.labels import Labels
from cotenant.model.traces.objective import Indicator, ObjectiveState, ObjectiveStatus

CURRENT_S = 300.0  # the trace process writes figures that change every 15 s
_WORKLOADS = 16  # that are kept for each objective; a rollout makes a new one
_APPLICATION = ("app.kubernetes.io/name", "app")


class MoveEvidence(Enum):
    """What an objective says about a move, the strongest first."""

    BURNS = 0
    HOLDS = 1
    NO_DATA = 2


@dataclass(frozen=True, slots=True)
class MoveStanding:
    """One objective now. `words` say it, beginning with its name."""

    status: ObjectiveStatus
    evidence: MoveEvidence
    words: str


@dataclass(slots=True)
class _Known:
    status: ObjectiveStatus
    changed_s: float
    workloads: dict[str, None] = field(default_factory=dict)  # UIDs, the newest last


class Standings:
    """All objectives about latency."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}  # by namespace/name

    def seen(self, status: ObjectiveStatus, now_s: float) -> None:
        """An objective as stored."""
        if status.indicator is Indicator.ERRORS:
            self.gone(status.key)
            return
        known = self._known.get(status.key)
        if known is None:
            self._known[status.key] = _Known(status, now_s)
        elif known.status != status:
            known.status, known.changed_s = status, now_s

    def gone(self, key: str) -> None:
        """An objective was deleted."""
        self._known.pop(key, None)

    def find(self, key: str) -> tuple[ObjectiveStatus, float] | None:
        """An objective with the time when its status was seen to change; None where there is none."""
        known = self._known.get(key)
        return (known.status, known.changed_s) if known is not None else None

    def statuses(self) -> list[ObjectiveStatus]:
        """Every objective, by name."""
        return [self._known[key].status for key in sorted(self._known)]

    def has_replica(self, key: str, workload: str) -> None:
        """A pod of this workload is a replica of the objective's service."""
        workloads = self._known[key].workloads
        workloads.pop(workload, None)
        workloads[workload] = None
        for name in list(workloads)[:-_WORKLOADS]:
            del workloads[name]

    def burning(self, now_s: float) -> list[MoveStanding]:
        """The objectives of which an alert fires, those with the worst replica first."""
        found = [
            element
            for known in self._known.values()
            if (element := _standing(known, now_s)).evidence is MoveEvidence.BURNS
        ]
        return sorted(found, key=lambda standing: (-standing.status.worst_burn, standing.status.key))

    def of(self, namespace: str, labels: Labels, workload: str, now_s: float) -> MoveStanding | None:
        """How the objectives of a pod stand, by the strongest evidence; None where no objective covers it.
        `workload`: UID of its controller, empty = none.
        """
        return _strongest(
            _standing(known, now_s) for known in self._known.values() if _covers(known, namespace, labels, workload)
        )


def application_of(labels: Labels) -> str:
    """The name of the service that a pod is a replica of; "" = none."""
    return next((found for key in _APPLICATION if (found := labels.get(key))), "")


def _strongest(standings: Iterable[MoveStanding]) -> MoveStanding | None:
    return min(standings, key=lambda standing: (standing.evidence.value, standing.status.key), default=None)


def _covers(known: _Known, namespace: str, labels: Labels, workload: str) -> bool:
    if workload and workload in known.workloads:
        return True
    status = known.status
    here = namespace in (status.service_namespace, status.key.partition("/")[0])
    return here and any(labels.get(key) == status.service for key in _APPLICATION)


def _standing(known: _Known, now_s: float) -> MoveStanding:
    status, silent_s = known.status, now_s - known.changed_s
    name = f"ServiceObjective {status.key}"
    if status.state is None:
        return MoveStanding(status, MoveEvidence.NO_DATA, f"{name} has no status that can be read")
    if not status.alerts:
        return MoveStanding(status, MoveEvidence.NO_DATA, f"the alerts of {name} are off")
    if status.state is ObjectiveState.NO_DATA:
        return MoveStanding(status, MoveEvidence.NO_DATA, f"{name} has no data")
    if silent_s > CURRENT_S:
        return MoveStanding(status, MoveEvidence.NO_DATA, f"the status of {name} has not changed for {silent_s:.0f} s")
    if status.firing:
        alert = status.firing[0]
        rates = " and ".join(
            f"{status.burn[entry]:.1f} over {entry}"
            for entry in (alert.window, alert.short_window)
            if entry in status.burn
        )
        return MoveStanding(
            status,
            MoveEvidence.BURNS,
            f"{name} burns its budget: burn rate {rates or 'not known'}, above {alert.factor:.1f}",
        )
    rates = ", ".join(f"{rate:.1f} over {window}" for window, rate in list(status.burn.items())[:1])
    return MoveStanding(
        status, MoveEvidence.HOLDS, f"{name} does not burn its budget: no alert fires, burn rate {rates or 'not known'}"
    )
