"""The grammar of `--what-if`: changes with blanks between them, checked before anything is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite

from cotenant.model.assess.what_if import (
    AddNodes,
    Change,
    LoseZone,
    NoOvercommit,
    PlaceAnew,
    RemoveNodes,
    ResizeCase,
    ScaledLoad,
    WhatIfChanges,
)
from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import milli, whole
from cotenant.services.scheduling.names import cluster_profile

OPTION = "--what-if"
FORMS = (
    "add=N:SHAPE, remove=N:SHAPE, zone-lost=ZONE, load=FACTOR, overcommit=off, policy=PROFILE or "
    "size=NAMESPACE/NAME:cpu=500m,memory=1Gi"
)
MAX_CASES = 4
MAX_NODES = 10_000
MAX_LOAD = 10.0
_GAP = re.compile(r"[\s;]+")


def read_what_ifs(written: Sequence[str]) -> tuple[WhatIfChanges, ...]:
    """Each text is one case. Raises `InvalidInput`."""
    if len(written) > MAX_CASES:
        raise InvalidInput(OPTION, f"{len(written)} of them", f"at most {MAX_CASES}")
    return tuple(_case(text) for text in written)


def check_seeds(seeds: int) -> None:
    """Raises `InvalidInput`."""
    if not 1 <= seeds <= 100:
        raise InvalidInput("--seeds", seeds, "1 to 100")


def _case(text: str) -> WhatIfChanges:
    parts = [part for part in _GAP.split(text) if part]
    if not parts:
        raise InvalidInput(OPTION, text, f"a change: {FORMS}", "several changes of one case: with blanks between")
    changes = tuple(_change(part) for part in parts)
    if sum(isinstance(change, PlaceAnew) for change in changes) > 1:
        raise InvalidInput(OPTION, text, "one policy", "two of them are two cases: give the option twice")
    return WhatIfChanges(" ".join(parts), changes)


def _change(part: str) -> Change:
    name, _, value = part.partition("=")
    if name in ("add", "remove"):
        count, _, shape = value.partition(":")
        if not (count.isascii() and count.isdigit() and 1 <= int(count) <= MAX_NODES and shape):
            expected = f"N:SHAPE, N from 1 to {MAX_NODES}"
            hint = "SHAPE: an instance type, a node's name, or CPUxMEMORY such as 16x64Gi"
            raise InvalidInput(f"{OPTION} {name}", value, expected, hint)
        return AddNodes(int(count), shape) if name == "add" else RemoveNodes(int(count), shape)
    if name == "zone-lost" and value:
        return LoseZone(value)
    if name == "load":
        return ScaledLoad(_factor(value))
    if name == "overcommit":
        if value != "off":
            raise InvalidInput(f"{OPTION} {name}", value, "off")
        return NoOvercommit()
    if name == "policy":
        return PlaceAnew(cluster_profile(f"{OPTION} policy", value).name if not value.endswith(".yaml") else value)
    if name == "size":
        return _resize(value)
    raise InvalidInput(OPTION, part, f"one of {FORMS}")


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = float("nan")
    if not (isfinite(factor) and 0 < factor <= MAX_LOAD):
        raise InvalidInput(f"{OPTION} load", text, f"a factor above 0, {MAX_LOAD:g} at most", "such as 1.3")
    return factor


def _resize(value: str) -> ResizeCase:
    field = f"{OPTION} size"
    workload, _, amounts = value.partition(":")
    if workload.count("/") not in (1, 2) or not all(workload.split("/")):
        raise InvalidInput(field, value, "NAMESPACE/NAME:cpu=AMOUNT,memory=AMOUNT", "such as shop/web:cpu=500m")
    cpu_m: int | None = None
    memory_bytes: int | None = None
    for amount in amounts.split(","):
        resource, _, text = amount.partition("=")
        if resource == "cpu" and cpu_m is None:
            cpu_m = milli(text, f"{field} cpu")
        elif resource == "memory" and memory_bytes is None:
            memory_bytes = whole(text, f"{field} memory")
        else:
            raise InvalidInput(field, value, "cpu=AMOUNT and memory=AMOUNT, each at most once")
    if (cpu_m is not None and cpu_m < 0) or (memory_bytes is not None and memory_bytes < 0):
        raise InvalidInput(field, value, "amounts of 0 or more")
    return ResizeCase(workload, cpu_m, memory_bytes)
