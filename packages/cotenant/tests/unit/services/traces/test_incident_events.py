"""Events of incidents on their objective: each step once, none of old ones, none of what is not watched."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import msgspec
import pytest
from tests.fakes.node.job_of_pods import WORKLOAD
from tests.fakes.node.troubled_node import SECOND_US, TroubledNode
from tests.unit.engine.node.recovery.test_guarded import Guarded

from cotenant.drivers.kube.kinds.custom.service_objective import ServiceObjectiveObject
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.engine.node.recovery.policy import RecoveryMemory, decide
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.engine.node.recovery.stages import IncidentStage
from cotenant.services.agent.reports.stories import ChangedStories
from cotenant.services.reporting.stories import StoryReport
from cotenant.services.traces.incident_events import MAX_AGE_S, IncidentEvents

OBJECTIVE, UID = "shop/web-latency", "uid-of-objective"
AGENT_AHEAD_S = 1000.0  # Unix time of the agent's zero
REASONS = {
    IncidentStage.GUARDED: "BestEffortHeld",
    IncidentStage.ACTING: "CulpritHeld",
    IncidentStage.HOLDING: "ActionHelped",
    IncidentStage.RELEASED: "CulpritReleased",
    IncidentStage.EXHAUSTED: "NoActionLeft",
    IncidentStage.RECOVERED: "Recovered",
}


class Recorded:
    """The Events, and the time of the trace process."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, str]] = []
        self.now_s = 0.0
        self.incidents = IncidentEvents(self, lambda key: UID if key == OBJECTIVE else "", lambda: self.now_s)

    def record(
        self, kind: Kind[ServiceObjectiveObject], key: str, uid: str, type_: str, reason: str, message: str
    ) -> None:
        assert (kind.name, key, uid) == ("ServiceObjective", OBJECTIVE, UID)
        self.events.append((type_, reason, key, message))

    def hear(self, report: StoryReport) -> None:
        self.now_s = max(self.now_s, report.at_s)
        self.incidents.heard(report)

    def reasons(self) -> list[str]:
        return [reason for _, reason, _, _ in self.events]


@pytest.fixture(scope="module")
def reports() -> list[StoryReport]:
    """What an agent sends in a minute with a guilty neighbour, of a service with an objective."""
    node, memory, found = TroubledNode(Random(3), guilty="b"), RecoveryMemory(), []
    settings = RecoverySettings(lease_us=10 * SECOND_US, after_us=5 * SECOND_US)
    changed = ChangedStories("n1")
    for _ in range(60):
        state = node.second()
        verdict, memory = decide(state, settings, memory)
        node.obey(verdict)
        found += changed.due(memory, state, AGENT_AHEAD_S + state.at_us / 1e6, 1)
    return [with_objective(report) for report in found]


def with_objective(report: StoryReport, key: str = OBJECTIVE) -> StoryReport:
    incidents = tuple(replace(incident, objective=key) for incident in report.story.incidents)
    return msgspec.structs.replace(report, story=replace(report.story, incidents=incidents))


def test_each_step_is_told_once_and_in_order(reports: list[StoryReport]) -> None:
    recorded = Recorded()
    for report in reports:
        recorded.hear(report)
        recorded.hear(report)
    steps = [step for incident in reports[-1].story.incidents for step in incident.events if step.stage in REASONS]
    assert recorded.reasons() == [REASONS[step.stage] for step in sorted(steps, key=lambda step: step.at_us)]
    assert {"CulpritHeld", "ActionHelped", "CulpritReleased"} <= set(recorded.reasons())
    assert "caused by batch/b" in recorded.events[0][3]
    assert recorded.events[0][3].startswith("n1: shop/web: ")
    assert all("shop/web" in message for _, _, _, message in recorded.events)


def test_what_the_guard_holds_is_told_although_no_pod_is_named() -> None:
    run, changed, recorded = Guarded(), ChangedStories("n1"), Recorded()
    for _ in range(60):
        state = run.second()
        for report in changed.due(run.memory, state, AGENT_AHEAD_S + state.at_us / 1e6, 1):
            incidents = tuple(replace(incident, objective=OBJECTIVE, culprit="") for incident in report.story.incidents)
            recorded.hear(msgspec.structs.replace(report, story=replace(report.story, incidents=incidents)))
    assert recorded.reasons()[:2] == ["BestEffortHeld", "Recovered"]
    assert f"and with it {WORKLOAD}" in recorded.events[0][3]


def test_after_a_restart_old_steps_are_not_told_again(reports: list[StoryReport]) -> None:
    recorded = Recorded()
    recorded.now_s = reports[-1].at_s + MAX_AGE_S
    recorded.incidents.heard(reports[-1])
    assert recorded.events == []


def test_a_node_that_booted_anew_is_heard(reports: list[StoryReport]) -> None:
    recorded = Recorded()
    later = reports[-1].story
    ahead = replace(later, now_us=later.now_us + 10**12, incidents=())
    recorded.hear(msgspec.structs.replace(reports[-1], story=ahead))
    recorded.hear(reports[-1])
    assert recorded.events


@pytest.mark.parametrize("key", ["", "other/latency"])
def test_an_objective_that_is_not_watched_gets_none(reports: list[StoryReport], key: str) -> None:
    recorded = Recorded()
    for report in reports:
        recorded.hear(with_objective(report, key))
    assert recorded.events == []
