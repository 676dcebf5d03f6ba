"""A simulated node and the engine of its agent: the neighbour of `cotenant up` is named, limited, and the service proven recovered, in virtual time."""

from __future__ import annotations

from collections import deque
from math import ceil
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.recovery.story import ServiceStory, story
from cotenant.engine.node.settings import AgentSettings, Mode
from cotenant.lab.plant.keeping import PlantKeeper
from cotenant.lab.world.config import WorldConfig
from cotenant.lab.world.latency import tail
from cotenant.local.controllers.views.core import Pod
from cotenant.local.nodes.behaviour import behaviour_of, requests_of
from cotenant.local.nodes.observations import ReplicaQueue
from cotenant.local.nodes.world import LiveWorld
from cotenant.model.cluster.annotations import SIMULATED
from cotenant.model.machine.knob import Knob, Target
from cotenant.model.machine.node_state import ServiceHealth
from cotenant.services.up.simulated import agents, requests, shop
from cotenant.services.up.simulated.machine import BEST_EFFORT, ROOT, SimulatedMachine

GIB = 1 << 30
WINDOW_S = 9
OBJECTIVE_US = int(shop.OBJECTIVE_MS * 1000)


class Node:
    """One node with an agent, a second at a time. The requests of checkout are drawn as those that are sent as spans."""

    def __init__(self, seed: int) -> None:
        config = WorldConfig(node_cores=32, node_memory_bytes=128 * GIB, pair_cores=16.0)
        self.now_s = 0
        self.world = LiveWorld(config, 60.0, 0.0, seed)
        self.world.add_node("n")
        self.found: list[Pod] = []
        self.machine = SimulatedMachine(self.world, "n", lambda: self.found, lambda: float(self.now_s), self.now_us)
        self.keeper = PlantKeeper(self.machine, self.now_us)
        settings = AgentSettings(mode=Mode.ACT, policies=agents.POLICIES, roots=(ROOT,), best_effort_group=BEST_EFFORT)
        self.agent = Agent(settings, "n")
        self.agent.machine_seen(frozenset({Knob.CPU_MAX}))
        self.agent.leases_found((), 0)
        self.rng = np.random.default_rng(seed)
        self.took: deque[NDArray[np.float64]] = deque(maxlen=WINDOW_S)

    def now_us(self) -> int:
        return self.now_s * 1_000_000

    def add(self, template: dict[str, Any], name: str) -> str:
        raw = msgspec.json.encode(
            {**template, "metadata": {**template["metadata"], "name": name, "namespace": "x", "uid": name}}
        )
        pod = msgspec.json.decode(raw, type=Pod)
        behaviour, wrong = behaviour_of(pod, requests_of(pod))
        assert wrong == ""
        self.found.append(pod)
        self.world.start(name, "n", behaviour, float(self.now_s))
        return name

    async def discover(self) -> None:
        self.agent.pods_seen(await self.machine.pods(), self.now_us())

    def seconds_alone(self, count: int) -> None:
        """Without an agent."""
        for _ in range(count):
            self.now_s += 1
            self.world.advance(float(self.now_s))

    def second(self) -> None:
        self.now_s += 1
        self.world.advance(float(self.now_s))
        self.found = [pod for pod in self.found if self.world.knows(pod.metadata.uid)]
        with pytest.raises(StopIteration):
            self.discover().send(None)
        self._report()
        self.keeper.tick()
        values = {target: self.machine.read(target) for target in self.agent.knobs_to_read()}
        told = self.agent.sampled(self.machine.sample(self.agent.groups()), values, ())
        answers = (*self.keeper.give_back(told.give_back), *self.keeper.hold(told.hold))
        self.agent.answered(answers, self.now_us())

    def _report(self) -> None:
        queue = self.world.queue("checkout")
        if queue is None:
            return
        self.took.append(requests.drawn(queue, ceil(min(requests.MOST_EACH, queue.requests_per_s)), self.rng))
        took_us = np.concatenate(list(self.took)) * 1e6
        over = int((took_us > OBJECTIVE_US).sum())
        p99_us = int(np.quantile(took_us, 0.99))
        self.agent.health_reported(
            "checkout", ServiceHealth(WINDOW_S * 1_000_000, len(took_us), p99_us, over, 0), self.now_us()
        )

    def story(self) -> ServiceStory:
        memory, state = self.agent.recovery(), self.agent.state()
        assert memory is not None
        assert state is not None
        found = story("x/checkout", "n", state, memory, self.now_us())
        assert found is not None
        return found


