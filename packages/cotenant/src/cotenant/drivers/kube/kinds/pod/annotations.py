"""The annotations of a pod that concern a scheduler, read once and checked.

Annotations are free text, and a misspelt objective must not pass for none. Each is read by itself; one that cannot be
read is named, so that the pod waits with that reason while the others still count. The names are in
model/cluster/annotations.py, classes and priorities are given by Koordinator's labels (model/cluster/labels.py).
Limits: annotations meant for simulated nodes are not read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import inf

import msgspec

from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.drivers.kube.kinds.pod.demands import read_demands, read_holdings, texts_of_holdings
from cotenant.drivers.kube.kinds.pod.schema import PodAnnotations
from cotenant.model.cluster.annotations import DEADLINE, ESTIMATE, GROUP_LIMIT, LOAD_LIMIT, OBJECTIVE_P99_MS
from cotenant.model.cluster.demands import NO_DEMANDS, NO_HOLDINGS, Demands, Holdings
from cotenant.model.cluster.disruption import NO_MARKS, DisruptionMarks, read_marks
from cotenant.model.cluster.observed import ExpectedRoom
from cotenant.model.cluster.pod import PodEstimate
from cotenant.model.errors import InvalidInput

_EXPECTED_ROOM = msgspec.json.Decoder(ExpectedRoom)
_ESTIMATE = msgspec.json.Decoder(PodEstimate)
_DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?|\.[0-9]+")


@dataclass(frozen=True, slots=True)
class Hints:
    """The annotations' values; `wrong` are sentences about those that cannot be read."""

    tenant: str = ""
    objective_p99_ms: float | None = None
    estimate: PodEstimate | None = None
    deadline_s: float = inf  # Unix time
    group: str = ""
    group_limit: int = 1
    load_limit: float = inf
    demands: Demands = NO_DEMANDS
    holds: Holdings = NO_HOLDINGS  # as they are written: PodReader decides what is believed
    holding_texts: Mapping[str, str] = field(default_factory=dict)  # the annotations that say so, by name
    expected_room: ExpectedRoom | None = None
    marks: DisruptionMarks = NO_MARKS
    wrong: tuple[str, ...] = ()


NO_HINTS = Hints()


def read_hints(written: PodAnnotations | None) -> Hints:
    """The annotations' values."""
    if written is None:
        return NO_HINTS
    wrong: list[str] = []

    def read_decimal(name: str, text: str | None, expected: str) -> float | None:
        """A decimal above 0."""
        if text is None:
            return None
        value = float(text) if _DECIMAL.fullmatch(text) and len(text) < 300 else 0.0
        if 0 < value < inf:
            return value
        wrong.append(str(InvalidInput(f"annotation {name}", text, expected)))
        return None

    objective = read_decimal(OBJECTIVE_P99_MS, written.objective_p99_ms, "milliseconds above 0")
    load_limit = read_decimal(LOAD_LIMIT, written.load_limit, "a fraction above 0")
    limit = read_decimal(GROUP_LIMIT, written.group_limit, "a whole number above 0")
    if limit is not None and limit != int(limit):
        wrong.append(str(InvalidInput(f"annotation {GROUP_LIMIT}", limit, "a whole number above 0")))
    deadline_s, estimate = inf, None
    if written.deadline is not None:
        try:
            deadline = msgspec.convert(written.deadline, datetime)
            if deadline.tzinfo is None:
                raise msgspec.ValidationError("no time zone")
            deadline_s = deadline.timestamp()
        except msgspec.ValidationError:
            wrong.append(
                str(InvalidInput(f"annotation {DEADLINE}", written.deadline, "a time such as 2026-01-31T12:00:00Z"))
            )
    if written.estimate is not None:
        try:
            estimate = _ESTIMATE.decode(written.estimate)
        except (*UNREADABLE, InvalidInput, OverflowError) as error:
            refusal = InvalidInput(f"annotation {ESTIMATE}", written.estimate, "an estimate as JSON", str(error))
            wrong.append(str(refusal))
    return Hints(
        tenant=written.tenant or "",
        objective_p99_ms=objective,
        estimate=estimate,
        deadline_s=deadline_s,
        group=written.group or "",
        group_limit=1 if limit is None else max(1, int(limit)),
        load_limit=inf if load_limit is None else load_limit,
        demands=read_demands(written, wrong),
        holds=read_holdings(written, wrong),
        holding_texts=texts_of_holdings(written),
        expected_room=_read_expected_room(written.expected_room),
        marks=read_marks(written.do_not_disrupt, written.safe_to_evict, written.prefer_no_eviction),
        wrong=tuple(wrong),
    )


def _read_expected_room(text: str | None) -> ExpectedRoom | None:
    """The room that a rebalancer makes. None where it cannot be read: the pod is scheduled without it."""
    if text is None:
        return None
    try:
        return _EXPECTED_ROOM.decode(text)
    except UNREADABLE:
        return None
