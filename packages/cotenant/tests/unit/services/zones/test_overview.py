"""The answers about zones: from ControlZones, whatever their authors and the writers of their statuses put into
them.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.fakes.processes.console_objects import control_zone

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.control_zone import ControlZoneObject
from cotenant.services.zones.overview import Zones

SPEC = {
    "applications": [{"namespace": "shop", "labels": {"app": "web"}}, {"namespace": "jobs"}],
    "rules": [{"labels": {"tier": "front"}, "kind": "service", "lateMs": 5, "weight": 400}, {"kind": "batch"}],
    "backend": "auto",
    "start": "latency",
    "nodes": ["a", "b"],
}


def zones(*objects: dict[str, Any]) -> Zones:
    found = Zones()
    for entry in objects:
        found.seen(msgspec.convert(entry, ControlZoneObject))
    return found


def asked(section: Zones, *names: str) -> Any:
    """As the page gets it."""
    return msgspec.json.decode(msgspec.json.encode(asyncio.run(section.answer(names, {}))))


def test_a_zone_has_its_rules_and_the_nodes_without_it_first() -> None:
    nodes = {
        "a": {"observedGeneration": 2, "state": "active", "setting": "root/latency", "groups": 3, "lastChange": "x: y"},
        "b": {"observedGeneration": 2, "state": "canary", "setting": "weights", "groups": 1},
        "c": {"observedGeneration": 1, "state": "refused", "message": "no such back end"},
    }
    (zone,) = asked(zones(control_zone("shop", SPEC, nodes, generation=2)))
    assert (zone["backend"], zone["start"], zone["active"], zone["wrong"]) == ("auto", "latency", 1, "")
    assert zone["applications"] == ["shop/ app=web", "jobs/"]
    assert zone["rules"] == [
        {"applies_to": "tier=front", "kind": "service", "weight": 400, "slice_us": 0, "late_ms": 5.0},
        {"applies_to": "", "kind": "batch", "weight": 0, "slice_us": 0, "late_ms": 0.0},
    ]
    assert zone["only_on"] == ["a", "b"]
    assert [(entry["node"], entry["state"], entry["outdated"]) for entry in zone["nodes"]] == [
        ("c", "refused", True),
        ("b", "canary", False),
        ("a", "active", False),
    ]


@pytest.mark.parametrize("spec", [None, [], {"rules": 3}, {"vm": {}}, {"applications": [{"namespace": "shop"}]}])
def test_a_spec_that_cannot_be_used_is_shown_with_the_reason(spec: Any) -> None:
    (zone,) = asked(zones(control_zone("shop", spec, {"a": {"state": "refused", "message": "m"}})))
    assert zone["wrong"]
    assert (zone["rules"], zone["nodes"][0]["message"]) == ([], "m")


@pytest.mark.parametrize("nodes", [None, [], "x", {"a": 3}, {"a": None}])
def test_a_status_of_another_form_is_no_node(nodes: Any) -> None:
    (zone,) = asked(zones(control_zone("shop", SPEC, nodes)))
    assert (zone["nodes"], zone["active"]) == ([], 0)


def test_fields_of_other_types_are_empty() -> None:
    (zone,) = asked(
        zones(control_zone("shop", SPEC, {"a": {"state": 3, "groups": "2", "message": [], "setting": None}}))
    )
    (node,) = zone["nodes"]
    assert (node["state"], node["groups"], node["message"], node["setting"]) == ("unknown", 0, "", "")


def test_zones_come_by_name_and_go() -> None:
    section = zones(control_zone("b", SPEC), control_zone("a", SPEC))
    assert [entry["name"] for entry in asked(section)] == ["a", "b"]
    section.gone("a")
    section.gone("never")
    assert [entry["name"] for entry in asked(section)] == ["b"]
    with pytest.raises(NotFound):
        asked(section, "b")