def background(node: Node) -> None:
    service = {
        "service": "x/other",
        "workers": 4,
        "peak_erlangs": 2.0,
        "swing": 0.5,
        "sensitivity": 0.4,
        "pressure": 0.2,
    }
    for k in range(3):
        node.add(_pod({"cpu": "4"}, {**service, "service": f"x/other-{k}"}), f"other-{k}")
    for k in range(3):
        batch = {
            "use_cores": 3.0,
            "use_memory_bytes": GIB,
            "pressure": 0.2,
            "sensitivity": 0.2,
            "duration_s": 900.0 + 500 * k,
        }
        node.add(_pod({"cpu": "3"}, batch, "BE"), f"batch-{k}")


def _pod(amounts: dict[str, str], truth: dict[str, Any], qos: str = "LS") -> dict[str, Any]:
    annotations = {"cotenant.io/simulated": msgspec.json.encode(truth).decode(), "cotenant.io/objective-p99-ms": "900"}
    labels = {"koordinator.sh/qosClass": qos}
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "resources": {"requests": amounts}}]},
    }


def _alone(template: dict[str, Any]) -> dict[str, Any]:
    """The replica with its own share of the load, though the others are not here."""
    annotations = template["metadata"]["annotations"]
    truth = {**msgspec.json.decode(annotations[SIMULATED]), "replicas": 1}
    metadata = {**template["metadata"], "annotations": {**annotations, SIMULATED: msgspec.json.encode(truth).decode()}}
    return {**template, "metadata": metadata}


def seconds(node: Node, count: int) -> None:
    for _ in range(count):
        node.second()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_neighbour_is_named_limited_and_the_service_recovers(seed: int) -> None:
    node = Node(seed)
    background(node)
    node.add(_alone(shop.checkout()["spec"]["template"]), "checkout")
    seconds(node, int(shop.FIRST_S))
    alone = node.world.usage("checkout")
    node.add(shop.reindex(1, 60.0)["spec"]["template"], "reindex")
    seconds(node, 5)
    hurt = node.world.usage("checkout")
    seconds(node, 40)
    held = node.world.usage("checkout")
    assert alone is not None
    assert hurt is not None
    assert held is not None
    assert not alone.violated
    assert hurt.slowdown > 1.15 * alone.slowdown
    assert not held.violated
    (first, *_) = [each for each in node.story().incidents if each.proofs]
    assert (first.cause, first.culprit, first.proofs[0].helped) == ("pod", "x/reindex", True)
    assert first.recovered_after_us is not None
    assert first.recovered_after_us < 45_000_000


def test_a_limit_slows_its_work_down_and_ends_without_a_trace() -> None:
    node = Node(0)
    truth = {"use_cores": 8.0, "use_memory_bytes": GIB, "duration_s": 600.0}
    node.add(_pod({"cpu": "8"}, truth, "BE"), "work")
    node.seconds_alone(5)  # half of its work
    limit = Target(BEST_EFFORT, Knob.CPU_MAX)
    raw = node.machine.raw(limit)
    node.machine.write(limit, "200000 100000")
    node.seconds_alone(10)
    usage = node.world.usage("work")
    assert usage is not None
    assert 1.5 < usage.cpu_cores < 2.5  # with the swing of its use
    node.machine.restore(limit, raw)
    assert node.world.wanted_cores("work") == pytest.approx(8.0)
    node.seconds_alone(2)
    assert node.world.knows("work")  # a quarter of the speed for ten of its seconds
    node.seconds_alone(2)
    assert not node.world.knows("work")


@pytest.mark.parametrize(("load", "slow"), [(1.2, 1.0), (1.7, 1.4), (1.7, 2.1)])
def test_requests_take_as_long_as_the_world_says(load: float, slow: float) -> None:
    queue = ReplicaQueue(workers=4, busy=load * slow, request_s=0.01 * slow, slowdown=slow)
    took = requests.drawn(queue, 200_000, np.random.default_rng(3))
    for x in (0.02, 0.05, 0.1):
        expected = tail(4, load * slow, x / queue.request_s)
        assert (took > x).mean() == pytest.approx(expected, rel=0.1, abs=0.001)
