"""Gangs, CPUs, devices and reservations in a pod's annotations: what it asks, and what it was given.

Problem: these annotations are JSON and numbers in text, written by people and by schedulers, and one that cannot be read must neither be
taken for none nor stop the others. Choice: each is read by the value that it becomes (model/), and what is wrong becomes a sentence about that
annotation. Limits: what is wrong about a gang is kept with its notes and stops nobody: the default counts, and the gang tells of it.

Source: Koordinator, apis/extension/{coscheduling,resource,numa_aware,device_share}.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from math import isfinite
from typing import TypeVar

from cotenant.drivers.kube.kinds.attempting import Attempt
from cotenant.drivers.kube.kinds.objects import GangAnnotations, PodAnnotations
from cotenant.drivers.kube.kinds.pod_reservations import read_affinity
from cotenant.model.cluster.demands import NO_DEMANDS, NO_HOLDINGS, Demands, Holdings
from cotenant.model.cpus.spec import RESOURCE_STATUS, NumaTopologySpec, ResourceSpec, ResourceStatus
from cotenant.model.devices.allocation import DEVICE_ALLOCATED, format_allocations, parse_allocations
from cotenant.model.devices.hints import parse_hints, parse_joint, parse_partition_spec
from cotenant.model.errors import InvalidInput
from cotenant.model.groups import gang
from cotenant.model.groups.reservation_notes import ALLOCATED, Allocated
from cotenant.model.json_object import json_object

T = TypeVar("T")

_DURATION = re.compile(r"([0-9]*\.?[0-9]+)(ns|us|µs|ms|s|m|h)")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def read_demands(written: PodAnnotations, wrong: list[str]) -> Demands:
    """What the pod asks; sentences about what cannot be read are added to `wrong`."""
    attempt = _Attempt(wrong)
    found = Demands(
        gang=_gang(written),
        cpus=attempt(ResourceSpec.parse, written.resource_spec),
        numa=attempt(NumaTopologySpec.parse, written.numa_topology_spec),
        device_hints=attempt(parse_hints, written.device_allocate_hint) or (),
        joint_devices=attempt(parse_joint, written.device_joint_allocate),
        partition=attempt(parse_partition_spec, written.gpu_partition_spec),
        reservation_affinity=attempt(read_affinity, written.reservation_affinity),
    )
    return found if found != NO_DEMANDS else NO_DEMANDS


def read_holdings(written: PodAnnotations, wrong: list[str]) -> Holdings:
    """What the pod was given; sentences about what cannot be read are added to `wrong`."""
    attempt = _Attempt(wrong)
    found = Holdings(
        cpus=attempt(ResourceStatus.parse, written.resource_status),
        devices=attempt(parse_allocations, written.device_allocated) or (),
        reservation=attempt(Allocated.parse, written.reservation_allocated or None),
    )
    return found if found != NO_HOLDINGS else NO_HOLDINGS


def written_holdings(holds: Holdings, has: Holdings = NO_HOLDINGS) -> dict[str, str]:
    """The annotations that say what a pod was given; none for nothing. Where it `has` the name of a reservation from which it did not draw, that is
    emptied: a bind can write over an annotation, and not take it off.
    """
    told = {}
    if holds.cpus is not None:
        told[RESOURCE_STATUS] = holds.cpus.format()
    if holds.devices:
        told[DEVICE_ALLOCATED] = format_allocations(holds.devices)
    if holds.reservation is not None:
        told[ALLOCATED] = holds.reservation.format()
    elif has.reservation is not None:
        told[ALLOCATED] = ""
    return told


def duration_s(text: str, field: str) -> float:
    """A duration as Go writes it ("1h30m", "90s"). Raises `InvalidInput`."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidInput(field, text, 'a duration such as "10m" or "90s"')
    total = sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    if not isfinite(total):
        raise InvalidInput(field, text, "a duration that is finite")
    return total


class _Attempt:
    """Reads texts that may be absent."""

    def __init__(self, wrong: list[str]) -> None:
        self._attempt = Attempt(wrong)

    def __call__(self, read: Callable[[str], T], text: str | None) -> T | None:
        return None if text is None else self._attempt(None, lambda: read(text))


def _gang(written: PodAnnotations) -> gang.GangNotes | None:
    said = (
        written.gang_name, written.gang_min_available, written.gang_total_number, written.gang_waiting_time,
        written.gang_mode, written.gang_groups, written.gang_match_policy, written.gang_topology,
    )  # fmt: skip
    if all(each is None for each in said):
        return None
    return read_gang(written)


def read_gang(written: GangAnnotations) -> gang.GangNotes:
    """What annotations say of a gang; sentences about what cannot be used are kept in the notes, and stop nobody."""
    wrong: list[str] = []
    attempt = _Attempt(wrong)
    return gang.GangNotes(
        name=written.gang_name or "",
        min_available=attempt(partial(_count, gang.MIN_AVAILABLE), written.gang_min_available),
        total=attempt(partial(_count, gang.TOTAL_NUMBER), written.gang_total_number),
        wait_s=attempt(partial(duration_s, field=f"annotation {gang.WAITING_TIME}"), written.gang_waiting_time),
        mode=attempt(partial(_word, gang.Mode, gang.MODE), written.gang_mode),
        groups=attempt(_groups, written.gang_groups) or (),
        match_policy=attempt(partial(_word, gang.MatchPolicy, gang.MATCH_POLICY), written.gang_match_policy),
        topology=attempt(_topology, written.gang_topology),
        wrong=tuple(wrong),
    )


def _count(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InvalidInput(f"annotation {name}", text, "a whole number")
    return int(text)


def _groups(text: str) -> tuple[str, ...]:
    field, expected = f"annotation {gang.GROUPS}", 'a JSON list such as ["namespace/name"]'
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput(field, text, expected) from None
    if not isinstance(told, list) or not all(isinstance(each, str) and each for each in told):
        raise InvalidInput(field, text, expected)
    return tuple(dict.fromkeys(told))


def _topology(text: str) -> gang.GangTopology:
    field = f"annotation {gang.TOPOLOGY}"
    expected = 'a JSON object such as {"keys": ["topology.kubernetes.io/rack"], "required": false}, narrowest key first'
    told = json_object(field, text, expected)
    keys = told.get("keys")
    if not isinstance(keys, list) or not keys or not told.keys() <= {"keys", "required"}:
        raise InvalidInput(field, text, expected)
    if not all(isinstance(key, str) and key for key in keys) or not isinstance(told.get("required", False), bool):
        raise InvalidInput(field, text, expected)
    return gang.GangTopology(tuple(dict.fromkeys(keys)), told.get("required", False))


W = TypeVar("W", gang.Mode, gang.MatchPolicy)


def _word(words: type[W], name: str, text: str) -> W:
    try:
        return words(text)
    except ValueError:
        raise InvalidInput(f"annotation {name}", text, f"one of {', '.join(words)}") from None
