"""Amplification of a node's allocatable CPU and memory as its status is written.

Kubelets report what a machine has, other writers send the amplified amounts back, and both write the same field. A
status whose CPU or memory differs from the stored one is a report of the kubelet; so is one that its own kubelet
writes, if the amounts fit the capacity in it: a kubelet never reports more, but a patch of its may rest on an older
status. The arithmetic is that of policy/overcommit/amplification.py. What cannot be used is ignored with a sentence and
never refused: a node whose status cannot be written keeps its last one, so a dead node would stay Ready.
Limits: acts when a status is written, so a changed ratio shows at the node's next report.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from cotenant.model.cluster.annotations import AMPLIFICATION_RATIO, RAW_ALLOCATABLE
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object
from cotenant.model.resources import format_amount, parse_amount
from cotenant.policy.admission.documents import Document, annotations_of, copied, mapping, section
from cotenant.policy.overcommit.amplification import AMPLIFIED, amplify, kubelet_changed, usable_ratios


@dataclass(frozen=True, slots=True)
class NodeReview:
    """The node to store, which may be the one that was given, and what of its annotations and amounts was ignored,
    a sentence each.
    """

    node: Document
    ignored: tuple[str, ...] = ()


def amplified_node(node: Document, old: Document | None, *, by_own_kubelet: bool) -> NodeReview:
    """What becomes of a write of a node's status; `old` is the stored node.

    A ratio that cannot be used counts as 1. Raw amounts that cannot be read are taken from the next report of the
    node's own kubelet; until then the status stays as it is written.
    """
    ignored: list[str] = []
    try:
        made = _amplified(node, old, by_own_kubelet, ignored)
    except InvalidInput as error:
        made = node
        ignored.append(f"the status is stored as it was written: {error}")
    return NodeReview(made, tuple(ignored))


def _amplified(node: Document, old: Document | None, by_own_kubelet: bool, ignored: list[str]) -> Document:
    annotations = annotations_of(node)
    text, known = annotations.get(AMPLIFICATION_RATIO), annotations.get(RAW_ALLOCATABLE)
    if not text and known is None:
        return node
    status = mapping(node, "status")
    given = _amounts(mapping(status, "allocatable", "status"), "status.allocatable")
    before = None if old is None else _stored(old)
    raw, is_raw_lost = _raw(known, ignored)
    by_kubelet = not is_raw_lost and (not raw or kubelet_changed(before, given))
    if not by_kubelet and by_own_kubelet:
        capacity = _amounts(mapping(status, "capacity", "status"), "status.capacity")
        by_kubelet = all(amount <= capacity.get(name, amount - 1) for name, amount in given.items())
    if is_raw_lost and not by_kubelet:
        return node  # the amounts may be amplified already
    ratios, wrong = usable_ratios(f"annotation {AMPLIFICATION_RATIO}", text) if text else (None, ())
    ignored.extend(f"{entry}: not amplified" for entry in wrong)
    made = amplify(given, ratios, raw, by_kubelet=by_kubelet)
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


def _raw(known: str | None, ignored: list[str]) -> tuple[dict[str, int], bool]:
    """The raw amounts, and whether there is an annotation that cannot be read."""
    if not known:
        return {}, False
    where = f"annotation {RAW_ALLOCATABLE}"
    try:
        return _amounts(json_object(where, known), where), False
    except InvalidInput as error:
        ignored.append(str(error))
        return {}, True


def _stored(old: Document) -> dict[str, int] | None:
    """The stored amounts; None where they cannot be read, so that nothing counts as changed."""
    try:
        return _amounts(mapping(mapping(old, "status"), "allocatable"), "status.allocatable")
    except InvalidInput:
        return None


def _amounts(written: Document, where: str) -> dict[str, int]:
    return {
        name: parse_amount(name, written[name], f"{where}.{name}")
        for name in AMPLIFIED
        if written.get(name) is not None
    }
