"""The agent's page of zones that run on its node, from their state files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from cotenant.services.zones.agent_zones import zones_page
from cotenant.services.zones.state_file import write_state


def page(folder: Path) -> Any:
    return msgspec.to_builtins(zones_page("n1", folder))


def zone(folder: Path, name: str, **more: Any) -> None:
    write_state(folder, {"zone": name, "pid": os.getpid(), "state": "active", "setting": "weights", **more})


def test_a_zone_has_what_its_services_feel_and_both_sides_of_its_machine(tmp_path: Path) -> None:
    vm = {"memoryMib": 512, "cpus": 2, "cpuMilli": 1500, "diskMib": 100, "diskBytes": 7}
    front, back = {"runnable": 2, "memory_pressure": 0.5, "interrupts_per_s": 9}, {"stolen": 0.25, "exits_per_s": None}
    reading = {"latePerS": 2.5, "burn": 1.5, "stall": 0.125, "batchCpus": 0.5}
    together = {"memoryMib": [512, 4096], "vcpus": [2, 16], "diskMib": [100, 8192]}
    zone(tmp_path, "box", vm=vm, monitors={"frontEnd": front, "backEnd": back}, reading=reading, machines=together)
    found = page(tmp_path)
    (box,) = found["zones"]
    assert (box["zone"], box["late_per_s"], box["burn"]) == ("box", 2.5, 1.5)
    assert (box["stall"], box["batch_cpus"]) == (0.125, 0.5)
    assert box["machine"] == {"memory_mib": 512, "vcpus": 2, "cpu_milli": 1500, "disk_mib": 100, "disk_bytes": 7}
    assert (box["front"]["memory_pressure"], box["front"]["steal_cpus"], box["back"]["stolen"]) == (0.5, None, 0.25)
    assert found["machines"] == {
        "memory_mib": 512, "max_memory_mib": 4096, "vcpus": 2, "max_vcpus": 16, "disk_mib": 100, "max_disk_mib": 8192,
    }  # fmt: skip


def test_zones_of_this_host_have_no_sides_and_those_that_ended_are_not_there(tmp_path: Path) -> None:
    zone(tmp_path, "shop", reading={"latePerS": 0.0, "burn": None})
    zone(tmp_path, "young", state="preparing", reading=None)
    zone(tmp_path, "gone", state="gone")
    found = page(tmp_path)
    assert [(entry["zone"], entry["late_per_s"], entry["machine"]) for entry in found["zones"]] == [
        ("shop", 0.0, None),
        ("young", None, None),
    ]
    assert (found["node"], found["machines"]) == ("n1", None)
    assert page(tmp_path / "none")["zones"] == ()


def test_a_machine_of_an_older_keeper_has_what_it_wrote(tmp_path: Path) -> None:
    zone(tmp_path, "box", vm={"memoryMib": 256, "cpus": 1}, monitors={})
    (box,) = page(tmp_path)["zones"]
    assert (box["machine"]["memory_mib"], box["machine"]["disk_mib"], box["front"]) == (256, 0, None)


def test_the_newest_state_says_how_much_all_machines_have(tmp_path: Path) -> None:
    for name, written, used in (("a", 5.0, 1024), ("b", 3.0, 512)):
        machines = {"memoryMib": [used, 4096], "vcpus": [1, 16], "diskMib": [0, 8192]}
        zone(tmp_path, name, writtenAt=written, machines=machines, vm={"memoryMib": 512, "cpus": 1})
    assert page(tmp_path)["machines"]["memory_mib"] == 1024
