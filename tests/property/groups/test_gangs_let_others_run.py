"""No plain pod waits for ever beside gangs that cannot complete, whatever they hold, name, evict and how long they
wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.gang_world import node, pod
from tests.property.few import examples, first_cases

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Instruction, Preempt
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.groups.gang import GangMode
from cotenant.policy.placement.profiles import profile

CPU = 4000
LONGEST_BACKOFF_S = 10.0
WINDOWS_PER_GANG = 2
WINDOWS_BESIDE = 2


@dataclass
class Api:
    """An API server that carries out binds and evictions at once, and keeps the time."""

    c: Cluster
    nodes: int
    now_s: float = 0.0
    pods: dict[str, ObservedPod] = field(default_factory=dict)
    fitted_since_s: dict[str, float] = field(default_factory=dict)  # plain pods that wait, by UID
    longest_s: float = 0.0

    def create(self, *pods: ObservedPod) -> None:
        for observed_pod in pods:
            self.pods[observed_pod.uid] = observed_pod
            self.c.pod_seen(observed_pod, self.now_s)

    def step(self) -> None:
        for _ in range(50):
            for instruction in self.c.decide(self.now_s):
                self._carry_out(instruction)
            if self.c.next_s() > self.now_s:
                break
        self.c.validate()
        free = [CPU] * self.nodes
        for instruction in self.pods.values():
            if instruction.node:
                free[int(instruction.node[1:])] -= instruction.pod.requests.get("cpu")
        promised = self.c.reserved()  # room that an eviction has made for a more important pod is not wasted
        for uid, name in promised.items():
            if uid in self.pods and not self.pods[uid].node:
                free[int(name[1:])] -= self.pods[uid].pod.requests.get("cpu")
        for uid, instruction in self.pods.items():
            fits = max(free) >= instruction.pod.requests.get("cpu")
            if instruction.demands.gang is not None or instruction.node or not fits:
                self.fitted_since_s.pop(uid, None)
                continue
            since_s = self.fitted_since_s.setdefault(uid, self.now_s)
            self.longest_s = max(self.longest_s, self.now_s - since_s)

    def _carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, Bind) and self.c.sending(instruction.uid, self.now_s):
            self.c.bound(instruction.uid, self.now_s)
            self.pods[instruction.uid] = replace(self.pods[instruction.uid], node=instruction.node)
            self.c.pod_seen(self.pods[instruction.uid], self.now_s)
        elif isinstance(instruction, Preempt):
            for victim in instruction.victims:
                self.pods.pop(victim.uid, None)
                self.fitted_since_s.pop(victim.uid, None)
                self.c.pod_gone(victim.uid, self.now_s)


@st.composite
def gangs(draw: st.DrawFn, number: int, names: list[str]) -> list[ObservedPod]:
    name = names[number]
    least = draw(st.integers(2, 5))
    linked = draw(st.sets(st.sampled_from(names), max_size=2)) if draw(st.booleans()) else set()
    groups = tuple(sorted(f"default/{entry}" for entry in {*linked, name})) if linked else ()
    mode = draw(st.sampled_from((GangMode.NON_STRICT,) * 4 + (GangMode.STRICT,)))
    wait_s = float(draw(st.sampled_from((3, 6, 6, 20))))
    priority = draw(st.sampled_from((0, 0, 0, 5, -5)))
    return [
        pod(
            f"{name}-{i}",
            name,
            least,
            cpu=draw(st.sampled_from((CPU, CPU, 2000))),
            priority=priority,
            created_s=float(number),
            mode=mode,
            wait_s=wait_s,
            groups=groups,
        )
        for i in range(draw(st.integers(least, least + 1)))
    ]


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_plain_pod_that_fits_beside_completed_gangs_is_placed_in_time(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, 3), "nodes")
    c = Cluster(profile("least-allocated"), np.random.default_rng(1))
    for i in range(nodes):
        c.node_seen(node(f"n{i}", CPU))
    api = Api(c, nodes)
    names = [f"g{i}" for i in range(data.draw(st.integers(1, 4), "gangs"))]
    given_gangs = [data.draw(gangs(i, names), f"gang {name}") for i, name in enumerate(names)]
    for gang in given_gangs:
        api.create(*gang)
    window_s = LONGEST_BACKOFF_S + max(
        gang[0].demands.gang.wait_s or 0.0 for gang in given_gangs if gang[0].demands.gang
    )
    max_s = window_s * (WINDOWS_BESIDE + WINDOWS_PER_GANG * len(names))
    born = 0
    while api.now_s < max_s * 3:
        api.step()
        if born < 12 and data.draw(st.booleans(), "a plain pod"):
            born += 1
            cpu, priority = data.draw(st.tuples(st.sampled_from((1000, 2000)), st.sampled_from((0, 0, 5, -5))))
            api.create(pod(f"plain-{born}", cpu=cpu, priority=priority, created_s=api.now_s))
            api.step()
        assert api.longest_s <= max_s, {uid: api.now_s - since_s for uid, since_s in api.fitted_since_s.items()}
        following_s = min(c.next_s(), api.now_s + data.draw(st.sampled_from((1.0, 7.0, 50.0)), "pause"))
        api.now_s = max(api.now_s + 0.25, following_s)
        if (
            not any(observed_pod.demands.gang is None and not observed_pod.node for observed_pod in api.pods.values())
            and born == 12
        ):
            break


test_first_cases = first_cases(
    test_a_plain_pod_that_fits_beside_completed_gangs_is_placed_in_time,
    most=3,
)
