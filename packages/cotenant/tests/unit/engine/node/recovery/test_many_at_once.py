"""Many services in trouble at once: how many causes one sample asks for, and that each has its turn."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.unit.engine.node.recovery.test_ladder import Run

from cotenant.engine.node.recovery import facts
from cotenant.engine.node.recovery.policy import MOST_ASKED
from cotenant.model.machine.node_state import NodeState, PodUse
from cotenant.policy.interference.attribution.answer import Attribution
from cotenant.policy.interference.attribution.attribute import attribute
from cotenant.policy.interference.attribution.causes import TroubleCause
from cotenant.policy.interference.attribution.samples import NodeSamples
from cotenant.policy.interference.attribution.settings import AttributionSettings

MANY = 11


def crowded(state: NodeState) -> NodeState:
    """The service and others that suffer as it does."""
    web, *others = state.pods
    like = (
        replace(web, pod=replace(web.pod, uid=f"uid-web-{i}", name=f"web-{i}", group=f"pods/web-{i}"))
        for i in range(MANY - 1)
    )
    return replace(state, pods=(web, *like, *others))


def test_a_sample_asks_for_few_causes_and_each_service_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cause takes 70 to 170 ms on a node of 250 pods: for all of them in each second there is no time."""
    asked: list[tuple[int, str]] = []

    def told(
        history: NodeSamples,
        state: NodeState,
        victim: PodUse,
        settings: AttributionSettings,
        since_us: int | None = None,
    ) -> Attribution | None:
        asked.append((state.at_us, victim.pod.uid))
        found = attribute(history, state, victim, settings, since_us)
        return None if found is None else replace(found, cause=TroubleCause.UNKNOWN, culprit=None)

    monkeypatch.setattr(facts, "attribute", told)
    run = Run(from_s=20, probe=False, always_on=True)
    run.change = crowded
    run.seconds(60)
    assert len(run.memory.incidents) == MANY
    assert [one.number for one in run.memory.incidents] == sorted(one.number for one in run.memory.incidents)
    assert max(Counter(at_us for at_us, _ in asked).values()) == MOST_ASKED
    by_service: dict[str, list[int]] = {}
    for at_us, uid in asked:
        by_service.setdefault(uid, []).append(at_us)
    assert len(by_service) == MANY
    first_us = asked[0][0]
    for times in by_service.values():
        assert times[0] - first_us <= 3_000_000
        assert all(later - earlier <= 10_000_000 for earlier, later in pairwise(times))
