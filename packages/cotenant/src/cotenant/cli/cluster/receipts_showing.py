"""Prints RightSizings and their receipts, as tables or as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cotenant.cli.tables import print_folded, print_words
from cotenant.model.quantities import format_bytes, format_milli
from cotenant.model.sizes.container import ContainerSize
from cotenant.model.sizes.right_sizing import RightSizing


class _Row(msgspec.Struct, rename="camel"):
    """One object, for `--json`."""

    sizing: str
    workload: str
    mode: str
    state: str
    message: str
    suggestion: object
    applied: object
    receipts: object


def show(sizings: Sequence[RightSizing], as_json: bool) -> int:
    """Print; returns the exit status."""
    if as_json:
        print(msgspec.json.encode([_row(sizing) for sizing in sizings]).decode())
        return 0
    if not sizings:
        print("no RightSizings")
        return 0
    print_words(
        ("sizing", "workload", "mode", "state", "suggested", "id"),
        [
            (
                sizing.key,
                f"{sizing.workload_kind}/{sizing.workload_name}",
                sizing.mode.value,
                sizing.status.state or "not seen",
                changed(sizing.status.suggestion.before, sizing.status.suggestion.after)
                if sizing.status.suggestion
                else "-",
                sizing.status.suggestion.id if sizing.status.suggestion else "-",
            )
            for sizing in sizings
        ],
    )
    for sizing in sizings:
        if sizing.status.message:
            print_folded(f"{sizing.key}: {sizing.status.message}")
    rows = [
        (receipt.at, sizing.key, receipt.id, receipt.outcome.value, changed(receipt.before, receipt.after))
        for sizing in sizings
        for receipt in sizing.status.receipts
    ]
    if not rows:
        return 0
    print()
    print_words(("at", "sizing", "id", "outcome", "change"), sorted(rows, reverse=True))
    for sizing in sizings:
        for receipt in sizing.status.receipts:
            print_folded(f"{receipt.id}: {receipt.why}; {receipt.pods} pods; allowed by {receipt.allowed_by}")
    return 0


def changed(before: ContainerSize, after: ContainerSize) -> str:
    """What differs, such as `cpu 3->1150m, memory limit 4Gi->1Gi`."""
    parts = []
    for name, was, now, shown in (
        ("cpu", before.cpu_request_m, after.cpu_request_m, format_milli),
        ("cpu limit", before.cpu_limit_m, after.cpu_limit_m, format_milli),
        ("memory", before.memory_request_bytes, after.memory_request_bytes, format_bytes),
        ("memory limit", before.memory_limit_bytes, after.memory_limit_bytes, format_bytes),
    ):
        if was != now:
            parts.append(f"{name} {'-' if was is None else shown(was)}->{'-' if now is None else shown(now)}")
    return ", ".join(parts) or "nothing"


def _row(sizing: RightSizing) -> _Row:
    status = sizing.status
    return _Row(
        sizing.key,
        f"{sizing.workload_kind}/{sizing.workload_name}",
        sizing.mode.value,
        status.state,
        status.message,
        status.suggestion,
        status.applied,
        status.receipts,
    )
