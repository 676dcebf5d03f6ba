"""A gang in the annotations of a pod or a PodGroup.

Limits: what is wrong about a gang is kept with its notes and stops no pod: the default counts, and the gang reports it.
Source: Koordinator, apis/extension/coscheduling.go.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TypeVar

from msgspec import field

from cotenant.drivers.kube.kinds.attempting import AttemptText
from cotenant.drivers.kube.kinds.durations import duration_s
from cotenant.drivers.kube.kinds.kind import ApiStruct, Text
from cotenant.model.errors import InvalidInput
from cotenant.model.groups import gang
from cotenant.model.groups.network_topology import MUST_GATHER, PREFER_GATHER, GatherRule
from cotenant.model.json_object import json_object


class GangAnnotations(ApiStruct, frozen=True):
    """The annotations about a gang that a pod and a PodGroup may both have."""

    gang_name: Text = field(default=None, name=gang.NAME)
    gang_min_available: Text = field(default=None, name=gang.MIN_AVAILABLE)
    gang_total_number: Text = field(default=None, name=gang.TOTAL_NUMBER)
    gang_waiting_time: Text = field(default=None, name=gang.WAITING_TIME)
    gang_mode: Text = field(default=None, name=gang.MODE)
    gang_groups: Text = field(default=None, name=gang.GROUPS)
    gang_match_policy: Text = field(default=None, name=gang.MATCH_POLICY)
    gang_topology: Text = field(default=None, name=gang.TOPOLOGY)
    gang_network_topology: Text = field(default=None, name=gang.NETWORK_TOPOLOGY)
    gang_network_index: Text = field(default=None, name=gang.NETWORK_TOPOLOGY_INDEX)


def read_gang(written: GangAnnotations) -> gang.GangNotes:
    """A gang's settings from annotations; sentences about those that cannot be used are kept beside them, and stop
    no pod.
    """
    wrong: list[str] = []
    attempt = AttemptText(wrong)
    gather, ignored = attempt(_gather, written.gang_network_topology) or ((), ())
    wrong.extend(ignored)
    if written.gang_network_index is not None:
        wrong.append(
            f"annotation {gang.NETWORK_TOPOLOGY_INDEX} is not read: members with the largest requests go first"
        )
    return gang.GangNotes(
        name=written.gang_name or "",
        min_available=attempt(partial(_count, gang.MIN_AVAILABLE), written.gang_min_available),
        total=attempt(partial(_count, gang.TOTAL_NUMBER), written.gang_total_number),
        wait_s=attempt(partial(duration_s, field=f"annotation {gang.WAITING_TIME}"), written.gang_waiting_time),
        mode=attempt(partial(_word, gang.GangMode, gang.MODE), written.gang_mode),
        groups=attempt(_groups, written.gang_groups) or (),
        match_policy=attempt(partial(_word, gang.MatchPolicy, gang.MATCH_POLICY), written.gang_match_policy),
        topology=attempt(_topology, written.gang_topology),
        gather=gather,
        wrong=tuple(wrong),
    )


def _count(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InvalidInput(f"annotation {name}", text, "a whole number")
    return int(text)


def _groups(text: str) -> tuple[str, ...]:
    field, expected = f"annotation {gang.GROUPS}", 'a JSON list such as ["namespace/name"]'
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput(field, text, expected) from None
    if not isinstance(parsed, list) or not all(isinstance(entry, str) and entry for entry in parsed):
        raise InvalidInput(field, text, expected)
    return tuple(dict.fromkeys(parsed))


def _topology(text: str) -> gang.GangTopology:
    field = f"annotation {gang.TOPOLOGY}"
    expected = 'a JSON object such as {"keys": ["topology.kubernetes.io/rack"], "required": false}, narrowest key first'
    parsed = json_object(field, text, expected)
    keys = parsed.get("keys")
    if not isinstance(keys, list) or not keys or not parsed.keys() <= {"keys", "required"}:
        raise InvalidInput(field, text, expected)
    if not all(isinstance(key, str) and key for key in keys) or not isinstance(parsed.get("required", False), bool):
        raise InvalidInput(field, text, expected)
    return gang.GangTopology(tuple(dict.fromkeys(keys)), parsed.get("required", False))


def _gather(text: str) -> tuple[tuple[GatherRule, ...], tuple[str, ...]]:
    """The rules, and messages about what is not considered."""
    field = f"annotation {gang.NETWORK_TOPOLOGY}"
    expected = 'a JSON object such as {"gatherStrategy": [{"layer": "BlockLayer", "strategy": "MustGather"}]}'
    written = json_object(field, text, expected).get("gatherStrategy", [])
    if not isinstance(written, list) or not all(isinstance(entry, dict) for entry in written):
        raise InvalidInput(field, text, expected)
    rules, ignored = [], []
    for entry in written:
        layer, strategy = entry.get("layer"), entry.get("strategy")
        if not isinstance(layer, str) or not layer or strategy not in (MUST_GATHER, PREFER_GATHER):
            raise InvalidInput(field, text, expected)
        rules.append(GatherRule(layer, strategy == MUST_GATHER))
        if entry.get("podCountMultiple"):
            ignored.append(f"{field}: podCountMultiple of layer {layer} is not considered")
    return tuple(rules), tuple(ignored)


W = TypeVar("W", gang.GangMode, gang.MatchPolicy)


def _word(words: type[W], name: str, text: str) -> W:
    try:
        return words(text)
    except ValueError:
        raise InvalidInput(f"annotation {name}", text, f"one of {', '.join(words)}") from None
