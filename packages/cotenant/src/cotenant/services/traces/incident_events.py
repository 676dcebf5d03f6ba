"""Events on ServiceObjectives: what nodes found and did in an incident in which somebody is named or held.

Who looks at an objective with kubectl sees its status, and not that a Job was named and held an hour ago: stories are
asked for by command, and are gone with this process. Each new step of an incident is one Event on its objective.
Limits: only of objectives that this process watches, and of steps that are at most `MAX_AGE_S` old, so that what
agents send again after a restart is not told twice; not on pods and Jobs, since a node's word on them is not proven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from cotenant.drivers.kube.kinds.custom.service_objective import SERVICE_OBJECTIVES, ServiceObjectiveObject
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.engine.node.recovery.incident import IncidentEvent
from cotenant.engine.node.recovery.stages import IncidentStage
from cotenant.engine.node.recovery.story import IncidentStory
from cotenant.services.kube_process.events import NORMAL, WARNING
from cotenant.services.reporting.stories import StoryReport

MAX_AGE_S = 60.0
MOST = 10_000  # services on nodes
_REASONS = {
    IncidentStage.GUARDED: (WARNING, "BestEffortHeld"),
    IncidentStage.ACTING: (WARNING, "CulpritHeld"),
    IncidentStage.HOLDING: (NORMAL, "ActionHelped"),
    IncidentStage.RELEASED: (NORMAL, "CulpritReleased"),
    IncidentStage.EXHAUSTED: (WARNING, "NoActionLeft"),
    IncidentStage.RECOVERED: (NORMAL, "Recovered"),
}


class IncidentRecorder(Protocol):
    """What writes Events (`EventRecorder`)."""

    def record(
        self, kind: Kind[ServiceObjectiveObject], key: str, uid: str, type_: str, reason: str, message: str
    ) -> None:
        """Record one; returns at once."""
        ...


class IncidentEvents:
    """`uid_of`: the UID of an objective that is watched, by namespace/name; "" for any other. `now` gives Unix
    seconds.
    """

    def __init__(self, recorder: IncidentRecorder, uid_of: Callable[[str], str], now: Callable[[], float]) -> None:
        self._recorder = recorder
        self._uid_of = uid_of
        self._now = now
        self._told_us: dict[tuple[str, str], int] = {}  # by node and service: the newest step, on the agent's clock

    def heard(self, report: StoryReport) -> None:
        """Record the steps of a report that are new."""
        story = report.story
        key = (report.node, story.service)
        told_us = self._told_us.pop(key, 0)
        if story.now_us < told_us:  # the node has booted anew
            told_us = 0
        oldest_us = story.now_us - round((MAX_AGE_S - (self._now() - report.at_s)) * 1e6)
        for incident, step in _steps(report):
            if step.at_us > max(told_us, oldest_us):
                self._record(report.node, incident, step)
        newest_us = max((step.at_us for _, step in _steps(report)), default=0)
        self._told_us[key] = max(told_us, newest_us)
        while len(self._told_us) > MOST:
            del self._told_us[next(iter(self._told_us))]

    def _record(self, node: str, incident: IncidentStory, step: IncidentEvent) -> None:
        uid = self._uid_of(incident.objective) if incident.objective else ""
        if uid and step.stage in _REASONS:
            type_, reason = _REASONS[step.stage]
            where = node if incident.pod in step.text else f"{incident.pod} on {node}"
            self._recorder.record(SERVICE_OBJECTIVES, incident.objective, uid, type_, reason, f"{where}: {step.text}")


def _steps(report: StoryReport) -> Iterator[tuple[IncidentStory, IncidentEvent]]:
    """The steps of incidents in which a pod was named, or the guard held somebody, in their order."""
    named = [
        incident
        for incident in report.story.incidents
        if incident.culprit or incident.proofs or (incident.restraint is not None and incident.restraint.held)
    ]
    found = [(incident, step) for incident in named for step in incident.events]
    yield from sorted(found, key=lambda pair: pair[1].at_us)
