"""Koordinator's sub-priority orders pods of equal priority in the queue."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.engine.rules.test_devices import cluster, decided, gpus, pod

from cotenant.engine.cycle.ordering import in_order
from cotenant.engine.cycle.queue import rank
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import QueuedGroup
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.resources import NVIDIA_GPU
from cotenant.policy.placement.codes import Order
from cotenant.policy.placement.profiles import profile


def one(name: str, sub_priority: int, priority: int = 0, created_s: float = 0.0) -> ObservedPod:
    made = pod(name, {NVIDIA_GPU: 1}, priority=priority)
    return replace(made, pod=replace(made.pod, sub_priority=sub_priority), created_s=created_s)


@pytest.mark.parametrize(
    ("first", "second", "wins"), [((0, 0), (0, 5), "late"), ((0, -1), (0, 0), "late"), ((1, 0), (0, 9), "early")]
)
def test_priority_first_then_sub_priority_then_age(first: tuple[int, int], second: tuple[int, int], wins: str) -> None:
    c = cluster("a")
    c.plugins.devices.seen(gpus("a", 1))
    c.pod_seen(one("early", first[1], first[0], created_s=1.0), 2.0)
    c.pod_seen(one("late", second[1], second[0], created_s=2.0), 2.0)
    assert list(decided(c, 2.0)) == [wins]


def test_an_order_by_slack_keeps_sub_priority_first() -> None:
    by_slack = profile("cotenant")
    assert by_slack.order is Order.SLACK
    encoder = Encoder(4.0)
    pairs = []
    for seen in (one("low", 0), one("high", 1)):
        number, shape = encoder.add_pod(seen.pod)
        pairs.append((PodInfo(seen, number=number, shape=shape), QueuedGroup("x", 0, shape)))
    found = in_order(pairs, by_slack, encoder.shapes(), 0.0)
    assert [entry.seen.pod.name for entry, _ in found] == ["high", "low"]


def test_the_rank_is_lower_for_a_higher_sub_priority() -> None:
    assert rank(one("x", 3), profile("first-fit")) < rank(one("y", 2), profile("first-fit"))
