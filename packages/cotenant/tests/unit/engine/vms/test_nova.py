"""Nova's servers read as machines."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.engine.vms.nova import CLASS_KEY, action_of, machine_of_server, why_nova_not
from cotenant.model.vms.machine import MachineSize, MachineState, MachineVerb


def server(status: str = "ACTIVE", task: str | None = None, **more: Any) -> dict[str, Any]:
    flavor = {"vcpus": 2, "ram": 4096, "original_name": "m1.medium"}
    return {"id": "s1", "name": "db", "tenant_id": "p", "status": status, "OS-EXT-STS:task_state": task,
            "flavor": flavor, "updated": "2026-01-01T00:00:00Z", **more}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "task", "state"),
    [
        ("ACTIVE", None, MachineState.RUNNING),
        ("ACTIVE", "powering-off", MachineState.STOPPING),
        ("ACTIVE", "migrating", MachineState.MIGRATING),
        ("SHUTOFF", "powering-on", MachineState.STARTING),
        ("SHUTOFF", None, MachineState.STOPPED),
        ("REBOOT", "rebooting", MachineState.STARTING),
        ("RESIZE", "resize_migrating", MachineState.MIGRATING),
        ("SUSPENDED", None, MachineState.PAUSED),
        ("ERROR", None, MachineState.FAILED),
        ("SOFT_DELETED", None, MachineState.UNKNOWN),
    ],
)
def test_states(status: str, task: str | None, state: MachineState) -> None:
    assert machine_of_server(server(status, task)).state is state


def test_size_class_group_and_fault() -> None:
    groups = [{"name": "other", "members": []}, {"name": "apart", "policy": "anti-affinity", "members": ["s1"]}]
    found = machine_of_server(
        server(metadata={CLASS_KEY: "batch"}, fault={"message": "No valid host"}, **{"OS-EXT-SRV-ATTR:host": "h"}),
        groups,
    )
    assert found.size == MachineSize(2, 4096, "m1.medium")
    assert (found.class_name, found.group) == ("batch", "apart (anti-affinity)")
    assert (found.why, found.node) == ("No valid host", "h")


def test_a_resize_waits_to_be_confirmed() -> None:
    assert machine_of_server(server("VERIFY_RESIZE")).pending == "its new size waits to be confirmed"


def test_odd_servers() -> None:
    for odd in (None, [], "x"):
        found = machine_of_server({"id": "s", "flavor": odd, "metadata": odd, "fault": odd}, [{"members": odd}])
        assert (found.name, found.size, found.state) == ("s", MachineSize(), MachineState.UNKNOWN)


def test_what_nova_has_against_a_verb() -> None:
    assert why_nova_not(MachineVerb.STOP, server(locked=True)) == "it is locked"
    assert "resume" in why_nova_not(MachineVerb.UNPAUSE, server("SUSPENDED"))
    assert "unshelve" in why_nova_not(MachineVerb.START, server("SHELVED_OFFLOADED"))
    assert "ACTIVE or SHUTOFF" in why_nova_not(MachineVerb.RESIZE, server("PAUSED"))
    assert why_nova_not(MachineVerb.RESIZE, server()) == ""
    assert action_of(MachineVerb.RESIZE, "f2") == {"resize": {"flavorRef": "f2"}}
    assert action_of(MachineVerb.PAUSE, "") == {"pause": None}


@pytest.mark.parametrize(
    ("status", "how"), [("ACTIVE", "SOFT"), ("PAUSED", "HARD"), ("SUSPENDED", "HARD"), ("ERROR", "HARD")]
)
def test_only_a_server_that_runs_is_asked_to_restart_itself(status: str, how: str) -> None:
    assert action_of(MachineVerb.RESTART, "", status) == {"reboot": {"type": how}}
