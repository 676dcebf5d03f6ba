"""The search for antagonists over many nodes: the antagonist is named, and other pods are left alone, for any input."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.node.shared_node import GUESTS, SharedNode
from tests.property.few import examples, first_cases

from cotenant.model.machine.knob import Knob
from cotenant.model.machine.node_state import PPM
from cotenant.policy.interference.antagonist import CauseHistory, decide
from cotenant.policy.interference.correlation import score_ppm
from cotenant.policy.interference.settings import MAX_SLICES, InterferenceSettings, SuspectSignal, VictimSignal

SEEDS = range(25)
LEARNING_S = 6000  # a hundred samples, one a minute
HALF_HOUR_S = 1800
SIGNALS = [SuspectSignal.CPU, SuspectSignal.BLAME]


def learned(random: Random, config: InterferenceSettings) -> CauseHistory:
    memory = CauseHistory()
    for state in SharedNode(random, None).states(LEARNING_S):
        _, memory = decide(state, config, memory)
    return memory


def capped(node: SharedNode, config: InterferenceSettings, memory: CauseHistory) -> list[str]:
    """The pods capped in half an hour of this node, in order."""
    names = []
    for state in node.states(HALF_HOUR_S, LEARNING_S):
        before = {cap.uid for cap in memory.caps.active}
        _, memory = decide(state, config, memory)
        names += [cap.uid for cap in memory.caps.active if cap.uid not in before]
    return names


@pytest.mark.slow
@pytest.mark.parametrize("signal", SIGNALS)
def test_the_antagonist_among_four_of_equal_mean_is_capped_first(signal: SuspectSignal) -> None:
    config = InterferenceSettings(victim_signal=VictimSignal.CPI, suspect_signal=signal)
    right = 0
    for seed in SEEDS:
        random = Random(seed)
        guilty = random.randrange(GUESTS)
        names = capped(SharedNode(random, guilty), config, learned(random, config))
        right += bool(names) and names[0] == f"uid-guest-{guilty}"
    assert right >= 0.9 * len(SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("signal", SIGNALS)
def test_without_interference_at_most_one_cap_in_ten_hours(signal: SuspectSignal) -> None:
    config = InterferenceSettings(victim_signal=VictimSignal.CPI, suspect_signal=signal)
    caps = 0
    for seed in SEEDS:
        random = Random(seed)
        caps += len(capped(SharedNode(random, None), config, learned(random, config)))
    assert caps <= len(SEEDS) * HALF_HOUR_S / 3600 / 10


@pytest.mark.slow
@pytest.mark.parametrize("signal", SIGNALS)
def test_a_service_throttled_by_its_own_quota_has_no_antagonist(signal: SuspectSignal) -> None:
    """On the same nodes on which the antagonist is found."""
    config = InterferenceSettings(victim_signal=VictimSignal.CPI, suspect_signal=signal)
    for seed in SEEDS:
        random = Random(seed)
        node = SharedNode(random, random.randrange(GUESTS), throttled_ppm=400_000)
        assert capped(node, config, learned(random, config)) == []


pairs = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=MAX_SLICES)


@given(pairs, st.integers(1, 10**9))
def test_a_score_lies_between_minus_one_and_one(points: list[tuple[int, int]], threshold: int) -> None:
    score = score_ppm(points, threshold)
    assert (score is None) == (sum(amount for _, amount in points) == 0)
    assert score is None or -PPM <= score <= PPM


@given(pairs, st.integers(1, 10**9), st.integers(1, 1000))
def test_a_score_does_not_depend_on_the_unit_of_activity(
    points: list[tuple[int, int]], threshold: int, unit: int
) -> None:
    score = score_ppm(points, threshold)
    scaled = score_ppm([(level, amount * unit) for level, amount in points], threshold)
    assert score is None or (scaled is not None and abs(scaled - score) <= len(points) + 1)


@pytest.mark.slow
@settings(max_examples=examples(30), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    guilty=st.none() | st.integers(0, GUESTS - 1),
    every_s=st.sampled_from([1, 5, 10, 60]),
    signal=st.sampled_from(SIGNALS),
    threshold=st.none() | st.integers(1, 3 * PPM),
)
def test_only_best_effort_pods_are_capped_and_memory_stays_bounded(
    seed: int, guilty: int | None, every_s: int, signal: SuspectSignal, threshold: int | None
) -> None:
    config = InterferenceSettings(
        victim_signal=VictimSignal.CPI,
        suspect_signal=signal,
        every_us=every_s * 1_000_000,
        sample_us=min(every_s, 10) * 1_000_000,
        window_us=every_s * 10_000_000,
        threshold_ppm=threshold,
    )
    node = SharedNode(Random(seed), guilty, step_s=1)
    memory = again = CauseHistory()
    for state in node.states(120):
        verdict, memory = decide(state, config, memory)
        repeated, again = decide(state, config, again)
        assert (verdict, memory) == (repeated, again)
        assert verdict.reasons
        assert all(wish.target.group.startswith("pods/guest-") for wish in verdict.knobs)
        assert all(wish.target.knob is Knob.CPU_MAX for wish in verdict.knobs)
        assert len({wish.target for wish in verdict.knobs}) == len(verdict.knobs)
    assert len(memory.series.slices) <= 11
    assert len(memory.series.taken) <= 10


test_first_cases = first_cases(
    test_only_best_effort_pods_are_capped_and_memory_stays_bounded,
    most=3,
)
