"""What extenders are sent, and what their answers say.

Names of fields are matched whatever their case, as Go decodes them. An answer that names a node which was not asked
about, or that is not of the form, is refused as a whole; a score outside 0 to 10 refuses the scores.
Source: k8s.io/kube-scheduler/extender/v1, v1.36.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from cotenant.model.cluster.extender import MAX_PRIORITY
from cotenant.model.cluster.node import Node
from cotenant.model.errors import Permanent
from cotenant.model.resources import format_amount

_encode = msgspec.json.Encoder().encode


class Filtered(NamedTuple):
    """What a filter left, and why it refused others."""

    nodes: tuple[str, ...]
    refused: Mapping[str, str]


def arguments(pod: bytes, names: Sequence[str], nodes: Sequence[Node] | None) -> bytes:
    """ExtenderArgs: names of nodes, or nodes where they are given."""
    if nodes is None:
        return _encode({"Pod": msgspec.Raw(pod), "Nodes": None, "NodeNames": list(names)})
    items = [_node(node) for node in nodes]
    return _encode({"Pod": msgspec.Raw(pod), "Nodes": {"items": items}, "NodeNames": None})


def _node(node: Node) -> Mapping[str, object]:
    taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect.value} for taint in node.taints]
    allocatable = {name: format_amount(name, amount) for name, amount in node.allocatable}
    return {
        "metadata": {"name": node.name, "labels": dict(node.labels.items)},
        "spec": {"taints": taints, "unschedulable": node.unschedulable},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def read_filtered(body: bytes, asked: Collection[str]) -> Filtered:
    """ExtenderFilterResult. Raises `Permanent`."""
    given = _fields(body)
    if given.get("error"):
        raise Permanent(str(given["error"])[:500])
    names = given.get("nodenames")
    if names is None:
        nodes = given.get("nodes")
        items = _lower(nodes).get("items") if isinstance(nodes, dict) else ()
        names = [_name(item) for item in items or ()] if isinstance(items, list | tuple) else ()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise Permanent("its filter answers no names of nodes")
    for name in names:
        if name not in asked:
            raise Permanent(f"its filter names {name[:100]!r}, a node that it was not asked about")
    refused: dict[str, str] = {}
    for field in ("failednodes", "failedandunresolvablenodes"):
        why = given.get(field)
        if isinstance(why, dict):
            refused |= {str(name): str(reason)[:200] for name, reason in why.items() if name in asked}
    return Filtered(tuple(dict.fromkeys(names)), refused)


def _name(item: object) -> object:
    metadata = _lower(item).get("metadata") if isinstance(item, dict) else None
    return _lower(metadata).get("name") if isinstance(metadata, dict) else None


def read_scores(body: bytes, asked: Collection[str]) -> Mapping[str, int]:
    """HostPriorityList: by node. Raises `Permanent`."""
    listed = _decode(body)
    if listed is None:
        return {}
    if not isinstance(listed, list):
        raise Permanent("its scores are no list")
    found: dict[str, int] = {}
    for entry in listed:
        fields = _lower(entry) if isinstance(entry, dict) else {}
        host, score = fields.get("host"), fields.get("score", 0)
        if not isinstance(host, str) or not isinstance(score, int) or isinstance(score, bool):
            raise Permanent("its scores are not of a host and a whole number")
        if host not in asked:
            raise Permanent(f"it scores {host[:100]!r}, a node that it was not asked about")
        if not 0 <= score <= MAX_PRIORITY:
            raise Permanent(f"its score {score} is not of 0 to {MAX_PRIORITY}")
        found[host] = score
    return found


def preemption(pod: bytes, node: str, victims: Mapping[str, bytes], violations: int, by_uid: bool) -> bytes:
    """ExtenderPreemptionArgs for one node: the victims by their UIDs, or as pods where it keeps none."""
    if by_uid:
        pods: list[object] = [{"UID": uid} for uid in victims]
        name = "NodeNameToMetaVictims"
    else:
        pods = [msgspec.Raw(pod_bytes) for pod_bytes in victims.values()]
        name = "NodeNameToVictims"
    return _encode({"Pod": msgspec.Raw(pod), name: {node: {"Pods": pods, "NumPDBViolations": violations}}})


def read_victims(body: bytes, node: str) -> tuple[str, ...] | None:
    """ExtenderPreemptionResult: UIDs of the victims on the node; None = not there. Raises `Permanent`."""
    by_node = _fields(body).get("nodenametometavictims")
    if by_node is None:
        return None
    if not isinstance(by_node, dict) or any(name != node for name in by_node):
        raise Permanent("it proposes victims on a node that it was not asked about")
    if node not in by_node:
        return None
    victims = _lower(by_node[node]).get("pods") if isinstance(by_node[node], dict) else None
    listed = victims if isinstance(victims, list) else []
    uids = [_lower(pod).get("uid") for pod in listed if isinstance(pod, dict)]
    if not all(isinstance(uid, str) for uid in uids):
        raise Permanent("its victims have no UIDs")
    return tuple(str(uid) for uid in uids)


def binding(namespace: str, name: str, uid: str, node: str) -> bytes:
    """ExtenderBindingArgs."""
    return _encode({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})


def check_bound(body: bytes) -> None:
    """ExtenderBindingResult. Raises `Permanent` for its error."""
    said = _fields(body).get("error")
    if said:
        raise Permanent(str(said)[:500])


def _fields(body: bytes) -> Mapping[str, object]:
    given = _decode(body)
    if not isinstance(given, dict):
        raise Permanent("it answers no object")
    return _lower(given)


def _lower(given: Mapping[str, object]) -> Mapping[str, object]:
    return {str(key).lower(): value for key, value in given.items()}


def _decode(body: bytes) -> object:
    try:
        found: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Permanent(f"it answers no JSON: {error}") from None
    return found
