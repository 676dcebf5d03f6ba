"""Attribution piece by piece: trouble, usual levels, the window, answers and their reasons."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.fakes.node.troubled_node import OBJECTIVE_US, SECOND_US, TroubledNode, service_pod

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_state import PPM, Alarm, GroupUse, NodeState
from cotenant.policy.interference.attribution.answer import Attribution
from cotenant.policy.interference.attribution.attribute import attribute
from cotenant.policy.interference.attribution.causes import TroubleCause
from cotenant.policy.interference.attribution.regression import nonnegative_fit
from cotenant.policy.interference.attribution.samples import NodeSamples, UsualLevel, extended
from cotenant.policy.interference.attribution.settings import AttributionSettings, EvidenceSignal

CONFIG = AttributionSettings()
WEB = "uid-web"


def history_of(states: list[NodeState], config: AttributionSettings = CONFIG) -> NodeSamples:
    history = NodeSamples()
    for state in states:
        history = extended(history, state, config)
    return history


def hurt(seconds: int = 26, **planted: object) -> tuple[list[NodeState], Attribution]:
    states = list(TroubledNode(Random(3), **({"guilty": "b"} | planted)).states(seconds))  # type: ignore[arg-type]
    history = history_of(states)
    assert history.in_trouble(WEB, CONFIG)
    answer = attribute(history, states[-1], states[-1].pods[0], CONFIG)
    assert answer is not None
    return states, answer


def test_the_answer_has_the_pod_its_confidence_and_the_evidence_of_each_signal() -> None:
    _, answer = hurt()
    assert answer.cause is TroubleCause.POD
    assert answer.culprit is not None
    assert answer.culprit.name == "batch/b"
    assert answer.culprit.confidence_ppm >= CONFIG.min_confidence_ppm
    assert {"blame", "latency", "run-delay"} <= {term.name for term in answer.culprit.evidence}
    assert "caused by batch/b, confidence 0." in answer.reason.text
    assert sum(candidate.confidence_ppm for candidate in answer.candidates) <= PPM + len(answer.candidates)
    assert [candidate.confidence_ppm for candidate in answer.candidates] == sorted(
        (candidate.confidence_ppm for candidate in answer.candidates), reverse=True
    )


def test_a_quota_of_its_own_excludes_every_pod() -> None:
    _, answer = hurt(throttled_ppm=300_000)
    assert answer.cause is TroubleCause.OWN_QUOTA
    assert answer.culprit is None
    assert "its own quota" in answer.reason.text


def test_a_calm_service_is_not_in_trouble_and_has_no_answer() -> None:
    states = list(TroubledNode(Random(1)).states(20))
    history = history_of(states)
    assert not history.in_trouble(WEB, CONFIG)
    assert (
        attribute(history, states[-1], states[-1].pods[0], replace(CONFIG, signals=(EvidenceSignal.LATENCY,))) is None
    )


def test_without_latency_and_probe_waiting_decides() -> None:
    states = list(TroubledNode(Random(3), guilty="b", latency=False, probe=False).states(30))
    history = history_of(states)
    assert history.deciding(WEB, CONFIG) in (EvidenceSignal.CPI, EvidenceSignal.RUN_DELAY)
    waiting = AttributionSettings(signals=(EvidenceSignal.RUN_DELAY,))
    assert history_of(states, waiting).deciding(WEB, waiting) is EvidenceSignal.RUN_DELAY


@pytest.mark.parametrize(
    ("waited_ms", "objective_us", "is_in_trouble"),
    [(10, None, False), (30, None, True), (10, OBJECTIVE_US, True)],
)
def test_a_helper_of_next_to_no_use_and_no_objective_is_in_no_trouble_for_a_moment_s_wait(
    waited_ms: int, objective_us: int | None, is_in_trouble: bool
) -> None:
    def waiting(state: NodeState) -> NodeState:
        web = state.pods[0]
        use = GroupUse(web.use.group, cpu_m=21, run_delay_ppm=waited_ms * 1000)
        pod = replace(web.pod, objective_p99_us=objective_us)
        return replace(state, pods=(replace(web, pod=pod, use=use, health=None), *state.pods[1:]), blame=None)

    states = [waiting(state) for state in TroubledNode(Random(1)).states(8)]
    assert history_of(states).in_trouble(WEB, CONFIG) is is_in_trouble


def test_a_service_without_any_signal_is_never_in_trouble() -> None:
    states = list(TroubledNode(Random(3), guilty="b", latency=False).states(30))
    assert not history_of(states, AttributionSettings(signals=(EvidenceSignal.LATENCY,))).in_trouble(
        WEB, AttributionSettings(signals=(EvidenceSignal.LATENCY,))
    )


def test_an_old_report_and_one_of_few_requests_are_not_used() -> None:
    state = next(TroubledNode(Random(3)).states(1))
    entry = state.pods[0]
    assert entry.health is not None
    for health in (
        replace(entry.health, age_us=16 * SECOND_US),
        replace(entry.health, requests=19, over_objective=0),
        None,
    ):
        changed = replace(state, pods=(replace(entry, health=health), *state.pods[1:]))
        levels = history_of([changed]).samples[-1].services[WEB].levels
        assert EvidenceSignal.LATENCY not in levels


def small(state: NodeState, requests: int, late: int) -> NodeState:
    """The same with few requests in each window, and nothing that it waited for."""
    web = state.pods[0]
    assert web.health is not None
    p99_us = 3 * OBJECTIVE_US if late else OBJECTIVE_US // 2
    health = replace(web.health, requests=requests, over_objective=late, p99_us=p99_us)
    use = replace(web.use, run_delay_ppm=0, cpu_stall_ppm=0, cpi_milli=None)
    return replace(state, pods=(replace(web, use=use, health=health), *state.pods[1:]), blame=None)


@pytest.mark.parametrize(
    ("requests", "late", "is_in_trouble"), [(19, 10, True), (19, 9, False), (5, 5, True), (4, 4, False), (19, 0, False)]
)
def test_a_window_of_few_requests_tells_of_trouble_where_most_were_late(
    requests: int, late: int, is_in_trouble: bool
) -> None:
    """A service that hardly answers any more has small windows just then: 16 of 16 late is no unknown latency."""
    history = history_of([small(state, requests, late) for state in TroubledNode(Random(3)).states(8)])
    assert history.in_trouble(WEB, CONFIG) is is_in_trouble
    levels = history.samples[-1].services[WEB].levels
    assert (EvidenceSignal.LATENCY in levels) is is_in_trouble
    counted = history.without_small_windows(WEB)
    assert not counted.in_trouble(WEB, CONFIG)
    assert EvidenceSignal.LATENCY not in counted.samples[-1].services[WEB].levels
    assert history.without_small_windows("uid-other") == history


def test_how_few_requests_tell_a_latency_is_a_setting_also_below_its_default() -> None:
    states = [small(state, 12, 1) for state in TroubledNode(Random(3)).states(8)]
    assert not history_of(states).in_trouble(WEB, CONFIG)
    fewer = replace(CONFIG, min_requests=12)
    assert history_of(states, fewer).in_trouble(WEB, fewer)
    assert not history_of(states, replace(CONFIG, min_requests=13)).in_trouble(WEB, CONFIG)


def test_who_is_named_by_what_it_waited_for_is_named_although_its_small_windows_name_nobody() -> None:
    """Late from before the pod came, by windows of few requests; it waited only once that ran."""
    states = list(TroubledNode(Random(3), guilty="b", from_s=26, probe=False).states(34))
    late = []
    for state in states:
        web = state.pods[0]
        assert web.health is not None
        is_late = state.at_us > 22 * SECOND_US
        few = replace(web.health, requests=12, over_objective=9 if is_late else 0, p99_us=3 * OBJECTIVE_US)
        use = replace(web.use, cpi_milli=None)
        late.append(replace(state, pods=(replace(web, use=use, health=few), *state.pods[1:])))
    history = history_of(late)
    answer = attribute(history, late[-1], late[-1].pods[0], CONFIG)
    assert answer is not None
    assert answer.culprit is not None
    assert answer.culprit.name == "batch/b"
    assert answer.signal is not EvidenceSignal.LATENCY
    by_latency = attribute(history, late[-1], late[-1].pods[0], CONFIG, 0)
    assert by_latency is not None
    assert by_latency.culprit is None


def test_a_service_whose_group_cannot_be_read_is_in_trouble_by_its_latency() -> None:
    states = [
        replace(state, pods=(replace(state.pods[0], use=GroupUse("pods/web")), *state.pods[1:]), blame=None)
        for state in TroubledNode(Random(3), throttled_ppm=400_000).states(30)
    ]
    history = history_of(states)
    assert history.in_trouble(WEB, CONFIG)
    answer = attribute(history, states[-1], states[-1].pods[0], CONFIG)
    assert answer is not None
    assert answer.culprit is None


def test_burn_is_of_the_requests_that_may_miss_the_objective() -> None:
    state = next(TroubledNode(Random(3)).states(1))
    entry = state.pods[0]
    assert entry.health is not None
    health = replace(entry.health, requests=1000, over_objective=144, p99_us=2 * OBJECTIVE_US)
    sample = history_of([replace(state, pods=(replace(entry, health=health), *state.pods[1:]))]).samples[-1]
    assert sample.services[WEB].burn_milli == 14_400
    assert sample.services[WEB].levels[EvidenceSignal.LATENCY] == 2 * PPM


def test_an_alarm_and_a_first_state_add_no_sample_and_a_clock_that_went_back_starts_anew() -> None:
    states = list(TroubledNode(Random(3)).states(5))
    history = history_of(states)
    assert len(history.samples) == 5
    alarmed = replace(states[-1], at_us=states[-1].at_us + 1, alarms=(Alarm(1, "", "cpu"),))
    assert extended(history, alarmed, CONFIG) is history
    assert extended(history, replace(states[-1], interval_us=0), CONFIG) is history
    assert len(extended(history, states[0], CONFIG).samples) == 1


def test_the_window_is_bounded_in_time() -> None:
    config = replace(CONFIG, window_us=10 * SECOND_US)
    assert len(history_of(list(TroubledNode(Random(3)).states(30)), config).samples) == 10


def test_the_usual_level_is_known_after_some_samples_and_does_not_learn_from_trouble() -> None:
    level = UsualLevel()
    for _ in range(9):
        level = level.with_level(1000)
    assert level.threshold_ppm(CONFIG) is None
    assert level.with_level(1000).threshold_ppm(CONFIG) == 1000
    states = list(TroubledNode(Random(3), guilty="b", harm=5.0).states(60))
    usual = history_of(states).usual[WEB, EvidenceSignal.RUN_DELAY]
    assert usual.mean < 400_000


def test_columns_that_cannot_be_distinguished_share_the_coefficient() -> None:
    column = [0.0, 1.0, 0.0, 1.0]
    one, other = nonnegative_fit([column, column], [0.0, 2.0, 0.0, 2.0])
    assert one == pytest.approx(other, rel=0.05)
    assert one + other == pytest.approx(2.0, rel=0.05)
    assert nonnegative_fit([[0.0, 0.0]], [1.0, 2.0]) == [0.0]


@pytest.mark.parametrize(
    "fields",
    [
        {"signals": ()},
        {"signals": (EvidenceSignal.BLAME,)},
        {"signals": (EvidenceSignal.CPI, EvidenceSignal.CPI)},
        {"window_us": 0},
        {"sigmas": -1},
        {"trouble_samples": 6},
        {"min_confidence_ppm": 1_000_001},
    ],
)
def test_impossible_settings_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        AttributionSettings(**fields)  # type: ignore[arg-type]


def with_fellow(state: NodeState, grows: float = 1.0) -> NodeState:
    """A second service that waits with the first one, and then uses more than any other pod: it polls meanwhile."""
    web = state.pods[0]
    assert web.health is not None
    late = max(0, web.health.p99_us - OBJECTIVE_US)
    requests = round(web.health.requests * (grows if late else 1.0))
    api = replace(
        web,
        pod=service_pod("api"),
        use=replace(web.use, group="pods/api", cpu_m=300 + min(3000, late // 15)),
        health=replace(web.health, requests=requests),
    )
    return replace(state, pods=(web, api, *state.pods[1:]))


def named(states: list[NodeState]) -> bool:
    answer = attribute(history_of(states), states[-1], states[-1].pods[0], CONFIG)
    return answer is not None and answer.culprit is not None and answer.culprit.name == "batch/b"


def test_a_fellow_sufferer_does_not_hide_the_cause() -> None:
    """Without the probe, which would tell. Of 12 nodes all name the cause where the service suffers alone."""
    nodes = [list(TroubledNode(Random(seed), guilty="b", probe=False, harm=6.0).states(36)) for seed in range(12)]
    assert sum(map(named, nodes)) == 12
    assert sum(named([with_fellow(state) for state in states]) for states in nodes) >= 11


def test_a_service_in_trouble_whose_requests_grew_is_a_candidate() -> None:
    states = [with_fellow(state, grows=2.0) for state in TroubledNode(Random(3), guilty="b", probe=False).states(40)]
    answer = attribute(history_of(states), states[-1], states[-1].pods[0], CONFIG)
    assert answer is not None
    assert "uid-api" in {candidate.uid for candidate in answer.candidates}


def scattered(states: list[NodeState], random: Random, by_ppm: int) -> list[NodeState]:
    """The same on a machine whose other work makes the service wait now and then, by up to `by_ppm` of its CPU time;
    of the signals of the CPU only its waiting is known.
    """
    found = []
    for state in states:
        web = state.pods[0]
        waited_ppm = (web.use.run_delay_ppm or 0) + round(by_ppm * random.random())
        use = replace(web.use, cpu_stall_ppm=None, cpi_milli=None, run_delay_ppm=waited_ppm)
        found.append(replace(state, pods=(replace(web, use=use), *state.pods[1:])))
    return found


@pytest.mark.parametrize("by_ppm", [0, 600_000])
def test_a_culprit_is_named_where_single_samples_scatter_as_widely_as_its_harm(by_ppm: int) -> None:
    right = wrong = 0
    for seed in range(4):
        states = list(TroubledNode(Random(seed), guilty="b", probe=False).states(40))
        busy = scattered(states, Random(seed), by_ppm)
        answer = attribute(history_of(busy), busy[-1], busy[-1].pods[0], CONFIG)
        if answer is not None and answer.culprit is not None:
            right += answer.culprit.name == "batch/b"
            wrong += answer.culprit.name != "batch/b"

    assert right == 4
    assert wrong == 0


def test_nobody_is_named_for_the_service_s_own_load_on_such_a_machine() -> None:
    for seed in range(6):
        states = list(TroubledNode(Random(seed), load_growth=2.6, probe=False).states(40))
        busy = scattered(states, Random(seed), 900_000)
        answer = attribute(history_of(busy), busy[-1], busy[-1].pods[0], CONFIG)
        assert answer is None or answer.culprit is None or answer.cause is not TroubleCause.POD
