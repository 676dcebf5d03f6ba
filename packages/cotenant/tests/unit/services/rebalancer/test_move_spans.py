"""Spans of rounds and moves: what they say of jobs that ended well, badly and without a reservation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cotenant.drivers.otlp.encoding import OwnSpan
from cotenant.engine.rebalancer.plan import KeptPod, MovePlan
from cotenant.model.groups.migration import JobMode, JobPhase, JobStep, MigrationJob, MoveNote, PodRef
from cotenant.services.rebalancer.move_spans import MoveSpans

JOB = MigrationJob(
    "move-1",
    "job-uid",
    PodRef("shop", "web", "uid-web"),
    created_s=100.0,
    reason="node a is overloaded",
    trigger="LowNodeLoad",
    note=MoveNote(node="a", target="b"),
    node="a",
    phase=JobPhase.RUNNING,
)


class Sink:
    def __init__(self) -> None:
        self.spans: list[OwnSpan] = []

    def add(self, spans: Sequence[OwnSpan]) -> None:
        self.spans += spans

    def times(self) -> dict[str, tuple[float, float]]:
        return {span.name: (span.start_s, span.end_s) for span in self.spans}


def after(job: MigrationJob, *steps: tuple[JobStep, float]) -> MigrationJob:
    for step, at_s in steps:
        job = job.with_condition(step, "True", at_s)
    return job


def test_a_move_has_its_steps_and_later_its_verdict() -> None:
    sink = Sink()
    spans = MoveSpans(sink)
    steps = (
        (JobStep.RESERVATION_CREATED, 105.0),
        (JobStep.RESERVATION_SCHEDULED, 106.0),
        (JobStep.EVICTION, 136.0),
        (JobStep.POD_BOUND, 138.0),
        (JobStep.POD_READY, 140.0),
    )
    moved = replace(after(JOB, *steps), phase=JobPhase.SUCCEEDED)
    spans.ended(moved, 140.25)
    assert sink.times() == {
        "move pod": (100.0, 140.25),
        "wait for limits": (100.0, 105.0),
        "reserve": (105.0, 106.0),
        "evict": (106.0, 136.0),
        "replace": (136.0, 138.0),
        "become ready": (138.0, 140.0),
    }
    root = sink.spans[0]
    said = {
        "k8s.namespace.name": "shop",
        "k8s.pod.name": "web",
        "k8s.node.name": "a",
        "cotenant.target": "b",
        "cotenant.job": "move-1",
        "cotenant.trigger": "LowNodeLoad",
        "cotenant.result": "moved",
        "cotenant.reason": "node a is overloaded",
    }
    assert said.items() <= root.attributes.items()
    assert not root.error
    assert {span.parent_id for span in sink.spans[1:]} == {root.span_id}

    sink.spans.clear()
    spans.ended(moved.with_condition(JobStep.HELPED, "False", 320.0, "SourceNotRelieved", "cpu 80 -> 79"), 320.5)
    (verdict,) = sink.spans
    assert (verdict.name, verdict.start_s, verdict.end_s) == ("measure move", 140.0, 320.0)
    assert verdict.attributes["cotenant.result"] == "did not help"
    assert verdict.attributes["cotenant.reason"] == "cpu 80 -> 79"


@pytest.mark.parametrize(
    ("mode", "steps", "failed"),
    [
        (JobMode.RESERVATION_FIRST, (), "wait for limits"),
        (JobMode.RESERVATION_FIRST, ((JobStep.RESERVATION_CREATED, 105.0),), "reserve"),
        (
            JobMode.RESERVATION_FIRST,
            ((JobStep.RESERVATION_CREATED, 105.0), (JobStep.RESERVATION_SCHEDULED, 106.0)),
            "evict",
        ),
        (JobMode.EVICT_DIRECTLY, (), "evict"),
    ],
)
def test_a_failed_move_names_the_step_that_did_not_end(
    mode: JobMode, steps: tuple[tuple[JobStep, float], ...], failed: str
) -> None:
    sink = Sink()
    job = replace(after(JOB, *steps), mode=mode, phase=JobPhase.FAILED, status_reason="Timeout", message="not complete")
    MoveSpans(sink).ended(job, 400.0)
    root, *phases = sink.spans
    assert (root.error, root.attributes["cotenant.result"]) == ("Timeout: not complete", "failed")
    begun_s = steps[-1][1] if steps else 100.0
    last = phases[-1]
    assert (last.name, last.start_s, last.end_s, last.error) == (failed, begun_s, 400.0, root.error)
    assert [phase.error for phase in phases[:-1]] == [""] * len(steps)


def test_a_round_says_what_it_found() -> None:
    sink = Sink()
    plan = MovePlan((), (KeptPod("shop/web", "a", "it may not move", ""),), (), 2, 9, (), 0, ())
    MoveSpans(sink).planned(plan, 10.0, 11.0, 13.0, 13.5, 0)
    assert sink.times() == {
        "plan round": (10.0, 13.5),
        "read workloads": (10.0, 11.0),
        "simulate": (11.0, 13.0),
        "start": (13.0, 13.5),
    }
    said = {"cotenant.nodes": 2, "cotenant.pods": 9, "cotenant.kept": 1, "cotenant.result": "nothing to move"}
    assert said.items() <= sink.spans[0].attributes.items()
