"""Which objects an agent writes, by its configuration, and how often."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.fakes.virtual_time import run_virtually

from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.services.agent.reports.writers import ObjectWriters, writers_of
from cotenant.services.agent_settings.config import ClusterAccess

NOTHING = ClusterAccess(node_metric=False, node_topology=False, devices=False, prediction=False)
GIVEN: dict[str, Any] = {
    "usage": lambda windows: None,
    "wall": lambda: 0.0,
    "pods": tuple,
    "reserved_cpus": tuple,
    "gpus": tuple,
    "allocatable": lambda: None,
    "monotonic": lambda: 0.0,
    "kubelet": KubeletFacts,
    "shares": lambda gpus: None,
}


def written(cluster: ClusterAccess | None, client: Any = "a client") -> set[str]:
    found = writers_of(cluster, client, "n", **GIVEN)
    return {name for name in ("node_metric", "node_topology", "devices", "prediction") if getattr(found, name)}


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        ({}, set()),
        ({"node_metric": True}, {"node_metric"}),
        ({"node_metric": True, "prediction": True}, {"node_metric", "prediction"}),
        ({"node_topology": True}, {"node_topology"}),
        ({"devices": True}, {"devices"}),
    ],
)
def test_an_object_is_written_where_it_is_asked_for_and_there_is_a_client(
    asked: dict[str, bool], made: set[str]
) -> None:
    cluster = replace(NOTHING, **cast(Any, asked))
    assert written(cluster) == made
    assert written(cluster, None) == set()
    assert written(None) == set()


class Writer:
    """Counts its writes."""

    def __init__(self, period_s: float = 10.0) -> None:
        self.period_s, self.writes = period_s, 0

    async def write(self) -> None:
        self.writes += 1

    async def run(self) -> None:
        self.writes += 1


def test_each_object_has_a_loop_of_its_own_period() -> None:
    metric, devices, topology, prediction = Writer(10.0), Writer(25.0), Writer(), Writer()

    async def play() -> None:
        writers = ObjectWriters(*cast(Any, (metric, topology, devices, prediction)))
        work = writers.work()
        assert set(work) == {"NodeMetric", "prediction", "NodeResourceTopology", "Device"}
        tasks = [asyncio.create_task(one) for one in work.values()]
        await asyncio.sleep(9.0)
        assert (metric.writes, devices.writes) == (0, 0)  # a first period is measured first
        await asyncio.sleep(51.5)
        assert (metric.writes, devices.writes) == (6, 2)
        assert (topology.writes, prediction.writes) == (1, 1)
        for task in tasks:
            task.cancel()

    run_virtually(play())
    assert ObjectWriters().work() == {}
