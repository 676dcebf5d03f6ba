"""Nova's servers as machines.

A server's `status` says where it stands, its `task_state` what is being done to it. A resize ends in VERIFY_RESIZE: the
server runs at its new size, and goes back unless it is confirmed.
Limits: the host is told to administrators only, and without it a migration cannot be seen to have arrived; `updated`
tells one start from the next.
Source: OpenStack Compute API guide, "Server concepts"; API reference, microversion 2.47 and later for flavors.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.model.json_object import JsonMapping
from cotenant.model.vms.machine import Machine, MachineSize, MachineState, MachineVerb

CLASS_KEY = "cotenant:class"  # in a server's metadata
TO_CONFIRM = "VERIFY_RESIZE"
_OF_STATUS = {
    "ACTIVE": MachineState.RUNNING,
    "PASSWORD": MachineState.RUNNING,
    TO_CONFIRM: MachineState.RUNNING,
    "RESCUE": MachineState.RUNNING,
    "BUILD": MachineState.STARTING,
    "REBUILD": MachineState.STARTING,
    "REBOOT": MachineState.STARTING,
    "HARD_REBOOT": MachineState.STARTING,
    "RESIZE": MachineState.MIGRATING,
    "REVERT_RESIZE": MachineState.MIGRATING,
    "MIGRATING": MachineState.MIGRATING,
    "PAUSED": MachineState.PAUSED,
    "SUSPENDED": MachineState.PAUSED,
    "SHUTOFF": MachineState.STOPPED,
    "SHELVED": MachineState.STOPPED,
    "SHELVED_OFFLOADED": MachineState.STOPPED,
    "ERROR": MachineState.FAILED,
}
_OF_TASK = {"powering-off": MachineState.STOPPING, "deleting": MachineState.STOPPING}
_BUSY = frozenset({"powering-on", "rebooting", "rebooting_hard", "reboot_started", "reboot_pending", "spawning"})


def machine_of_server(server: JsonMapping, groups: Sequence[JsonMapping] = ()) -> Machine:
    """A machine by a server with details, and the server groups of the project."""
    flavor = _part(server, "flavor")
    status = str(server.get("status") or "")
    return Machine(
        namespace=str(server.get("tenant_id") or ""),
        name=str(server.get("name") or server["id"]),
        uid=str(server["id"]),
        state=_state(status, str(server.get("OS-EXT-STS:task_state") or "")),
        size=MachineSize(
            _count(flavor.get("vcpus")), _count(flavor.get("ram")), str(flavor.get("original_name") or "")
        ),
        node=str(server.get("OS-EXT-SRV-ATTR:host") or ""),
        incarnation=str(server.get("updated") or ""),
        why=str(_part(server, "fault").get("message") or ""),
        class_name=str(_part(server, "metadata").get(CLASS_KEY) or ""),
        pending="its new size waits to be confirmed" if status == TO_CONFIRM else "",
        group=_group(str(server["id"]), groups),
    )


def why_nova_not(verb: MachineVerb, server: JsonMapping) -> str:
    """What Nova has against a verb beyond the machine's state; empty = nothing."""
    status = str(server.get("status") or "")
    if server.get("locked") is True:
        return "it is locked"
    if verb is MachineVerb.UNPAUSE and status == "SUSPENDED":
        return "it is suspended: `openstack server resume` brings it back"
    if verb is MachineVerb.START and status.startswith("SHELVED"):
        return "it is shelved: `openstack server unshelve` brings it back"
    if verb is MachineVerb.RESIZE and status not in ("ACTIVE", "SHUTOFF"):
        return f"it is {status}, and Nova resizes servers that are ACTIVE or SHUTOFF"
    return ""


def action_of(verb: MachineVerb, flavor: str, status: str = "ACTIVE") -> JsonMapping:
    """The body of the action. `flavor`: the id, of a resize. `status`: of the server, for a restart: only one that is
    ACTIVE can be asked to shut itself down.
    """
    match verb:
        case MachineVerb.START:
            return {"os-start": None}
        case MachineVerb.STOP:
            return {"os-stop": None}
        case MachineVerb.RESTART:
            return {"reboot": {"type": "SOFT" if status == "ACTIVE" else "HARD"}}
        case MachineVerb.PAUSE | MachineVerb.UNPAUSE:
            return {verb.value: None}
        case MachineVerb.MIGRATE:
            return {"os-migrateLive": {"host": None, "block_migration": "auto"}}
        case MachineVerb.RESIZE:
            return {"resize": {"flavorRef": flavor}}


def _state(status: str, task: str) -> MachineState:
    if task in _OF_TASK:
        return _OF_TASK[task]
    if task in _BUSY:
        return MachineState.STARTING
    if task == "migrating":
        return MachineState.MIGRATING
    return _OF_STATUS.get(status, MachineState.UNKNOWN)


def _group(uid: str, groups: Sequence[JsonMapping]) -> str:
    for group in groups:
        members = group.get("members")
        if isinstance(members, list) and uid in members:
            policies = group.get("policies")
            policy = group.get("policy") or (policies[0] if isinstance(policies, list) and policies else "")
            return f"{group.get('name')} ({policy})"
    return ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _part(obj: JsonMapping, name: str) -> JsonMapping:
    found = obj.get(name)
    return found if isinstance(found, dict) else {}
