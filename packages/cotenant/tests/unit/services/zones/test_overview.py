"""The answers about zones: from ControlZones, whatever their authors and the writers of their statuses put into
them.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.fakes.processes.console_objects import control_zone

from cotenant.cli.zone.of_cluster import lines
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.control_zone import ControlZoneObject
from cotenant.services.zones.overview import Zones, zone_view

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


def test_the_pods_of_a_machine_are_shown_with_ports_and_what_keeps_them() -> None:
    spec = {"vm": {"cpus": 2}, "pods": [{"name": "web", "image": {"archive": "web.tar"}, "lateMs": 5}]}
    machine = {"kernel": "7.3.4", "preempt": "lazy", "hz": 1000, "accelerator": "tcg", "memoryMib": 512, "cpus": 2}
    ports = [{"container": 80, "host": 8080, "address": "127.0.0.1"}, {"container": 90, "host": 0}]
    pod = {"name": "web", "kind": "service", "ready": False, "running": True, "restarts": 2, "ports": ports}
    condition = {"type": "Ready", "status": "False", "reason": "PodsNotReady", "message": "not web"}
    entry = {"state": "active", "restarts": 1, "machine": machine, "pods": [pod, "x"], "conditions": [condition]}
    (zone,) = asked(zones(control_zone("box", spec, {"a": entry, "b": {"state": "starting", "pods": 3}})))
    assert zone["rules"] == [{"applies_to": "web", "kind": "service", "weight": 0, "slice_us": 0, "late_ms": 5.0}]
    waiting, node = zone["nodes"]
    assert (waiting["state"], waiting["pods"], waiting["machine"]) == ("starting", [], "")
    assert (node["restarts"], node["machine"]) == (1, "Linux 7.3.4, lazy, 1000 Hz; 2 CPUs, 512 MiB, tcg")
    assert node["pods"][0]["ports"] == ["127.0.0.1:8080 -> 80", "90"]
    assert node["conditions"] == [{**condition, "since": ""}]
    view = zone_view(msgspec.convert(control_zone("box", spec, {"a": entry}), ControlZoneObject))
    assert lines(view) == [
        "box: active on 1 of 1 node, back end weights",
        "  node a: active, started again 1 time, of an earlier definition",
        "    virtual machine: Linux 7.3.4, lazy, 1000 Hz; 2 CPUs, 512 MiB, tcg",
        "    pod web (127.0.0.1:8080 -> 80, 90): runs, not ready, started again 2 times",
        "    Ready: False, PodsNotReady: not web (since )",
    ]


@pytest.mark.parametrize(
    "spec", [None, [], {"rules": 3}, {"vm": {"cpu": 1}}, {"applications": [{"namespace": "shop"}]}]
)
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
