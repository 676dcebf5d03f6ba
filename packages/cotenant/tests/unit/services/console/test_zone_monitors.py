"""The answers about a zone's monitors: of each node's agent, and why there are none."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.fakes.processes.console_objects import control_zone
from tests.fakes.processes.zone_monitors import machine_zone, zones_page

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.control_zone import ControlZoneObject
from cotenant.services.console.views.zone_monitors import MAX_NODES, ZoneMonitors
from cotenant.services.zones.overview import Zones

from .test_agents import CannedAgents

SPEC = {"applications": [{"namespace": "shop"}], "rules": [{"kind": "batch"}]}


def asked(pages: dict[str, Any], *nodes: str, pattern: str = "http://agent", names: tuple[str, ...] = ("box",)) -> Any:
    """As the page gets it."""
    zones = Zones()
    status = {node: {"state": "active"} for node in nodes}
    zones.seen(msgspec.convert(control_zone("box", SPEC, status), ControlZoneObject))
    section = ZoneMonitors(zones.nodes_of, CannedAgents(pages, pattern))
    return msgspec.json.decode(msgspec.json.encode(asyncio.run(section.answer(names, {}))))


def test_a_node_has_the_figures_of_its_agent() -> None:
    page = asked({"/v1/zones": zones_page("a", machine_zone("other"), machine_zone("box"))}, "a")
    (node,) = page["nodes"]
    assert (node["node"], node["problem"], page["left_out"]) == ("a", "", 0)
    assert (node["figures"]["zone"], node["figures"]["front"]["memory_pressure"]) == ("box", 0.5)
    assert (node["figures"]["back"]["stolen"], node["figures"]["front"]["steal_cpus"]) == (0.579, None)
    assert node["machines"]["max_memory_mib"] == 4096


@pytest.mark.parametrize(
    ("pages", "pattern", "said"),
    [
        ({}, "", "no agents are configured"),
        ({"/v1/zones": "no answer in time"}, "http://agent", "no answer in time"),
        ({"/v1/zones": zones_page("b", machine_zone("box"))}, "http://agent", "is that of node b"),
        ({"/v1/zones": {"node": 3}}, "http://agent", "another version"),
        ({"/v1/zones": zones_page("a", machine_zone("other"))}, "http://agent", "it does not run there now"),
    ],
)
def test_a_node_without_figures_says_why(pages: dict[str, Any], pattern: str, said: str) -> None:
    (node,) = asked(pages, "a", pattern=pattern)["nodes"]
    assert node["figures"] is None
    assert said in node["problem"]


def test_not_more_nodes_are_asked_than_a_page_shows() -> None:
    page = asked({}, *(f"n{number:03}" for number in range(MAX_NODES + 3)))
    assert (len(page["nodes"]), page["left_out"]) == (MAX_NODES, 3)
    assert asked({}) == {"nodes": [], "left_out": 0}


@pytest.mark.parametrize("names", [(), ("none",), ("box", "more")])
def test_what_is_no_zone_has_no_page(names: tuple[str, ...]) -> None:
    with pytest.raises(NotFound):
        asked({}, "a", names=names)
