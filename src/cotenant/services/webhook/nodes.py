"""Amplification of a node's allocatable CPU and memory as its status is written.

Problem: kubelets report what a machine has, other writers send the amplified amounts back, and both write the same field. Choice: a status whose CPU or memory differs from the stored one is
a report of the kubelet; so is one that its own kubelet writes, if the amounts fit the capacity in it: a kubelet never reports more, but a patch of its may rest on an older status. The
arithmetic is that of policy/overcommit/amplification.py. Limits: acts when a status is written, so a changed ratio shows at the node's next report.
"""

from __future__ import annotations

import msgspec

from cotenant.model.cluster.annotations import AMPLIFICATION_RATIO, RAW_ALLOCATABLE
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object
from cotenant.model.resources import format_amount, parse_amount
from cotenant.policy.admission.documents import Document, annotations_of, copied, mapping, section
from cotenant.policy.overcommit.amplification import AMPLIFIED, amplify, kubelet_changed


def amplified_node(node: Document, old: Document | None, *, by_own_kubelet: bool) -> Document:
    """The node to store for a write of its status; `old` is the stored one. The result may be `node` itself.

    Raises `InvalidInput` for ratios or amounts that cannot be read.
    """
    annotations = annotations_of(node)
    text, known = annotations.get(AMPLIFICATION_RATIO), annotations.get(RAW_ALLOCATABLE)
    if not text and known is None:
        return node
    status = mapping(node, "status")
    given = _amounts(mapping(status, "allocatable", "status"), "status.allocatable")
    before = None if old is None else _amounts(mapping(mapping(old, "status"), "allocatable"), "status.allocatable")
    raw = _amounts(json_object(f"annotation {RAW_ALLOCATABLE}", known), RAW_ALLOCATABLE) if known else {}
    by_kubelet = not raw or kubelet_changed(before, given)
    if not by_kubelet and by_own_kubelet:
        capacity = _amounts(mapping(status, "capacity", "status"), "status.capacity")
        by_kubelet = all(amount <= capacity.get(name, amount - 1) for name, amount in given.items())
    made = amplify(given, _ratios(text) if text else None, raw, by_kubelet=by_kubelet)
    changed: Document = copied(node)
    written = section(section(changed, "metadata"), "annotations")
    if made.raw is None:
        written.pop(RAW_ALLOCATABLE, None)
    elif by_kubelet:
        texts = {name: format_amount(name, amount) for name, amount in made.raw.items()}
        written[RAW_ALLOCATABLE] = msgspec.json.encode(texts, order="sorted").decode()
    allocatable = section(section(changed, "status"), "allocatable")
    for name, amount in made.allocatable.items():
        if amount != given[name]:
            allocatable[name] = format_amount(name, amount)
    return changed


def _ratios(text: str) -> dict[str, float]:
    where = f"annotation {AMPLIFICATION_RATIO}"
    found = {}
    for name, ratio in json_object(where, text, "a JSON object of ratios by resource").items():
        if isinstance(ratio, bool) or not isinstance(ratio, int | float):
            raise InvalidInput(f"{where}: {name}", ratio, "a number of 1 or more")
        if name in AMPLIFIED:
            found[name] = float(ratio)
    return found


def _amounts(written: Document, where: str) -> dict[str, int]:
    return {
        name: parse_amount(name, written[name], f"{where}.{name}")
        for name in AMPLIFIED
        if written.get(name) is not None
    }
