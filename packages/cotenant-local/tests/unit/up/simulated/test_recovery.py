"""The neighbour of `cotenant up` on a simulated node: named, limited, and the service proven recovered, in virtual
time; and the joints that this needs.
"""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant_lab.world.latency import tail
from cotenant_local.demo.neighbour import VirtualNode, template_of, watch
from cotenant_local.nodes.observations import ReplicaQueue
from cotenant_local.up.simulated import requests, shop
from cotenant_local.up.simulated.machine import BEST_EFFORT


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_neighbour_is_named_limited_and_the_service_recovers(seed: int) -> None:
    acted, alone = watch(seed), watch(seed, has_agent=False)
    first = int(shop.FIRST_S)
    before = acted.p99_ms[first - 1]
    assert before is not None
    assert before < shop.OBJECTIVE_MS
    assert acted.p99_ms[:first] == alone.p99_ms[:first]
    late = [sum((value or 0.0) > shop.OBJECTIVE_MS for value in run.p99_ms) for run in (acted, alone)]
    assert late[0] < late[1] / 2
    assert acted.recovered
    words = " ".join(text for _, text in acted.events)
    assert f"caused by {shop.RESEARCH}/{shop.REINDEX}" in words
    assert "recovered" in words
    assert (alone.events, alone.recovered) == ((), False)
    assert watch(seed) == acted


def test_a_limit_slows_its_work_down_and_ends_without_a_trace() -> None:
    node = VirtualNode(0)

    def seconds(count: int) -> None:
        node.now_s += count
        node.world.advance(float(node.now_s))

    node.add(
        template_of({"cpu": "8"}, {"use_cores": 8.0, "use_memory_bytes": 1 << 30, "duration_s": 600.0}, "BE"),
        "x",
        "work",
    )
    node.machine.found()
    seconds(5)  # half of its work
    limit = KnobTarget(BEST_EFFORT, Knob.CPU_MAX)
    raw = node.machine.raw(limit)
    node.machine.write(limit, "200000 100000")
    seconds(10)
    usage = node.world.usage("work")
    assert usage is not None
    assert 1.5 < usage.cpu_cores < 2.5  # with the swing of its use
    node.machine.restore(limit, raw)
    assert node.world.wanted_cores("work") == pytest.approx(8.0)
    seconds(2)
    assert node.world.knows("work")  # a quarter of its speed for ten seconds
    seconds(2)
    assert not node.world.knows("work")


@pytest.mark.parametrize(("load", "slow"), [(1.2, 1.0), (1.7, 1.4), (1.7, 2.1)])
def test_requests_take_as_long_as_the_world_says(load: float, slow: float) -> None:
    queue = ReplicaQueue(workers=4, busy=load * slow, request_s=0.01 * slow, slowdown=slow)
    took = requests.drawn(queue, 200_000, np.random.default_rng(3))
    for x in (0.02, 0.05, 0.1):
        expected = tail(4, load * slow, x / queue.request_s)
        assert (took > x).mean() == pytest.approx(expected, rel=0.1, abs=0.001)
