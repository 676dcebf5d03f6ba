"""A zone's state as it is shown: what happened before a change in words, and which files are a zone's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_decision import Reason
from cotenant.model.zones.state import ZoneChange
from cotenant.model.zones.table import ZoneClass
from cotenant.model.zones.zone_reading import GroupReading, GroupResources, ZoneReading
from cotenant.services.zones.state_file import event_of, read_state, read_states, remove_state, write_state

QUIET = ZoneReading(
    2.0, (GroupReading("web", ZoneClass.SERVICE), GroupReading("job", ZoneClass.BATCH, cpu_us=3_000_000))
)


def happened(rule: str, before: ZoneReading | None = QUIET) -> str:
    return event_of(ZoneChange(0.0, "w", Reason(rule, "as it says"), before))


def test_a_cause_is_a_users_the_start_or_what_was_measured() -> None:
    assert happened("zone-start") == "the zone was started"
    assert happened("zone-request") == "a user's request"
    assert happened("zone-ended") == "as it says"
    for rule in ("zone-rows", "zone-switch", "zone-protect", "zone-reclaim"):
        assert happened(rule) == "no late dispatch in 2.0 s, batch on 1.50 CPUs"
        assert happened(rule, None) == "as it says"


def test_what_was_measured_names_every_group_with_a_reason() -> None:
    stalled = GroupResources(0.049, 0.05, 1)
    groups = (
        GroupReading("late", ZoneClass.SERVICE, late=3, worst_us=2500),
        GroupReading("unmeasured", ZoneClass.SERVICE, late=1),
        GroupReading("io", ZoneClass.SERVICE, resources=stalled),
        GroupReading("memory", ZoneClass.SERVICE, resources=GroupResources(0.25, 0.0, 1)),
        GroupReading("calm", ZoneClass.SERVICE, resources=GroupResources(0.049, 0.049, 1)),
        GroupReading("burns", ZoneClass.SERVICE, burn=0.0),
    )
    assert happened("zone-rows", ZoneReading(2.0, groups)).split("; ") == [
        "late: 1.5 late dispatches a second, 2.5 ms at most",
        "unmeasured: 0.5 late dispatches a second",
        "io: waited 5 % of the time for memory, 5 % for its disk",
        "memory: waited 25 % of the time for memory, 0 % for its disk",
        "burns: burn rate 0.00",
    ]


def test_states_are_those_of_zones_and_a_zone_runs_while_its_process_does(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    with subprocess.Popen(["true"]) as ended:
        pass
    for name, more in {
        "b": {"pid": os.getpid(), "state": "active"},
        "a": {"pid": os.getpid(), "state": "gone"},
        "c": {"pid": ended.pid, "state": "active"},
        "d": {"pid": "1", "state": "active"},
    }.items():
        write_state(folder, {"zone": name, **more})
    write_state(folder, {"zone": "b", "pid": os.getpid(), "state": "canary"})
    (folder / "half.json").write_text('{"zone": "half')
    (folder / "list.json").write_text('["zone"]')
    (folder / "other.json").write_text('{"pid": 1}')
    assert [(state["zone"], state["running"]) for state in read_states(folder)] == [
        ("a", False),
        ("b", True),
        ("c", False),
        ("d", False),
    ]
    assert read_state(folder, "b")["state"] == "canary"
    with pytest.raises(InvalidInput, match="zones are a, b, c, d"):
        read_state(folder, "e")
    with pytest.raises(InvalidInput, match="there are none"):
        read_state(tmp_path / "none", "e")
    assert not [path for path in folder.iterdir() if path.suffix != ".json"]  # nothing is left beside
    assert json.loads((folder / "b.json").read_text())["state"] == "canary"


def test_a_process_that_nobody_waited_for_does_not_run(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        write_state(tmp_path, {"zone": "z", "pid": child.pid, "state": "active"})
        assert read_state(tmp_path, "z")["running"] is False


def test_a_zone_is_forgotten_with_its_log_and_no_other(tmp_path: Path) -> None:
    for name in ("z.json", "z.log", "z.log.1", "y.json", "y.log"):
        (tmp_path / name).write_text("{}")
    remove_state(tmp_path, "z")
    remove_state(tmp_path, "z")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["y.json", "y.log"]
