"""The cause of a trouble that goes on while what causes it changes: sequences of seconds, asked after each.

A real node with cgroup v2 showed the first of them: containers are started, which is work outside the pods and takes
the service's CPU for twelve seconds; then what was started takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pytest
from tests.unit.policy.nodeqos.nodes import in_use, node

from cotenant.model.cluster.qos import QoSClass
from cotenant.policy.interference.attribution.answer import Attribution
from cotenant.policy.interference.attribution.attribute import attribute
from cotenant.policy.interference.attribution.causes import TroubleCause
from cotenant.policy.interference.attribution.samples import AttributionSample, NodeSamples, ServiceSample
from cotenant.policy.interference.attribution.settings import FLOORS_PPM, AttributionSettings, EvidenceSignal

SECOND = 1_000_000
SETTINGS = AttributionSettings()
WEB = in_use("web", 200)
PODS = (WEB, in_use("a", 500, QoSClass.BE), in_use("b", 400, QoSClass.BE))
A, B = "uid-a", "uid-b"
JOB = "Job ns/hogs"
# What the amounts of each second are multiplied by, in turn: no second is like the one before.
SCATTER = (1.0, 0.9, 1.15, 0.95, 1.1, 0.85, 1.05)


class Seconds(NamedTuple):
    """So many seconds, in which these use so much, milli-CPU; the service waits for all of them alike."""

    count: int
    outside: int = 0
    job: int = 0
    innocent: int = 0  # pod b; the service does not wait for it
    load: float = 1.0  # of its requests
    unseen: int = 0  # it waits for this, too, which nobody measures


CALM = Seconds(20)


def sequence(*parts: Seconds) -> NodeSamples:
    """Two pods of a Job, a and c, on one CPU with the service; its latency is of the last six seconds."""
    samples: list[AttributionSample] = []
    waits: list[float] = []
    seconds = [part for part in parts for _ in range(part.count)]
    for i, part in enumerate(seconds):
        outside, job = (amount * SCATTER[(i * step) % 7] for amount, step in ((part.outside, 3), (part.job, 2)))
        waits.append((0.05 + (outside + job + part.unseen) / 500) * SCATTER[(i * 5) % 7] * part.load**3)
        levels = {
            EvidenceSignal.LATENCY: round(FLOORS_PPM[EvidenceSignal.LATENCY] * 3 * max(waits[-6:])),
            EvidenceSignal.RUN_DELAY: round(FLOORS_PPM[EvidenceSignal.RUN_DELAY] * 4 * waits[-1]),
        }
        service = ServiceSample("uid-web", levels, 120, 0, round(10_000 * part.load), None, 6 * SECOND, 0)
        active = {A: round(job * 0.6), "uid-c": round(job * 0.4), B: part.innocent}
        samples.append(
            AttributionSample(
                at_us=(i + 1) * SECOND,
                length_us=SECOND,
                services={"uid-web": service},
                activity={uid: used for uid, used in active.items() if used},
                blame=None,
                outside_m=round(60 + outside),
                steal_ppm=0,
                workloads={A: JOB, "uid-c": JOB},
            )
        )
    return NodeSamples(tuple(samples))


def looks(history: NodeSamples, settings: AttributionSettings = SETTINGS) -> dict[int, Attribution]:
    """What is found after each second in which the service is in trouble."""
    found = {}
    for count in range(1, len(history.samples) + 1):
        window = NodeSamples(history.samples[max(0, count - 60) : count])
        if window.in_trouble("uid-web", settings):
            answer = attribute(window, node(PODS, at_s=count), WEB, settings)
            assert answer is not None
            found[count] = answer
    return found


def named(answers: Mapping[int, Attribution]) -> dict[int, str]:
    return {
        at: answer.culprit.workload or answer.culprit.owner or answer.culprit.name
        for at, answer in answers.items()
        if answer.culprit is not None
    }


GROWING = tuple(Seconds(2, outside=700 - 70 * i, job=80 * i) for i in range(10))


@pytest.mark.parametrize(
    "first",
    [Seconds(12, outside=800), Seconds(12, load=2.5)],
    ids=["work outside the pods", "its own load"],
)
@pytest.mark.parametrize("grows", [False, True])
def test_who_is_the_cause_after_another_one_is_named_once_it_has_been_for_some_seconds(
    first: Seconds, grows: bool
) -> None:
    middle = tuple(
        Seconds(2, first.outside * (9 - i) // 10, 80 * i, load=1 + (first.load - 1) * (9 - i) / 10) for i in range(10)
    )
    history = sequence(CALM, first, *(middle if grows else ()), Seconds(20, job=800))
    answers = looks(history)
    since = 20 + 12 + (20 if grows else 0)
    early = [answer.cause for at, answer in answers.items() if at <= 20 + 12]
    assert set(early) <= {TroubleCause.OUTSIDE, TroubleCause.OWN_LOAD, TroubleCause.UNKNOWN}
    assert early[-1] is (TroubleCause.OUTSIDE if first.outside else TroubleCause.OWN_LOAD)
    assert set(named(answers).values()) == {JOB}
    assert min(named(answers)) <= since + 12
    assert set(range(since + 12, len(history.samples) + 1)) <= set(named(answers))


def test_the_answer_says_of_which_part_of_the_trouble_it_is() -> None:
    answers = looks(sequence(CALM, Seconds(12, outside=800), Seconds(20, job=800)))
    last = answers[max(answers)]
    assert ", in the last 10 s: caused by " in last.reason.text
    assert last.since_us == (max(answers) - 9) * SECOND
    first = answers[min(answers)]
    assert ", in the last" not in first.reason.text
    assert first.since_us == 0


def test_who_has_stopped_is_not_named_for_what_another_goes_on_with() -> None:
    answers = looks(sequence(CALM, Seconds(12, job=800), Seconds(30, outside=800)))
    assert set(named(answers).values()) == {JOB}
    assert max(named(answers)) <= 20 + 12 + 10  # its last latency is of six seconds
    assert answers[max(answers)].cause is TroubleCause.OUTSIDE


def test_where_two_cause_it_all_the_time_nobody_is_named() -> None:
    assert not named(looks(sequence(CALM, Seconds(50, outside=400, job=400))))


@pytest.mark.parametrize("seconds", [2, 4, 5])
def test_where_it_is_now_one_and_now_the_other_nobody_is_named(seconds: int) -> None:
    turns = (Seconds(seconds, outside=800), Seconds(seconds, job=800)) * (40 // seconds // 2)
    late = {at: name for at, name in named(looks(sequence(CALM, *turns))).items() if at > 20 + 10}
    assert not late


@pytest.mark.parametrize(
    "last",
    [Seconds(30, outside=800, innocent=400), Seconds(30, outside=800, job=100)],
    ids=["one that runs beside it", "one that takes a part"],
)
def test_who_comes_while_the_cause_goes_on_is_not_named(last: Seconds) -> None:
    assert not named(looks(sequence(CALM, Seconds(20, outside=800), last)))


@pytest.mark.parametrize("seconds", [8, 14])
def test_who_comes_while_a_cause_goes_on_that_nobody_measures_is_not_named(seconds: int) -> None:
    """In the last seconds it was always there, and nothing else explains them; nothing explains those before either."""
    history = sequence(CALM, Seconds(seconds, unseen=800), Seconds(40 - seconds, unseen=800, innocent=600))
    assert not named(looks(history))


def test_an_innocent_that_is_left_when_the_cause_has_gone_is_not_named() -> None:
    """Latency goes on to be late for the length of its window."""
    assert not named(looks(sequence(CALM, Seconds(20, outside=800, innocent=300), Seconds(20, innocent=700))))


def test_a_few_late_samples_are_no_part_to_be_asked_by_themselves() -> None:
    history = sequence(CALM, Seconds(12, outside=800), Seconds(20, job=800))
    every_third = NodeSamples(tuple(replace(sample, length_us=3 * SECOND) for sample in history.samples[::3]))
    answers = looks(every_third)
    assert answers
    assert all(answer.since_us == 0 for answer in answers.values())


def test_without_such_a_part_the_whole_trouble_is_asked_as_it_was() -> None:
    """`recent_us` longer than the window: what was found before there was any such part."""
    answers = looks(
        sequence(CALM, Seconds(12, outside=800), Seconds(20, job=800)), replace(SETTINGS, recent_us=60 * SECOND)
    )
    assert not named(answers)


def test_alone_since_an_instant() -> None:
    history = sequence(CALM, Seconds(12, outside=800), Seconds(20, job=800))

    def since(at_s: int) -> Attribution:
        found = attribute(history, node(PODS, at_s=52), WEB, SETTINGS, at_s * SECOND)
        assert found is not None
        return found

    assert since(0).culprit is None
    assert since(40).culprit is not None
    assert since(40).since_us == 41 * SECOND
    assert attribute(history, node(PODS, at_s=52), WEB, SETTINGS, 60 * SECOND) is None
