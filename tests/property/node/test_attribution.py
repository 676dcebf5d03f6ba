"""Attribution over many simulated nodes: a planted culprit is named, and no pod is where the service's trouble has
another cause.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.node.troubled_node import TroubledNode
from tests.property.few import examples

from cotenant.policy.interference.attribution.answer import Attribution
from cotenant.policy.interference.attribution.attribute import attribute
from cotenant.policy.interference.attribution.causes import TroubleCause
from cotenant.policy.interference.attribution.regression import explained, nonnegative_fit
from cotenant.policy.interference.attribution.samples import NodeSamples, extended
from cotenant.policy.interference.attribution.settings import AttributionSettings, EvidenceSignal

SEEDS = range(25)
ALL = AttributionSettings()
NO_PROBE = AttributionSettings(signals=tuple(entry for entry in EvidenceSignal if entry is not EvidenceSignal.BLAME))
pytestmark = pytest.mark.slow


def answers(node: TroubledNode, config: AttributionSettings, seconds: int = 45) -> list[Attribution]:
    """The answer at each second in which the service is in trouble, until a pod is named."""
    history, found = NodeSamples(), []
    for state in node.states(seconds):
        history = extended(history, state, config)
        service = state.pods[0]
        if history.in_trouble(service.pod.uid, config):
            answer = attribute(history, state, service, config)
            assert answer is not None
            found.append(answer)
            if answer.culprit is not None:
                break
    return found


def first_named(
    config: AttributionSettings, seeds: range = SEEDS, seconds: int = 45, **planted: Any
) -> Counter[str | None]:
    """How often each pod was the first one named, over many nodes."""
    named: Counter[str | None] = Counter()
    for seed in seeds:
        found = answers(TroubledNode(Random(seed), **planted), config, seconds)
        culprit = found[-1].culprit if found else None
        named[culprit.name if culprit else None] += 1
    return named


@pytest.mark.parametrize("config", [ALL, NO_PROBE], ids=["all", "no-probe"])
def test_the_guilty_pod_is_named_first(config: AttributionSettings) -> None:
    assert first_named(config, guilty="b")["batch/b"] >= 0.9 * len(SEEDS)


@pytest.mark.parametrize("config", [ALL, NO_PROBE], ids=["all", "no-probe"])
@pytest.mark.parametrize(
    ("cause", "planted"),
    [
        (TroubleCause.OWN_LOAD, {"load_growth": 2.4}),
        (TroubleCause.OWN_LOAD, {"load_growth": 2.4, "always_on": True}),
        (TroubleCause.OWN_QUOTA, {"throttled_ppm": 400_000}),
        (TroubleCause.OWN_QUOTA, {"throttled_ppm": 400_000, "guilty": "b"}),
        (TroubleCause.CALLEE, {"callee_slow": 8.0, "spans": True}),
    ],
    ids=["own-load", "own-load-beside-busy-pods", "own-quota", "own-quota-beside-a-hog", "callee"],
)
def test_no_pod_is_named_for_trouble_of_the_services_own(
    config: AttributionSettings, cause: TroubleCause, planted: dict[str, Any]
) -> None:
    causes: Counter[TroubleCause] = Counter()
    for seed in SEEDS:
        for answer in answers(TroubledNode(Random(seed), **planted), config):
            assert answer.culprit is None, answer.reason.text
            causes[answer.cause] += 1
    assert causes.most_common(1)[0][0] is cause


def test_a_pod_that_slows_a_service_and_its_callee_is_named() -> None:
    named = first_named(ALL, range(10), guilty="b", callee_slow=8.0, spans=True)
    assert named["batch/b"] >= 8
    assert set(named) <= {"batch/b", None}


def test_a_slow_callee_without_spans_names_no_pod() -> None:
    assert first_named(ALL, range(8), callee_slow=8.0) == {None: 8}


def test_an_innocent_pod_that_is_mostly_active_with_the_guilty_one_is_not_named() -> None:
    named = first_named(ALL, guilty="b", together={"c": "b"})
    assert named.keys() <= {"batch/b", None}
    assert named["batch/b"] >= 0.9 * len(SEEDS)


def test_pods_that_are_always_active_together_are_told_apart_by_blame_only() -> None:
    same: dict[str, Any] = {"guilty": "b", "together": {"c": "b"}, "together_share": 1.0}
    assert first_named(ALL, range(8), **same)["batch/b"] == 8
    assert first_named(NO_PROBE, range(8), **same) == {None: 8}


def test_a_pod_that_slows_the_service_without_making_it_wait_is_named_by_cycles_per_instruction() -> None:
    named = first_named(ALL, guilty="b", cache=True)
    assert named.keys() <= {"batch/b", None}
    assert named["batch/b"] >= 0.8 * len(SEEDS)


@pytest.mark.parametrize("config", [ALL, NO_PROBE], ids=["all", "no-probe"])
@pytest.mark.parametrize("fellows", [1, 3])
def test_services_that_are_slowed_with_it_and_keep_their_objectives_are_not_named(
    config: AttributionSettings, fellows: int
) -> None:
    named = first_named(config, guilty="b", cache=True, fellows=fellows)
    assert named.keys() <= {"batch/b", None}
    assert named["batch/b"] >= 0.8 * len(SEEDS)


@pytest.mark.parametrize("signal", [EvidenceSignal.LATENCY, EvidenceSignal.RUN_DELAY])
def test_one_signal_alone_names_the_guilty_pod_or_none(signal: EvidenceSignal) -> None:
    """Latency alone takes longer: the pod must have come and gone with the trouble several times."""
    named = first_named(AttributionSettings(signals=(signal,)), range(5), 100, guilty="b")
    assert named.keys() <= {"batch/b", None}
    assert named["batch/b"] >= 3


def test_each_of_two_services_has_its_own_answer() -> None:
    """Two nodes' services on one node: one has a neighbour, one only its own load."""
    config = ALL
    for seed in range(6):
        hurt = TroubledNode(Random(seed), guilty="b", service="web")
        busy = TroubledNode(Random(seed + 100), load_growth=2.4, service="shop", suspects=())
        history = NodeSamples()
        found: dict[str, set[TroubleCause]] = {"uid-web": set(), "uid-shop": set()}
        for _ in range(40):
            one, other = hurt.second(), busy.second()
            state = one.__class__(
                one.at_us,
                one.interval_us,
                one.host,
                (*one.pods, *other.pods),
                blame=(*(one.blame or ()), *(other.blame or ())),
            )
            history = extended(history, state, config)
            for service in state.services:
                if history.in_trouble(service.pod.uid, config):
                    answer = attribute(history, state, service, config)
                    assert answer is not None
                    found[service.pod.uid].add(answer.cause)
        assert TroubleCause.POD in found["uid-web"]
        assert TroubleCause.POD not in found["uid-shop"]


columns = st.lists(st.lists(st.floats(-10, 10), min_size=6, max_size=6), min_size=1, max_size=5)


@given(columns, st.lists(st.floats(-10, 10), min_size=6, max_size=6))
@settings(deadline=None)
def test_a_fit_is_nonnegative_and_no_worse_than_none(given_columns: list[list[float]], target: list[float]) -> None:
    found = nonnegative_fit(given_columns, target)
    assert all(value >= 0 for value in found)
    assert 0.0 <= explained(given_columns, target, found) <= 1.0


@given(st.integers(0, 2**32), st.integers(1, 4))
@settings(deadline=None, max_examples=examples(50))
def test_a_fit_finds_the_coefficients_of_independent_columns(seed: int, count: int) -> None:
    random = Random(seed)
    given_columns = [[random.gauss(0, 1) for _ in range(60)] for _ in range(count)]
    wanted = [random.choice([0.0, 1.0, 3.0]) for _ in range(count)]
    target = [sum(w * column[at] for w, column in zip(wanted, given_columns, strict=True)) for at in range(60)]
    for value, want in zip(nonnegative_fit(given_columns, target), wanted, strict=True):
        assert abs(value - want) <= 0.25
