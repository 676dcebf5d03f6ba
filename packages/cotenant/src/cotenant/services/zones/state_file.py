"""The state of a running zone as a file, for the commands that show it.

`cotenant zone list` and `inspect` must answer without a server in each zone, also about a zone that ended. The running
process writes one JSON file per zone, renamed into place after each period; a reader takes a zone for running while its
process is alive.
Limits: as old as one period; history as the engine keeps it.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.model.zones.state import ZoneChange
from cotenant.model.zones.table import ZoneRow
from cotenant.model.zones.zone_reading import GroupReading, ZoneReading

if TYPE_CHECKING:  # readers of states need no engine
    from cotenant.engine.zones.scene_memory import SceneMemory
    from cotenant.engine.zones.zone import Zone

FOLDER = Path("/run/cotenant/zones")


def state_of(zone: Zone, now_s: float, wall_s: float, last: ZoneReading | None) -> JsonObject:
    """The zone as plain values. Times of changes are Unix times."""
    return {
        "zone": zone.name,
        "pid": os.getpid(),
        "writtenAt": wall_s,
        "state": zone.state.value,
        "setting": str(zone.setting),
        "rows": {group: _row(row) for group, row in zone.rows.items()},
        "reading": _reading(last),
        "banned": {str(setting): round(left, 1) for setting, left in zone.banned(now_s).items()},
        "reclaimed": {
            group: {"toBytes": series.to_bytes, "askedBytes": series.asked_bytes, "inUse": series.is_over}
            for group, series in sorted(zone.reclaiming.series.items())
        },
        "history": [_change(change, wall_s - now_s) for change in zone.history],
        "scenes": None if zone.scenes is None else _scenes(zone.scenes),
    }


def lacking_mib(machines: JsonMapping) -> int | None:
    """How much more memory the node would have to keep back from pods for its machines (`machines` of a state); None
    where nobody told, or the requests of the keeper's pod stand for them.
    """
    kept_mib = machines.get("keptBackMib")
    if kept_mib is None or machines.get("inPod", True):
        return None
    return max(0, int(machines["memoryMib"][0]) - int(kept_mib))


def _scenes(memory: SceneMemory) -> JsonObject:
    return {
        "now": None if memory.scene is None else str(memory.scene),
        "evidence": {}
        if memory.evidence is None
        else {term.name: f"{term.value} {term.unit}".strip() for term in memory.evidence.terms},
        "readings": memory.table.readings,
        "restored": memory.restored,
        "learned": {
            str(scene): {
                mode.value: {"readings": found.number, "outcome": round(found.mean, 3)} for mode, found in modes.items()
            }
            for scene, modes in sorted(memory.table.scenes.items())
        },
    }


def _row(row: ZoneRow) -> JsonObject:
    return {
        "class": row.zone_class.name.lower(),
        "weight": row.weight,
        "sliceUs": row.slice_us,
        "lateUs": row.late_us,
        **({"memoryLowBytes": row.memory_low_bytes} if row.memory_low_bytes else {}),
        **({"ioWeight": row.io_weight} if row.io_weight else {}),
        **({"reclaimToBytes": row.reclaim_to_bytes} if row.reclaim_to_bytes else {}),
        **({"threads": {entry.name: entry.zone_class.name.lower() for entry in row.threads}} if row.threads else {}),
        **({"party": row.party} if row.party else {}),
    }


def _reading(reading: ZoneReading | None) -> JsonObject | None:
    if reading is None:
        return None
    return {
        "seconds": round(reading.length_s, 3),
        "latePerS": round(reading.late_per_s, 3),
        "batchCpus": round(reading.batch_cpus, 3),
        "burn": None if reading.burn is None else round(reading.burn, 3),
        "stall": None if reading.stall is None else round(reading.stall, 3),
        "groups": {group.group: _group(group) for group in reading.groups},
    }


def _group(group: GroupReading) -> JsonObject:
    found: JsonObject = {"late": group.late, "worstUs": group.worst_us, "cpuUs": group.cpu_us}
    if group.burn is not None:
        found["burn"] = round(group.burn, 3)
    if group.resources is not None:
        found["memoryStall"] = round(group.resources.memory_stall, 3)
        found["ioStall"] = round(group.resources.io_stall, 3)
    return found


def _change(change: ZoneChange, offset_s: float) -> JsonObject:
    return {
        "at": round(change.at_s + offset_s, 3),
        "event": event_of(change),
        "what": change.what,
        "rule": change.reason.rule,
        "reason": change.reason.text,
        "kept": change.kept,
        "outcome": change.outcome,
        "rows": {group: {"before": _row(was), "after": _row(now)} for group, was, now in change.rows},
        "before": _reading(change.before),
        "after": _reading(change.after),
    }


def event_of(change: ZoneChange) -> str:
    """What happened before a change: late dispatches of services and burn rates for a decision, else the change's
    own cause.
    """
    match change.reason.rule:
        case "zone-start":
            return "the zone was started"
        case "zone-request":
            return "a user's request"
        case "zone-rows" | "zone-switch" | "zone-protect" | "zone-reclaim" if change.before is not None:
            return _measured(change.before)
    return change.reason.text


def _measured(reading: ZoneReading) -> str:
    found = []
    for group in reading.groups:
        if group.late:
            worst = f", {group.worst_us / 1000:.1f} ms at most" if group.worst_us else ""
            found.append(f"{group.group}: {group.late / reading.length_s:.1f} late dispatches a second{worst}")
        if group.resources is not None and max(group.resources.memory_stall, group.resources.io_stall) >= 0.05:
            memory, io = 100 * group.resources.memory_stall, 100 * group.resources.io_stall
            found.append(f"{group.group}: waited {memory:.0f} % of the time for memory, {io:.0f} % for its disk")
        if group.burn is not None:
            found.append(f"{group.group}: burn rate {group.burn:.2f}")
    return "; ".join(found) or f"no late dispatch in {reading.length_s:.1f} s, batch on {reading.batch_cpus:.2f} CPUs"


def write_state(folder: Path, state: JsonMapping) -> None:
    """Write beside its place and rename."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{state['zone']}.json"
    beside = place.with_suffix(f".{os.getpid()}")
    beside.write_text(json.dumps(state))
    beside.replace(place)


def remove_state(folder: Path, zone: str) -> None:
    """Forget a zone that ended, with its log and what it learned. Idempotent."""
    for suffix in ("json", "log", "log.1", "scenes", "scenes.new", "bans", "bans.new"):
        (folder / f"{zone}.{suffix}").unlink(missing_ok=True)


def read_states(folder: Path) -> list[JsonObject]:
    """All zones of this host, by name. A file that is not a zone's state is left out."""
    found = []
    for path in sorted(folder.glob("*.json")):
        with contextlib.suppress(OSError, ValueError):
            state = json.loads(path.read_text())
            if isinstance(state, dict) and "zone" in state:
                found.append({**state, "running": state.get("state") != "gone" and _alive(state.get("pid"))})
    return found


def read_state(folder: Path, name: str) -> JsonObject:
    """One zone. Raises `InvalidInput` where there is none of this name."""
    states = read_states(folder)
    for state in states:
        if state["zone"] == name:
            return state
    known = ", ".join(state["zone"] for state in states)
    raise InvalidInput("zone", name, "a zone of this host", f"zones are {known}" if known else "there are none")


def _alive(pid: object) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    if not isinstance(pid, int):
        return False
    try:
        # the state is the first field after the name, which may have spaces and brackets (proc_pid_stat(5))
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")
