"""A neighbour hurts a service on one simulated node, with and without the node's agent, in virtual time.

The days of the demonstration show placement and lending, and not how a service that burns gets its culprit named,
limited, and its recovery proven. The shop of `cotenant up --workload colocation` (cotenant_local/up/simulated) on one
node of the same world, a second at a time, with the engine of the real agent, its ladder and its leases; the service's
latency is drawn from its requests as spans would measure it. Equal seeds give equal runs, in a second or two.
Limits: no trace process, no scheduler and no API server; `up` has them all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import msgspec
import numpy as np
from numpy.typing import NDArray

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.recovery.story import IncidentStory, story
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.annotations import OBJECTIVE_P99_MS, SIMULATED
from cotenant.model.cluster.labels import QOS_CLASS
from cotenant.model.json_object import JsonMapping
from cotenant.model.machine.knob import Knob, Vanished
from cotenant.model.machine.node_state import ServiceHealth
from cotenant_lab.plant.keeping import PlantKeeper
from cotenant_lab.world.config import WorldConfig
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.nodes.behaviour import behaviour_of, requests_of
from cotenant_local.nodes.world import LiveWorld
from cotenant_local.up.simulated import shop
from cotenant_local.up.simulated.agents import POLICIES
from cotenant_local.up.simulated.machine import BEST_EFFORT, ROOT, SimulatedMachine
from cotenant_local.up.simulated.requests import MAX_EACH, drawn

SPEED, CORES = 60.0, 32
WINDOW_S = 9  # of latency, as the trace process has it
AFTER_S = 60  # how long it is watched after the job has come
NODE, SERVICE = "node", f"{shop.SHOP}/{shop.CHECKOUT}"


@dataclass(frozen=True, slots=True)
class Watched:
    """One run, a value a second. `events`: second and sentence of the agent."""

    p99_ms: tuple[float | None, ...]
    events: tuple[tuple[float, str], ...]
    recovered: bool  # an action was proven to have helped


class VirtualNode:
    """The node. `has_agent`: whether anybody acts."""

    def __init__(self, seed: int, *, has_agent: bool = True) -> None:
        memory_bytes = 128 << 30
        config = WorldConfig(node_cores=CORES, node_memory_bytes=memory_bytes, pair_cores=CORES / 2)
        self.now_s = 0
        self.world = LiveWorld(config, SPEED, 0.0, seed)
        self.world.add_node(NODE)
        self._pods: list[PodObjectView] = []
        self.machine = SimulatedMachine(self.world, NODE, lambda: self._pods, lambda: float(self.now_s), self.now_us)
        self._keeper = PlantKeeper(self.machine, self.now_us)
        mode = AgentMode.ACT if has_agent else AgentMode.OBSERVE
        self.agent = Agent(
            AgentSettings(mode=mode, policies=POLICIES, roots=(ROOT,), best_effort_group=BEST_EFFORT), NODE
        )
        self.agent.machine_seen(frozenset({Knob.CPU_MAX}))
        self.agent.leases_found((), 0)
        self._rng = np.random.default_rng(seed)
        self._took: deque[NDArray[np.float64]] = deque(maxlen=WINDOW_S)

    def now_us(self) -> int:
        """Virtual microseconds."""
        return self.now_s * 1_000_000

    def add(self, template: JsonMapping, namespace: str, name: str) -> None:
        """Start a pod of a template."""
        metadata = {**template["metadata"], "name": name, "namespace": namespace, "uid": name}
        pod = msgspec.json.decode(msgspec.json.encode({**template, "metadata": metadata}), type=PodObjectView)
        self._pods.append(pod)
        self.world.start(name, NODE, behaviour_of(pod, requests_of(pod))[0], float(self.now_s))

    def fill(self) -> None:
        """What else runs there: services with loads that rise, batch work that comes to an end, and the checkout."""
        for k in range(3):
            truth: dict[str, object] = {
                "service": f"web-{k}",
                "workers": 4,
                "peak_erlangs": 2.0,
                "swing": 0.5,
                "sensitivity": 0.4,
                "pressure": 0.2,
            }
            self.add(template_of({"cpu": "4"}, truth, "LS"), "web", f"web-{k}")
            batch: dict[str, object] = {
                "use_cores": 3.0,
                "use_memory_bytes": 1 << 30,
                "pressure": 0.2,
                "sensitivity": 0.2,
                "duration_s": 900.0 + 500.0 * k,
            }
            self.add(template_of({"cpu": "3"}, batch, "BE"), "web", f"batch-{k}")
        checkout = shop.checkout()["spec"]["template"]
        annotations = checkout["metadata"]["annotations"]
        alone = {**msgspec.json.decode(annotations[SIMULATED]), "replicas": 1}  # the load of the others is theirs
        annotations = {**annotations, SIMULATED: msgspec.json.encode(alone).decode()}
        metadata = {**checkout["metadata"], "annotations": annotations}
        self.add({**checkout, "metadata": metadata}, shop.SHOP, shop.CHECKOUT)

    def hurt(self) -> None:
        """The job comes."""
        self.add(shop.reindex(1, SPEED)["spec"]["template"], shop.RESEARCH, shop.REINDEX)

    def second(self) -> None:
        """A second of everything."""
        self.now_s += 1
        self.world.advance(float(self.now_s))
        self._pods = [pod for pod in self._pods if self.world.knows(pod.metadata.uid)]
        self.agent.pods_seen(self.machine.found(), self.now_us())
        self._requests()
        self._keeper.tick()
        values = {}
        for target in self.agent.knobs_to_read():
            try:
                values[target] = self.machine.read(target)
            except Vanished:
                continue
        told = self.agent.sampled(self.machine.sample(self.agent.groups()), values, ())
        answers = (*self._keeper.give_back(told.give_back), *self._keeper.hold(told.hold))
        self.agent.answered(answers, self.now_us())

    def incidents(self) -> list[IncidentStory]:
        """What happened to the checkout; where another service was slowed enough before, and helping it helped the
        checkout before that had an incident of its own, what happened to that one.
        """
        memory, state = self.agent.recovery(), self.agent.state()
        if memory is None or state is None:
            return []
        others = sorted({incident.service for incident in (*memory.incidents, *memory.ended)})
        stories = (story(name, NODE, state, memory, self.now_us()) for name in (SERVICE, *others))
        return next((sorted(found.incidents, key=_opened) for found in stories if found and found.incidents), [])

    def _requests(self) -> None:
        queue = self.world.queue(shop.CHECKOUT)
        if queue is None:
            return
        self._took.append(drawn(queue, ceil(min(MAX_EACH, queue.requests_per_s)), self._rng))
        took_us = np.concatenate(list(self._took)) * 1e6
        over = int((took_us > shop.OBJECTIVE_MS * 1000).sum())
        health = ServiceHealth(WINDOW_S * 1_000_000, len(took_us), int(np.quantile(took_us, 0.99)), over, 0)
        self.agent.health_reported(shop.CHECKOUT, health, self.now_us())


def watch(seed: int, *, has_agent: bool = True) -> Watched:
    """A run: the node, half a minute later the job, and what comes of it."""
    node = VirtualNode(seed, has_agent=has_agent)
    node.fill()
    p99_ms: list[float | None] = []
    for second in range(int(shop.FIRST_S) + AFTER_S):
        if second == int(shop.FIRST_S):
            node.hurt()
        node.second()
        usage = node.world.usage(shop.CHECKOUT)
        p99_ms.append(None if usage is None else usage.p99_ms)
    incidents = node.incidents() if has_agent else []
    events = [(event.at_us / 1e6, event.text) for incident in incidents for event in incident.events]
    helped = any(proof.helped for incident in incidents for proof in incident.proofs)
    return Watched(tuple(p99_ms), tuple(sorted(events)), helped)


def _opened(incident: IncidentStory) -> int:
    return incident.opened_us


def template_of(amounts: Mapping[str, str], truth: Mapping[str, object], qos: str) -> dict[str, object]:
    """A pod's template with what it really does; a service's objective is far away."""
    annotations = {SIMULATED: msgspec.json.encode(truth).decode(), OBJECTIVE_P99_MS: "900"}
    container = {"name": "main", "resources": {"requests": dict(amounts)}}
    return {"metadata": {"labels": {QOS_CLASS: qos}, "annotations": annotations}, "spec": {"containers": [container]}}
