"""Prints RightSizings, moves, pools that lend and their receipts, as tables or as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cotenant.cli.tables import print_folded, print_words
from cotenant.model.autonomy.pool_lending import LendingDay, LendingSuggestion, PoolLending
from cotenant.model.counted import counted
from cotenant.model.groups.migration import JobStep, MigrationJob
from cotenant.model.quantities import format_bytes, format_milli
from cotenant.model.sizes.right_sizing import RightSizing
from cotenant.services.autonomy.moves import move_state, who_allowed
from cotenant.services.autonomy.sizes import changed


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


class _MoveRow(msgspec.Struct, rename="camel"):
    """One move, for `--json`."""

    move: str
    pod: str
    state: str
    before: str
    after: str
    why: str
    allowed_by: str
    result: str
    undo: str


class _PoolRow(msgspec.Struct, rename="camel"):
    """One pool that lends, for `--json`."""

    pool: str
    mode: str
    rung: str
    state: str
    message: str
    suggestion: object
    receipts: object


def show(
    sizings: Sequence[RightSizing], moves: Sequence[MigrationJob], lending: Sequence[PoolLending], as_json: bool
) -> int:
    """Print; returns the exit status."""
    if as_json:
        rows = [
            *(_row(sizing) for sizing in sizings),
            *(_move_row(job) for job in moves),
            *(_pool_row(pool) for pool in lending),
        ]
        print(msgspec.json.encode(rows).decode())
        return 0
    if sizings:
        _show_sizings(sizings)
    else:
        print("no RightSizings")
    if moves:
        print()
        found = [_move_row(job) for job in moves]
        print_words(
            ("move", "pod", "state", "from", "to"),
            [(row.move, row.pod, row.state, row.before or "-", row.after or "-") for row in found],
        )
        for row in found:
            print_folded(f"{row.move}: {row.why}; allowed by {row.allowed_by or 'nobody yet'}")
            if row.result:
                print_folded(f"{row.move}: {row.result}")
        print_folded("a move has no undo: to bring a pod back is another eviction")
    if lending:
        print()
        _show_lending(lending)
    return 0


def _show_lending(pools: Sequence[PoolLending]) -> None:
    print_words(
        ("pool", "lendMode", "rung", "state", "offers", "id"),
        [
            (
                pool.name,
                pool.status.mode or "-",
                pool.status.rung or "-",
                pool.status.state or "not seen",
                _offered(pool.status.suggestion),
                pool.status.suggestion.id if pool.status.suggestion else "-",
            )
            for pool in pools
        ],
    )
    for pool in pools:
        if pool.status.message:
            print_folded(f"{pool.name}: {pool.status.message}")
        if pool.status.suggestion is not None:
            print_folded(f"{pool.status.suggestion.id}: {pool.status.suggestion.rules}")
    rows = [
        (receipt.id, pool.name, receipt.outcome.value, _mean(receipt.day), receipt.why, receipt.allowed_by or "-")
        for pool in pools
        for receipt in pool.status.receipts
    ]
    if rows:
        print()
        print_words(("day", "pool", "outcome", "offered", "because", "allowed by"), sorted(rows, reverse=True))


def _offered(suggestion: LendingSuggestion | None) -> str:
    if suggestion is None:
        return "-"
    nodes = counted(suggestion.nodes, "node")
    return f"{format_milli(suggestion.cpu_m)} CPU, {format_bytes(suggestion.memory_mib << 20)} on {nodes}"


def _mean(day: LendingDay) -> str:
    """What a node offered in the mean, and whether it stood there."""
    if not day.hours:
        return "-"
    cpu, memory = format_milli(day.cpu_m_hours // day.hours), format_bytes((day.memory_mib_hours // day.hours) << 20)
    return f"{cpu} CPU, {memory} a node{'' if day.lent else ', not lent'}"


def _pool_row(pool: PoolLending) -> _PoolRow:
    status = pool.status
    return _PoolRow(
        pool.name, status.mode, status.rung, status.state, status.message, status.suggestion, status.receipts
    )


def _show_sizings(sizings: Sequence[RightSizing]) -> None:
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
        return
    print()
    print_words(("at", "sizing", "id", "outcome", "change"), sorted(rows, reverse=True))
    for sizing in sizings:
        for receipt in sizing.status.receipts:
            pods = counted(receipt.pods, "pod")
            print_folded(f"{receipt.id}: {receipt.why}; {pods}; allowed by {receipt.allowed_by}")


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


def _move_row(job: MigrationJob) -> _MoveRow:
    helped, note = job.condition(JobStep.HELPED), job.note
    after = note.target if note is not None else ""
    result = helped.message if helped is not None else job.message
    before = job.node or (note.node if note is not None else "")
    return _MoveRow(job.name, job.pod.key, move_state(job), before, after, job.reason, who_allowed(job), result, "none")
