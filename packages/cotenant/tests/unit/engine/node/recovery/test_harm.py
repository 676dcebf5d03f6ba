"""What incidents cost, and the verdicts on their culprits."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from tests.fakes.node.troubled_node import SECOND_US, TroubledNode

from cotenant.engine.node.recovery.harm import Harm, harms
from cotenant.engine.node.recovery.policy import RecoveryMemory, decide
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.engine.node.recovery.stages import IncidentStage, RecoveryRung
from cotenant.model.machine.replica_signal import MaxAction
from cotenant.policy.credit.pricing import CauseVerdict

SETTINGS = RecoverySettings(
    max_action=MaxAction.IDLE, lease_us=10 * SECOND_US, after_us=5 * SECOND_US, cleared_us=30 * SECOND_US
)


def verdicts(seconds: int, settings: RecoverySettings = SETTINGS, **planted: Any) -> list[tuple[Harm, IncidentStage]]:
    """Every change of a verdict in a run, with the incident's stage."""
    node, memory = TroubledNode(Random(3), **({"guilty": "b"} | planted)), RecoveryMemory()
    last: dict[tuple[int, str], CauseVerdict] = {}
    found = []
    for _ in range(seconds):
        state = node.second()
        verdict, memory = decide(state, settings, memory)
        node.obey(verdict)
        stages = {incident.number: incident.stage for incident in (*memory.ended, *memory.incidents)}
        for harm in harms(memory, state):
            if last.get((harm.number, harm.culprit)) is not harm.verdict:
                last[harm.number, harm.culprit] = harm.verdict
                found.append((harm, stages[harm.number]))
    return found


def test_a_culprit_whose_limit_helped_is_proven_with_the_victims_loss() -> None:
    harm, stage = verdicts(60)[0]
    assert (harm.culprit, harm.victim, harm.verdict, stage) == (
        "batch/b",
        "shop/web",
        CauseVerdict.PROVEN,
        IncidentStage.HOLDING,
    )
    assert harm.confidence_ppm >= 600_000
    assert harm.objective_missed
    assert harm.level_ppm > harm.threshold_ppm
    assert 0 < harm.lasted_us <= 15 * SECOND_US


def test_a_culprit_whose_limit_did_not_help_is_cleared_and_costs_nothing_before() -> None:
    found = [(harm.culprit, harm.verdict) for harm, _ in verdicts(60, stays_slow=True)]
    assert found[0] == ("batch/b", CauseVerdict.CLEARED)
    assert CauseVerdict.PROVEN not in [verdict for _, verdict in found]


def test_a_culprit_whose_limit_improved_the_service_is_proven_though_no_stronger_one_is_permitted() -> None:
    settings = replace(SETTINGS, rungs=(RecoveryRung.TIGHTEN, RecoveryRung.CAP))
    assert [harm.verdict for harm, _ in verdicts(50, settings, harm=6.0)][:1] == [CauseVerdict.PROVEN]


def test_what_may_not_be_limited_is_attributed_when_the_incident_ends() -> None:
    watched = replace(SETTINGS, max_action=MaxAction.OBSERVE)
    assert [(harm.verdict, stage) for harm, stage in verdicts(60, watched)] == [
        (CauseVerdict.ATTRIBUTED, IncidentStage.RECOVERED)
    ]


def test_trouble_of_its_own_has_no_culprit() -> None:
    assert verdicts(60, guilty=None, load_growth=3.0) == []


def test_the_loss_is_the_share_above_the_threshold_of_what_the_victim_has() -> None:
    node, memory = TroubledNode(Random(3), guilty="b"), RecoveryMemory()
    while True:
        state = node.second()
        verdict, memory = decide(state, SETTINGS, memory)
        node.obey(verdict)
        if found := harms(memory, state):
            break
    (harm,) = found
    cpu_m = next(pod.use.cpu_m or 0 for pod in state.pods if pod.pod.name == "web")
    exact = cpu_m * harm.lasted_us / 3.6e9 * (1 - harm.threshold_ppm / harm.level_ppm)
    assert exact - 1 <= harm.milli_core_hours <= exact
