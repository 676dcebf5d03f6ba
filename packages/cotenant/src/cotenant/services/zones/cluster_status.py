"""What a node's agent says of a ControlZone in the object's status: how the zone stands, its machine, its pods, and
conditions.

Of a zone's state only what changes with what it does is written: readings and monitors are in the node's state file. A
condition keeps its time while its status stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.model.zones.state import ZoneState

MAX_TEXT = 500
READY, MACHINE, PODS = "Ready", "MachineRunning", "PodsReady"
KEPT_BACK = "MemoryKeptBack"
_RUNS = frozenset({ZoneState.CANARY.value, ZoneState.ACTIVE.value, ZoneState.VERIFIED.value, ZoneState.ATTACHED.value})
_MACHINE = ("kernel", "preempt", "hz", "accelerator", "memoryMib", "cpus")
_POD = ("kind", "image", "ports", "running", "ready", "restarts")


def node_entry(
    generation: int,
    state: JsonMapping | None,
    message: str,
    *,
    in_machine: bool = False,
    is_starting: bool = False,
    restarts: int = 0,
    before: object = None,
    wall_s: float = 0.0,
    kept_back_bytes: int | None = None,
) -> JsonObject:
    """One node's entry. `state`: of the zone's state file; `message`: why it does not run; `in_machine`: it is
    defined with `vm`; `before`: the entry that stands; `wall_s`: Unix time now; `kept_back_bytes`: memory that the node
    keeps back from pods, None unknown.
    """
    entry: JsonObject = {"observedGeneration": generation}
    if restarts:
        entry["restarts"] = restarts
    if message:
        entry |= {"state": "refused", "message": message[:MAX_TEXT]}
        found = _not(in_machine, "NotStarted", message)
    elif is_starting:
        entry["state"] = "starting"
        found = _not(in_machine, "Starting", "its keeper starts it")
    elif state is None or not state["running"]:
        entry["state"] = "unknown"
        found = _not(in_machine, "Unknown", "its keeper says nothing of it")
    else:
        entry |= {"state": state["state"], "setting": state["setting"], "groups": len(state["rows"])}
        if state["history"]:
            last = state["history"][-1]
            entry["lastChange"] = f"{last['what']}: {last['reason']}"[:MAX_TEXT]
        found = _of_running(state, entry) | _kept_back(state.get("machines"), kept_back_bytes)
    entry["conditions"] = _with_times(found, before, wall_s)
    return entry


def _not(in_machine: bool, reason: str, message: str) -> dict[str, tuple[bool, str, str]]:
    types = (READY, MACHINE) if in_machine else (READY,)
    return dict.fromkeys(types, (False, reason, message))


def _of_running(state: JsonMapping, entry: JsonObject) -> dict[str, tuple[bool, str, str]]:
    found: dict[str, tuple[bool, str, str]] = {}
    machine, pods = state.get("vm"), state.get("pods") or {}
    if machine is not None:
        entry["machine"] = {name: machine[name] for name in _MACHINE if name in machine}
        found[MACHINE] = (True, "Booted", f"Linux {machine['kernel']} under {machine['accelerator']}")
    if pods:
        entry["pods"] = [_pod(name, pod) for name, pod in pods.items()]
        waits = [name for name, pod in pods.items() if not pod["ready"] and not _is_done(pod)]
        said = f"{len(pods) - len(waits)} of {len(pods)} are ready or done"
        found[PODS] = (False, "PodsNotReady", f"{said}; not {', '.join(waits)}") if waits else (True, "PodsReady", said)
    runs = state["state"] in _RUNS
    if not runs:
        found[READY] = (False, "NoSetting", f"the zone is {state['state']}")
    elif pods and not found[PODS][0]:
        found[READY] = found[PODS]
    else:
        found[READY] = (True, "Running", f"{state['setting']}")
    return found


def _kept_back(machines: JsonMapping | None, kept_back_bytes: int | None) -> dict[str, tuple[bool, str, str]]:
    """Whether pods leave room for the memory of the node's machines, where no pod's requests stand for it."""
    if machines is None or kept_back_bytes is None or machines.get("inPod", True):
        return {}
    asked, kept = machines["memoryMib"][0], kept_back_bytes >> 20
    said = f"machines of this node have {asked} MiB, and it keeps {kept} MiB back from pods"
    if asked <= kept:
        return {KEPT_BACK: (True, "KeptBack", said)}
    return {KEPT_BACK: (False, "PodsMayTakeIt", f"{said}: raise systemReserved of its kubelet by {asked - kept} MiB")}


def _is_done(pod: JsonMapping) -> bool:
    return pod["kind"] == "batch" and not pod["running"] and pod["exit"] == 0


def _pod(name: str, pod: JsonMapping) -> JsonObject:
    shown: JsonObject = {"name": name, **{field: pod[field] for field in _POD}}
    if pod["exit"] is not None:
        shown["exit"] = pod["exit"]
        if pod["log"] and not pod["running"]:
            shown["message"] = str(pod["log"][-1])[:MAX_TEXT]
    return shown


def _with_times(found: Mapping[str, tuple[bool, str, str]], before: object, wall_s: float) -> list[dict[str, str]]:
    entries = before.get("conditions") if isinstance(before, dict) else None
    known = {entry.get("type"): entry for entry in entries or () if isinstance(entry, dict)}
    now = datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = []
    for name, (holds, reason, message) in sorted(found.items()):
        status = "True" if holds else "False"
        was = known.get(name, {})
        since = was.get("lastTransitionTime", now) if was.get("status") == status else now
        conditions.append(
            {
                "type": name,
                "status": status,
                "reason": reason,
                "message": message[:MAX_TEXT],
                "lastTransitionTime": since,
            }
        )
    return conditions
