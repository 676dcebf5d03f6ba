"""What a manager learned goes into a ConfigMap, and what others learned comes from it, for as long as it counts."""

from __future__ import annotations

import asyncio
from math import pi, sin
from typing import Any

import msgspec
import pytest
from tests.fakes.shared_use import use_evidence

from cotenant.drivers.kube.client.errors import Unavailable
from cotenant.drivers.kube.kinds.shared_predictions import LEARNED, OTHERS, OthersUse, evidence_text, read_learned
from cotenant.engine.manager.predicting import SHARED_LABEL, NodePrediction
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.qos import PriorityClass
from cotenant.policy.overcommit.peak import MeasuredPodUse
from cotenant.services.manager.shared_predictions import SharedPredictions

BEGIN_S = 480_000 * 3600.0
SHARED = Labels.of({SHARED_LABEL: "web"})


class Stored:
    """The ConfigMap."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}
        self.is_away = False
        self.writes = 0

    async def read(self) -> dict[str, str]:
        if self.is_away:
            raise Unavailable("away")
        return dict(self.data)

    async def write(self, key: str, text: str | None) -> None:
        self.writes += 1
        if text is None:
            self.data.pop(key, None)
        else:
            self.data[key] = text


class World:
    """A manager's predictions."""

    def __init__(self) -> None:
        self.stored, self.prediction = Stored(), NodePrediction()
        self.now_s, self.leads = BEGIN_S, True
        stored: Any = self.stored
        self.shared = SharedPredictions(stored, self.prediction, lambda: self.leads, lambda: self.now_s)

    def look(self) -> None:
        asyncio.run(self.shared.look())

    def others(self, until_s: float) -> None:
        found = OthersUse(until_s, (use_evidence("web.batch-cpu"), use_evidence("unknown.batch-cpu")))
        self.stored.data[OTHERS] = msgspec.json.encode(found).decode()

    def hours(self, count: int, labels: Labels = SHARED, nodes: int = 5) -> None:
        for _ in range(count):
            for at in range(nodes):
                use = round(4000 + 2000 * sin(self.now_s / 3600 / 12 * pi) + 50 * (self.now_s // 3600 % 5) + 10 * at)
                pods = {"a": MeasuredPodUse(PriorityClass.PROD, 9000, use)}
                self.prediction.learn(f"n{at}", labels, "kubernetes.io/batch-cpu", pods, 10_000, self.now_s)
            self.now_s += 3600.0

    def is_predicted(self) -> bool:
        pods = {"a": MeasuredPodUse(PriorityClass.PROD, 9000, 4000)}
        found = self.prediction.amount("n0", "kubernetes.io/batch-cpu", pods, 10_000, 0, 0.05, None, self.now_s)
        return found is not None


def test_a_new_cluster_predicts_after_an_hour_by_what_others_learned_until_that_expires() -> None:
    world = World()
    world.hours(2)
    assert not world.is_predicted()
    world.others(world.now_s + 100.0)
    world.look()
    assert world.is_predicted()
    world.now_s += 101.0
    world.look()
    assert not world.is_predicted()


def test_what_comes_before_the_first_node_counts_from_the_first_look_after_it() -> None:
    world = World()
    world.others(BEGIN_S + 1e6)
    world.look()
    world.hours(2)
    world.look()
    assert world.is_predicted()


@pytest.mark.slow
def test_what_was_learned_is_written_by_the_leader_once_and_only_a_name_before() -> None:
    world = World()
    world.leads = False
    world.hours(2)
    world.look()
    assert world.stored.data == {}
    world.leads = True
    world.look()
    assert [(one.name, one.hours) for one in read_learned(world.stored.data)] == [("web.batch-cpu", 0)]
    world.hours(4 * 24)
    world.look()
    world.look()
    assert world.stored.writes == 2
    (found,) = read_learned(world.stored.data)
    assert found.hours > 300
    assert max(found.day_ppm) > 100_000


def test_nodes_without_the_label_are_not_written_of() -> None:
    world = World()
    world.hours(3, Labels.of({"node.kubernetes.io/instance-type": "m5"}))
    world.look()
    assert world.stored.writes == 0


@pytest.mark.parametrize("text", ["[", '{"until_s":1e12,"predictions":[["x",5]]}', "7"])
def test_what_cannot_be_read_counts_no_more_and_breaks_nothing(text: str) -> None:
    world = World()
    world.hours(2)
    world.others(world.now_s + 1e6)
    world.look()
    assert world.is_predicted()
    world.stored.data[OTHERS] = text
    world.look()
    assert not world.is_predicted()


def test_a_server_that_is_away_takes_others_away_too() -> None:
    """They may have expired meanwhile."""
    world = World()
    world.hours(2)
    world.others(world.now_s + 1e6)
    world.look()
    world.stored.is_away = True
    world.look()
    assert not world.is_predicted()
    world.stored.is_away = False
    world.look()
    assert world.is_predicted()


def test_the_text_is_what_is_read() -> None:
    found = (use_evidence(),)
    assert read_learned({LEARNED: evidence_text(found)}) == found
