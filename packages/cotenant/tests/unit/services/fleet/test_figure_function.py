"""Figures of a host and its containers: measured from its cgroups, in heartbeats, and when they are asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fakes.processes.listed_containers import ListedContainers, container
from tests.fakes.waiting import soon

from cotenant.drivers.nats.contract import BusMessage
from cotenant.model.errors import Transient
from cotenant.model.fleet.figures import Measure, Measured
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.functions.figures import FigureFunction


def test_a_host_is_measured_and_its_containers_are_listed_with_what_is_known_of_them(tmp_path: Path) -> None:
    async def run() -> None:
        containers = ListedContainers(tmp_path)
        containers.known["web"] = container("web", restarts=3)
        containers.known["ended"] = container("ended", pid=0, restarts=1)
        figures = FigureFunction("host-1", containers)
        with pytest.raises(Transient, match="nothing was measured yet"):
            await figures.measured()
        await figures.start()
        beat = Beat()

        async def is_measured() -> bool:
            await figures.add_to(beat)
            return beat.memory_bytes > 0

        await soon("the host is measured", is_measured)
        answer = await figures.verbs["measure"].handle(Measure(), BusMessage("guid.host-1.rpc.measure"))
        assert isinstance(answer, Measured)
        assert (answer.guid, answer.host.memory_bytes) == ("host-1", beat.memory_bytes)
        assert answer.host.memory_total_bytes > answer.host.memory_bytes > 0
        assert answer.host.cpus >= 1
        assert answer.at_s > 1e9
        web, ended = answer.containers
        assert (web.guid, web.group, web.appkey, web.image, web.restarts) == ("web", "shop", "web", "web:1", 3)
        assert (ended.restarts, ended.cpu_milli) == (1, None)  # no cgroup of it is here
        await figures.stop()
        with pytest.raises(Transient):
            await figures.measured()

    asyncio.run(run())
