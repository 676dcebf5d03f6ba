"""Answers word for word, from histories written down by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.policy.nodeqos.nodes import in_use, node

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.node_decision import DecisionTerm
from cotenant.model.machine.node_state import PodUse
from cotenant.model.resources import Amounts
from cotenant.policy.interference.attribution.answer import Attribution
from cotenant.policy.interference.attribution.attribute import attribute
from cotenant.policy.interference.attribution.causes import TroubleCause
from cotenant.policy.interference.attribution.samples import AttributionSample, NodeSamples, ServiceSample
from cotenant.policy.interference.attribution.settings import FLOORS_PPM, AttributionSettings, EvidenceSignal
from cotenant.policy.interference.series import BlameSample

SECOND = 1_000_000
SETTINGS = AttributionSettings()
WEB = in_use("web", 1000)
PODS = (WEB, in_use("a", 900, QoSClass.BE), in_use("b", 500, QoSClass.BE))
A, B = "uid-a", "uid-b"


def samples(
    bad: str,
    signals: Sequence[EvidenceSignal] = (EvidenceSignal.LATENCY,),
    activity: dict[str, Sequence[int]] | None = None,
    services: dict[str, Sequence[Any]] | None = None,
    by_sample: dict[str, Sequence[Any]] | None = None,
) -> NodeSamples:
    """`bad`: one letter a second, `x` in trouble; all signals are at twice their threshold then, else at half of it.
    `services` and `by_sample`: fields of the service and of the sample, one value a second.
    """
    found = []
    for i, letter in enumerate(bad):
        levels = {signal: FLOORS_PPM[signal] * 2 if letter == "x" else FLOORS_PPM[signal] // 2 for signal in signals}
        service = ServiceSample("uid-web", levels, 1000, 0)
        service = replace(service, **{name: values[i] for name, values in (services or {}).items()})
        active = {uid: used[i] for uid, used in (activity or {}).items() if used[i]}
        sample = AttributionSample((i + 1) * SECOND, SECOND, {"uid-web": service}, active, None, 0, 0)
        found.append(replace(sample, **{name: values[i] for name, values in (by_sample or {}).items()}))
    return NodeSamples(tuple(found))


def answer(
    history: NodeSamples, settings: AttributionSettings = SETTINGS, pods: tuple[PodUse, ...] = PODS
) -> Attribution:
    found = attribute(history, node(pods, at_s=9), WEB, settings)
    assert found is not None
    assert (found.victim, found.at_us) == ("uid-web", 9 * SECOND)
    return found


BAD = "....xxxx"
WITH_IT, ALWAYS, NEVER = (100,) * 4 + (900,) * 4, (500,) * 8, (0,) * 8


def test_who_became_active_with_the_trouble_and_made_it_wait_is_named() -> None:
    history = samples(BAD, (EvidenceSignal.LATENCY, EvidenceSignal.RUN_DELAY), {A: WITH_IT, B: ALWAYS})
    found = answer(history)
    assert found.cause is TroubleCause.POD
    assert found.culprit is not None
    assert (found.culprit.uid, found.culprit.name, found.culprit.workload) == (A, "ns/a", "")
    confidence = found.culprit.confidence_ppm
    assert confidence > 900_000
    assert found.reason.text.startswith("ns/web: ")
    assert found.reason.text.endswith(f"2.00, threshold 1.00: caused by ns/a, confidence {confidence / 1e6:.2f}")
    names = [term.name for term in found.reason.terms]
    assert names == ["signal", "threshold", "confidence", "latency", "run-delay", "growth of its demand"]
    values = {term.name: term.value for term in found.reason.terms}
    assert (values["signal"], values["threshold"], values["confidence"]) == (2_000_000, 1_000_000, confidence)
    assert values["growth of its demand"] == 0


def test_with_latency_alone_a_start_with_the_trouble_proves_nothing() -> None:
    waited = samples(BAD, (EvidenceSignal.LATENCY, EvidenceSignal.RUN_DELAY), {A: WITH_IT})
    assert answer(waited).cause is TroubleCause.POD
    found = answer(samples(BAD, activity={A: WITH_IT}))
    assert (found.cause, found.culprit, found.candidates[0].uid) == (TroubleCause.UNKNOWN, None, A)
    often = ".xx.xx.xx.xx"
    again = samples(often, activity={A: [100 + 800 * (letter == "x") for letter in often]})
    assert answer(again).cause is TroubleCause.POD
    assert answer(again, replace(SETTINGS, min_switches=7)).cause is TroubleCause.POD  # seven times on or off
    assert answer(again, replace(SETTINGS, min_switches=8)).cause is TroubleCause.UNKNOWN


def test_where_two_share_it_nobody_is_certain() -> None:
    history = samples(BAD, (EvidenceSignal.LATENCY, EvidenceSignal.RUN_DELAY), {A: WITH_IT, B: WITH_IT})
    found = answer(history)
    assert found.cause is TroubleCause.UNKNOWN
    first = found.candidates[0]
    assert found.reason.text.endswith(
        f"no cause is certain; first of 2 candidates is ns/a with {first.confidence_ppm / 1e6:.2f}"
    )
    assert [candidate.uid for candidate in found.candidates] == [A, B]


def blamed(*waits: dict[str, int]) -> list[dict[str, BlameSample]]:
    return [{"uid-web": BlameSample("uid-web", Amounts.of(by_pod), 0, 0)} for by_pod in waits]


@pytest.mark.parametrize(
    ("after", "is_named"),
    [(1_199_999, True), (1_200_000, False)],
)
def test_who_ran_meanwhile_is_named_without_a_rise_where_the_services_own_demand_is_as_before(
    after: int, is_named: bool
) -> None:
    waits = blamed(*[{A: 0}] * 4, *[{A: 300_000}] * 4)
    rates = (1_000_000,) * 4 + (after,) * 4
    history = samples(
        BAD, (EvidenceSignal.RUN_DELAY,), {A: ALWAYS}, services={"rate_milli": rates}, by_sample={"blame": waits}
    )
    settings = replace(SETTINGS, signals=(EvidenceSignal.RUN_DELAY, EvidenceSignal.BLAME), min_confidence_ppm=600_000)
    found = answer(history, settings)
    assert (found.cause is TroubleCause.POD) is is_named


@pytest.mark.parametrize(
    ("used", "is_named"),
    [
        ((100,) * 4 + (900,) * 4, True),
        ((1000,) * 4 + (1200,) * 4, True),  # a fifth more
        ((1000,) * 4 + (1199,) * 4, False),
        ((0,) * 4 + (20,) * 4, True),  # the least that counts
        ((0,) * 4 + (900, 900, 900, 0), True),  # absent from a quarter of the bad samples
        ((0,) * 4 + (900, 900, 0, 0), False),
    ],
)
def test_a_culprit_became_more_active_and_was_there(used: Sequence[int], is_named: bool) -> None:
    history = samples(BAD, (EvidenceSignal.RUN_DELAY,), {A: used})
    settings = replace(SETTINGS, min_confidence_ppm=0, min_lead_ppm=0)
    assert (answer(history, settings).cause is TroubleCause.POD) is is_named


@pytest.mark.parametrize(
    ("throttled", "share"),
    [((100_000,) * 4, 1_000_000), ((99_999,) * 4, None), ((0, 0, 0, 400_000), 250_000), ((0, 0, 0, 399_000), None)],
)
def test_its_own_quota_excludes_all_others(throttled: tuple[int, ...], share: int | None) -> None:
    history = samples(
        BAD,
        (EvidenceSignal.LATENCY, EvidenceSignal.RUN_DELAY),
        {A: WITH_IT},
        services={"throttled_ppm": (0,) * 4 + throttled},
    )
    found = answer(history)
    if share is None:
        assert found.cause is TroubleCause.POD
        return
    (candidate,) = found.candidates
    assert (found.cause, found.culprit, candidate.confidence_ppm) == (TroubleCause.OWN_QUOTA, None, share)
    assert found.reason.text.endswith(f"caused by its own quota, confidence {share / 1e6:.2f}")
    assert candidate.evidence == (DecisionTerm("throttled", sum(throttled) // 4, "ppm"),)


@pytest.mark.parametrize(("own", "share"), [(1_249_000, 501_000), (1_250_000, None), (400_000, 1_000_000)])
def test_where_its_own_time_explains_too_little_a_service_that_it_calls_is_the_cause(
    own: int, share: int | None
) -> None:
    levels = [
        {EvidenceSignal.LATENCY: 2_000_000 if i >= 4 else 500_000, EvidenceSignal.SELF_TIME: own if i >= 4 else 500_000}
        for i in range(8)
    ]
    found = answer(samples(BAD, activity={A: ALWAYS}, services={"levels": levels}))
    if share is None:
        assert found.cause is not TroubleCause.CALLEE
        return
    first = found.candidates[0]
    assert (found.cause, first.cause, found.culprit) == (TroubleCause.CALLEE, TroubleCause.CALLEE, None)
    assert first.confidence_ppm == pytest.approx(share, abs=600)
    assert first.evidence[0].value == 1_000_000 - first.confidence_ppm
    assert "caused by a service that it calls" in found.reason.text


def test_its_own_load_and_what_is_outside_the_pods() -> None:
    grown = samples(BAD, (EvidenceSignal.RUN_DELAY,), services={"rate_milli": (100,) * 4 + (500,) * 4})
    found = answer(grown)
    assert (found.cause, found.candidates[0].name) == (TroubleCause.OWN_LOAD, "its own load")
    outside = samples(BAD, (EvidenceSignal.RUN_DELAY,), by_sample={"outside_m": WITH_IT})
    found = answer(outside)
    assert (found.cause, found.candidates[0].name, found.culprit) == (
        TroubleCause.OUTSIDE,
        "work outside the pods",
        None,
    )
    unsure = answer(outside, replace(SETTINGS, min_confidence_ppm=1_000_000))
    assert unsure.cause is TroubleCause.UNKNOWN


def test_without_any_evidence() -> None:
    found = answer(samples(BAD, (EvidenceSignal.RUN_DELAY,)))
    assert (found.cause, found.candidates) == (TroubleCause.UNKNOWN, ())
    assert found.reason.text.endswith("no cause is certain")
    short = samples("..xx", (EvidenceSignal.LATENCY,))
    assert answer(short).cause is TroubleCause.UNKNOWN
    assert [term.name for term in answer(short).reason.terms] == ["signal", "threshold"]
    assert attribute(samples("........"), node(PODS), WEB, SETTINGS) is None


def test_pods_of_one_workload_are_one_candidate_where_none_of_them_is_certain() -> None:
    workloads = [{A: "Job ns/hogs", B: "Job ns/hogs"}] * 8
    turns = {A: (0,) * 4 + (900, 0, 900, 0), B: (0,) * 4 + (0, 800, 0, 800)}
    history = samples(BAD, (EvidenceSignal.RUN_DELAY,), turns, by_sample={"workloads": workloads})
    found = answer(history)
    assert found.cause is TroubleCause.POD
    assert found.culprit is not None
    assert (found.culprit.uid, found.culprit.workload, found.culprit.identity) == (A, "Job ns/hogs", "Job ns/hogs")
    assert "caused by Job ns/hogs, confidence" in found.reason.text
    alone = samples(BAD, (EvidenceSignal.RUN_DELAY,), {A: WITH_IT, B: NEVER}, by_sample={"workloads": workloads})
    culprit = answer(alone).culprit
    assert culprit is not None
    assert culprit.workload == ""


def test_by_its_use_of_disks() -> None:
    disk = [{A: (10 << 20) if i >= 4 else 1} for i in range(8)]
    history = samples(BAD, (EvidenceSignal.LATENCY, EvidenceSignal.IO_STALL), {A: NEVER}, by_sample={"disk": disk})
    found = answer(history)
    assert found.culprit is not None
    assert (found.culprit.uid, found.culprit.by_disk) == (A, True)
    assert "caused by ns/a by its use of disks, confidence" in found.reason.text
    waited = answer(samples(BAD, (EvidenceSignal.LATENCY, EvidenceSignal.RUN_DELAY), {A: WITH_IT})).culprit
    assert waited is not None
    assert not waited.by_disk
