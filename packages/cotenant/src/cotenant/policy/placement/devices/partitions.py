"""Choice of a GPU partition from the node's table.

Only certain sets of GPUs work together, and a bad choice splits larger ones. Of the free sets of the requested size,
those with the best score; of these the one that leaves the most (by score) of the largest sets free, then of the next
smaller, down to the size itself; then the first of the table.
Limits: a GPU that is partly used blocks every set that contains it.

Source: Koordinator, DeviceShare (allocateByPartition). Upstream weights larger sets by 10000, 100 and 1 and considers
sizes 8, 4 and 2 only; here any sizes, compared one after another, which is equivalent for those. The order of scores is
as documented there ("the most allocationScore first").
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.model.cpus.topology import numbers_in
from cotenant.model.devices.hints import PartitionSpec
from cotenant.model.devices.partition import Partition, PartitionTable
from cotenant.policy.placement.refusal import Refusal

ANY = PartitionSpec()


def choose_partition(
    table: PartitionTable | None, count: int, free: int, spec: PartitionSpec = ANY, within: Sequence[int] | None = None
) -> Partition | Refusal:
    """A set of `count` GPUs within `free` (mask of healthy idle GPUs) and one of `within`, or the reason why there
    is none.
    """
    if table is None:
        return Refusal("no GPU partition table", "the node reports none, and there is no built-in one for its model")
    listed = table.sets(count)
    if not listed:
        return Refusal(
            "no GPU partition of the requested size",
            f"{count} requested, the table has {', '.join(map(str, table.sizes()))}",
        )
    fast = [
        partition for partition in listed if spec.bandwidth is None or (partition.bandwidth or -1) >= spec.bandwidth
    ]
    if not fast:
        best = max((partition.bandwidth or 0 for partition in listed), default=0)
        return Refusal("no GPU partition with the requested bandwidth", f"{spec.bandwidth} requested, at best {best}")
    near = [partition for partition in fast if within is None or any(not partition.minors & ~mask for mask in within)]
    if not near:
        return Refusal("no GPU partition within the requested scope", f"none of {len(fast)} with {count} GPUs is")
    good = [partition for partition in near if not spec.best_only or partition.score == listed[0].score]
    possible = [partition for partition in good if not partition.minors & ~free]
    if not possible:
        return Refusal("no free GPU partition", _nearest(good, free))
    equal = [partition for partition in possible if partition.score == possible[0].score]
    return equal[0] if len(equal) == 1 else _least_splitting(table, count, free, equal)


def _least_splitting(table: PartitionTable, count: int, free: int, equal: Sequence[Partition]) -> Partition:
    """The one that leaves the highest score of free sets: of the largest size, then of the next smaller ones. Per
    size its best sets count, at least 1 each, since a table may have no scores.
    """
    sizes = [listed for size, listed in table.by_size if size >= count]
    whole = [
        (place, partition.minors, max(partition.score, 1))
        for place, listed in enumerate(sizes)
        for partition in listed
        if partition.score == listed[0].score and not partition.minors & ~free
    ]
    best, best_lost = equal[0], [0]
    for partition in equal:
        lost = [0] * len(sizes)
        for place, minors, score in whole:
            if minors & partition.minors:
                lost[place] += score
        if partition is best or lost < best_lost:
            best, best_lost = partition, lost
    return best


def _nearest(partitions: list[Partition], free: int) -> str:
    if not partitions:
        return "none has the best score and the bandwidth"
    near = min(partitions, key=lambda partition: (partition.minors & ~free).bit_count())
    return f"of {list(numbers_in(near.minors))} not free: {list(numbers_in(near.minors & ~free))}"
