"""What pods have of NUMA nodes follows a resize in place, in the scheduler that put them there and in the next one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.cpu_cluster import GIB, Api, node, pod, tells, zones

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.spec import NumaTopologySpec, TopologyPolicy
from cotenant.model.resources import Amounts

SINGLE = NumaTopologySpec(TopologyPolicy.SINGLE_NUMA_NODE)


def left(api: Api) -> list[tuple[int, int | None]]:
    api.cluster.requested()  # the books are brought up to date by whoever reads the sums
    told = api.cluster.plugins.cpus.describe("a")
    assert told is not None
    return [(room.cpu_free_m, room.memory_free_bytes) for room in told.numa]


def resize(api: Api, name: str, cpu_m: int, gib: int) -> None:
    of = api.pods[f"uid-{name}"]
    api.create(replace(of, pod=replace(of.pod, requests=Amounts.of({"cpu": cpu_m, "memory": gib * GIB}))))


@pytest.mark.parametrize("again", [False, True], ids=["the same scheduler", "after a restart"])
def test_a_pod_on_one_numa_node_takes_there_what_it_requests_now(again: bool) -> None:
    api = Api(node("a"), told=[tells("a", zones=zones(8, 8))])
    api.create(pod("x", 1, gib=1, qos=QoSClass.LS, numa=SINGLE))
    api.turn()
    (room,) = [amount.node for amount in api.pods["uid-x"].holds.cpus.numa]  # type: ignore[union-attr]
    resize(api, "x", 3000, 6)
    if again:
        api.restart()
    assert left(api)[room] == (1000, 2 * GIB)
    api.create(pod("y", 2, gib=1, qos=QoSClass.LS, numa=SINGLE))
    api.turn()
    (other,) = [amount.node for amount in api.pods["uid-y"].holds.cpus.numa]  # type: ignore[union-attr]
    assert other != room
    resize(api, "x", 500, 1)
    assert left(api)[room] == (3500, 7 * GIB)
    api.delete("x")
    assert left(api)[room] == (4000, 8 * GIB)


def test_cpus_of_its_own_stay_and_its_memory_follows() -> None:
    api = Api(node("a"), told=[tells("a", zones=zones(8, 8))])
    api.create(pod("x", 2, gib=1, numa=SINGLE))
    api.turn()
    had = api.has("x")
    (room,) = [amount.node for amount in api.pods["uid-x"].holds.cpus.numa]  # type: ignore[union-attr]
    resize(api, "x", 500, 4)
    assert left(api)[room] == (2000, 4 * GIB)
    assert not set(had) & set(api.available("a"))
