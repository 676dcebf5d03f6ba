"""The pods of a workload as one candidate, an earlier trouble, and causes that are no pod and not certain."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.fakes.node.job_of_pods import WORKLOAD, as_job
from tests.fakes.node.troubled_node import OBJECTIVE_US, TroubledNode

from cotenant.model.machine.node_state import PPM, NodeState
from cotenant.policy.interference.attribution.answer import Attribution
from cotenant.policy.interference.attribution.attribute import attribute
from cotenant.policy.interference.attribution.causes import TroubleCause
from cotenant.policy.interference.attribution.samples import NodeSamples, extended
from cotenant.policy.interference.attribution.settings import AttributionSettings

CONFIG = AttributionSettings()


def answer_to(states: list[NodeState]) -> Attribution:
    history = NodeSamples()
    for state in states:
        history = extended(history, state, CONFIG)
    found = attribute(history, states[-1], states[-1].pods[0], CONFIG)
    assert found is not None
    return found


def missed(state: NodeState, times: float) -> NodeState:
    """Its service's latency at so many times the objective."""
    service, *others = state.pods
    assert service.health is not None
    health = replace(service.health, p99_us=round(OBJECTIVE_US * times))
    return replace(state, pods=(replace(service, health=health), *others))


@pytest.mark.parametrize("probe", [False, True])
def test_pods_of_one_job_that_start_together_are_named_together(probe: bool) -> None:
    states = [as_job(state, "b") for state in TroubledNode(Random(3), guilty="b", probe=probe).states(30)]
    found = answer_to(states)
    assert found.cause is TroubleCause.POD
    assert found.culprit is not None
    assert (found.culprit.workload, found.culprit.identity) == (WORKLOAD, WORKLOAD)
    assert found.culprit.name in {f"batch/b-{number}" for number in range(4)}
    assert f"caused by {WORKLOAD}, confidence 0." in found.reason.text
    alone = [
        replace(state, pods=tuple(replace(one, pod=replace(one.pod, workload="")) for one in state.pods))
        for state in states
    ]
    assert answer_to(alone).culprit is None


def test_a_job_whose_pods_are_replaced_each_second_is_named_by_those_that_are_here() -> None:
    states = []
    for number, state in enumerate(TroubledNode(Random(3), guilty="b", probe=False).states(30)):
        renewed = tuple(
            replace(one, pod=replace(one.pod, uid=f"{one.pod.uid}-{number}", workload=WORKLOAD))
            if one.pod.name == "b"
            else one
            for one in state.pods
        )
        states.append(replace(state, pods=renewed))
    found = answer_to(states)
    assert found.culprit is not None
    assert (found.culprit.workload, found.culprit.uid) == (WORKLOAD, "uid-b-29")


def test_one_pod_of_a_job_that_is_the_cause_by_itself_is_named_itself() -> None:
    states = [
        replace(
            state,
            pods=tuple(
                replace(one, pod=replace(one.pod, workload=WORKLOAD)) if one.pod.best_effort else one
                for one in state.pods
            ),
        )
        for state in TroubledNode(Random(3), guilty="b").states(30)
    ]
    found = answer_to(states)
    assert found.culprit is not None
    assert (found.culprit.name, found.culprit.workload, found.culprit.owner) == ("batch/b", "", WORKLOAD)
    assert f"caused by batch/b of {WORKLOAD}, confidence" in found.reason.text


def test_a_cause_that_is_no_pod_is_named_only_where_it_is_certain() -> None:
    quiet = list(TroubledNode(Random(3), probe=False).states(26))
    noisy = Random(1)
    for at in range(20, 26):
        busy = replace(quiet[at].host, cpu_m=(quiet[at].host.cpu_m or 0) + noisy.choice((0, 5)))
        quiet[at] = missed(replace(quiet[at], host=busy), 2.0)
    found = answer_to(quiet)
    assert found.candidates[0].confidence_ppm < CONFIG.min_confidence_ppm
    assert found.cause is TroubleCause.UNKNOWN
    assert "no cause is certain" in found.reason.text


def test_who_was_absent_from_an_earlier_trouble_is_named_for_this_one() -> None:
    states = list(TroubledNode(Random(3), guilty="b", probe=False).states(27))
    for at in range(6):
        states[at] = missed(states[at], 2.0)
    found = answer_to(states)
    assert found.culprit is not None
    assert found.culprit.name == "batch/b"


@pytest.mark.parametrize(("objective", "named"), [(True, True), (False, False)])
def test_waiting_at_the_start_hides_no_later_waiting_where_requests_tell_what_is_calm(
    objective: bool, named: bool
) -> None:
    """A service that starts under load waits far more than ever after: its usual level is of no use for a minute."""
    states = [
        as_job(node_state, "b")
        for node_state in TroubledNode(Random(3), guilty="b", probe=False, latency=objective).states(36)
    ]
    for number, state in enumerate(states):
        service, *others = state.pods
        use = replace(service.use, cpi_milli=None, cpu_stall_ppm=None)
        service = replace(service, use=use)
        if number < 5:  # before its first requests
            service = replace(service, use=replace(use, run_delay_ppm=PPM), health=None)
        states[number] = replace(state, pods=(service, *others))
    history = NodeSamples()
    for state in states:
        history = extended(history, state, CONFIG)
    found = attribute(history, states[-1], states[-1].pods[0], CONFIG)
    assert (found is not None and found.culprit is not None and found.culprit.workload == WORKLOAD) is named
