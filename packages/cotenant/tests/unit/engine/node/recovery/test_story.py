"""The story of an incident: each cause stands with the actions that were taken for it, and what was found since is told
as such.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import pytest
from tests.unit.engine.node.recovery.test_ladder import SECOND_US, SETTINGS, Run

from cotenant.engine.node.recovery.harm import harms
from cotenant.engine.node.recovery.stages import IncidentStage, RecoveryRung
from cotenant.engine.node.recovery.story import IncidentStory, Link, story
from cotenant.model.machine.node_state import NodeState
from cotenant.services.reporting.stories import MAX_BYTES, StoryReport, decode, encode


def told(run: Run) -> IncidentStory:
    state = run.node.second()
    found = story("shop/web", "n", state, run.memory, state.at_us)
    assert found is not None
    incident = next(incident for incident in found.incidents if run.newest and incident.number == run.newest.number)
    assert "\n".join(f"  {link.link:<9} {link.text}" for link in incident.chain) in "\n".join(found.text)
    return incident


def links(chain: tuple[Link, ...]) -> list[str]:
    """Their kinds, the same one in a row once."""
    return [kind for kind, _ in groupby(link.link for link in chain)]


def texts(incident: IncidentStory, kind: str) -> list[str]:
    return [link.text for link in incident.chain if link.link == kind]


def test_stronger_actions_for_one_culprit_stand_under_one_cause_with_its_latest_figures() -> None:
    run = Run(harm=6.0)
    run.until(IncidentStage.ACTING, RecoveryRung.IDLE)
    incident = told(run)
    assert links(incident.chain) == ["objective", "burn", "victim", "cause", "evidence", "action", "recovery"]
    assert [text.split()[0] for text in texts(incident, "action")] == ["tighten", "cap", "idle"]
    (cause,) = texts(incident, "cause")
    assert f"caused by batch/b, confidence {incident.confidence_ppm / 1e6:.2f}" in cause
    assert incident.later == ""


def test_an_action_in_vain_keeps_its_cause_and_what_is_found_since_is_told_as_later() -> None:
    run = Run(stays_slow=True)
    run.until(IncidentStage.ACTING, RecoveryRung.IDLE)
    acted = told(run)
    run.until(IncidentStage.SUSPECTED)
    run.seconds(5)
    incident = told(run)
    assert (acted.cause, acted.culprit) == (incident.cause, incident.culprit) == ("pod", "batch/b")
    assert (incident.confidence_ppm, incident.candidates) == (acted.confidence_ppm, acted.candidates)
    assert texts(incident, "cause") == texts(acted, "cause")
    assert texts(incident, "later") == [incident.later] == ["no other cause is found"]
    assert links(incident.chain)[-3:] == ["action", "later", "recovery"]


def test_a_cause_of_the_services_own_found_after_an_action_does_not_take_its_place() -> None:
    run = Run(harm=6.0)
    run.until(IncidentStage.ACTING)
    run.node.throttled_ppm = 900_000
    run.until(IncidentStage.OWN)
    incident = told(run)
    assert (incident.cause, incident.culprit) == ("pod", "batch/b")
    assert "caused by batch/b" in texts(incident, "cause")[0]
    assert "its own quota" in incident.later


def test_each_of_two_culprits_stands_before_its_own_actions() -> None:
    run = Run(replace(SETTINGS, cleared_us=600 * SECOND_US), stays_slow=True)
    run.until(IncidentStage.ACTING)
    run.seconds(3)
    run.node.guilty, run.node.stays_slow = "c", False
    for _ in range(120):
        run.second()
        if run.newest is not None and [proof.culprit for proof in run.newest.proofs][-1:] == ["batch/c"]:
            break
    incident = told(run)
    assert incident.culprit == "batch/c"
    # the evidence that is kept is that of the last action
    assert links(incident.chain)[3:] == ["cause", "action", "cause", "evidence", "action", "recovery"]
    for kind in ("cause", "action"):
        named = ["batch/b" if "batch/b" in text else "batch/c" for text in texts(incident, kind)]
        assert named == sorted(named)
        assert set(named) == {"batch/b", "batch/c"}


def test_before_any_action_the_cause_is_the_latest_and_nothing_is_later() -> None:
    run = Run(guilty=None, throttled_ppm=400_000)
    run.until(IncidentStage.OWN)
    incident = told(run)
    assert "its own quota" in texts(incident, "cause")[0]
    assert (incident.culprit, incident.later) == ("", "")
    assert texts(incident, "action") == ["none"]


def test_harm_is_charged_with_the_confidence_that_was_acted_on() -> None:
    run = Run(replace(SETTINGS, after_us=60 * SECOND_US))
    acting = run.until(IncidentStage.HOLDING)
    assert acting.acted_on is not None
    assert acting.acted_on.culprit is not None
    run.until(IncidentStage.RELEASED)
    run.node.guilty, run.node.throttled_ppm = None, 400_000
    run.until(IncidentStage.OWN)
    (harm,) = harms(run.memory, run.node.second())
    assert harm.culprit == "batch/b"
    assert harm.confidence_ppm == acting.acted_on.culprit.confidence_ppm > 0


def test_a_story_of_many_actions_fits_a_report() -> None:
    run = Run(replace(SETTINGS, cleared_us=2 * SECOND_US, after_us=600 * SECOND_US), stays_slow=True)
    run.seconds(300)
    state = run.node.second()
    found = story("shop/web", "n", state, run.memory, state.at_us)
    assert found is not None
    body = encode(StoryReport("n", 0.0, found))
    assert len(body) < MAX_BYTES
    assert decode(body).story == found


@pytest.mark.parametrize(("requests", "age_s", "is_judged"), [(20, 0, True), (19, 0, False), (200, 16, False)])
def test_a_latency_that_is_not_judged_is_told_to_be_so(requests: int, age_s: int, is_judged: bool) -> None:
    """Of few requests a service's objective decides nothing, which nobody would guess from the p99 that is shown."""
    run = Run(guilty=None)

    def few(state: NodeState) -> NodeState:
        web = state.pods[0]
        assert web.health is not None
        health = replace(web.health, window_us=6 * SECOND_US, requests=requests, age_us=age_s * SECOND_US)
        return replace(state, pods=(replace(web, health=health), *state.pods[1:]))

    run.change = few
    run.seconds(5)
    state = few(run.node.second())
    found = story("shop/web", "n", state, run.memory, state.at_us)
    assert found is not None
    said = [line for line in found.text if "its latency is not judged" in line]
    assert said == (
        []
        if is_judged
        else [
            f"shop/web: its latency is not judged: {requests} requests in 6 s, measured {age_s} s ago, are too few or "
            "too old to tell it; trouble and recovery are told by what it waits for a CPU or a disk alone"
        ]
    )
    switched_off = story("shop/web", "n", state, None, state.at_us)
    assert switched_off is not None
    assert not any("not judged" in line for line in switched_off.text)
