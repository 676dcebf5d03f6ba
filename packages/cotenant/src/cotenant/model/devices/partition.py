"""GPU partitions: sets of GPUs that can be allocated together.

On machines whose links are partitioned by a fabric manager only certain sets work. A table from a number of GPUs to
sets, each a mask of minors with a score; any size and any numbers, as the node reports. Machines of a known model that
report no table have the table of aligned halves.
Limits: the same table for all pods of a node.

Source: Koordinator, gpu-partitions of the Device object and the built-in table of 8-GPU Hopper machines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.devices.device import LARGEST_MINOR
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonValue, json_object
from cotenant.model.quantities import whole

GPU_PARTITIONS = "scheduling.koordinator.sh/gpu-partitions"  # on Device objects: JSON
PARTITION_POLICY = "node.koordinator.sh/gpu-partition-policy"  # label on nodes: Honor, Prefer
GPU_MODEL = "node.koordinator.sh/gpu-model"  # label on nodes
_HOPPER = ("H100", "H800", "H20")


@dataclass(frozen=True, slots=True)
class Partition:
    """One set of GPUs."""

    minors: int  # mask
    score: int = 1  # the higher the better the links
    bandwidth: int | None = None  # ring-bus bandwidth, None where the table does not give it


@dataclass(frozen=True, slots=True)
class PartitionTable:
    """All sets by size, each size in the order in which they are tried: the best score first, then as listed."""

    by_size: tuple[tuple[int, tuple[Partition, ...]], ...]  # sizes descending

    @classmethod
    def of(cls, partitions: Iterable[Partition]) -> PartitionTable:
        """From sets of any sizes."""
        sizes: dict[int, list[Partition]] = {}
        for partition in partitions:
            sizes.setdefault(partition.minors.bit_count(), []).append(partition)
        return cls(
            tuple(
                (size, tuple(sorted(sizes[size], key=lambda partition: -partition.score)))
                for size in sorted(sizes, reverse=True)
            )
        )

    @classmethod
    def parse(cls, text: str) -> PartitionTable:
        """Parse the annotation. Raises `InvalidInput`, also where a set has another size than the one it is listed
        under.
        """
        found = []
        for size, listed in json_object(GPU_PARTITIONS, text, "a JSON object from sizes to lists").items():
            if not isinstance(listed, list):
                raise InvalidInput(f"{GPU_PARTITIONS}: {size}", listed, "a list of partitions")
            for entry in listed:
                partition = _partition(entry)
                if str(partition.minors.bit_count()) != size:
                    raise InvalidInput(f"{GPU_PARTITIONS}: {size}", entry, f"{size} different minors")
                found.append(partition)
        return cls.of(found)

    def sets(self, size: int) -> tuple[Partition, ...]:
        """The sets of one size; () where there is none."""
        return next((found for other, found in self.by_size if other == size), ())

    def sizes(self) -> tuple[int, ...]:
        """Available sizes, ascending."""
        return tuple(size for size, _ in reversed(self.by_size))


def halves(gpus: int) -> PartitionTable:
    """Single GPUs, and every aligned set of 2, 4, 8, ... up to all; `gpus` is a power of two. Raises `InvalidInput`."""
    if gpus < 1 or gpus & (gpus - 1):
        raise InvalidInput("gpus", gpus, "a power of two")
    found = []
    size = 1
    while size <= gpus:
        found += [Partition(((1 << size) - 1) << first) for first in range(0, gpus, size)]
        size *= 2
    return PartitionTable.of(found)


def table_of_model(model: str | None) -> PartitionTable | None:
    """The built-in table of a GPU model; None where there is none."""
    return _HOPPER_TABLE if model in _HOPPER else None


_HOPPER_TABLE = halves(8)


def _partition(data: JsonValue) -> Partition:
    minors = data.get("minors") if isinstance(data, dict) else None
    if not isinstance(minors, list) or not all(
        isinstance(minor, int) and not isinstance(minor, bool) and 0 <= minor <= LARGEST_MINOR for minor in minors
    ):
        raise InvalidInput(GPU_PARTITIONS, data, "an object with a list of minors")
    score, bandwidth = data.get("allocationScore", 0), data.get("ringBusBandwidth")
    if not isinstance(score, int) or isinstance(score, bool):
        raise InvalidInput(f"{GPU_PARTITIONS}: allocationScore", score, "an integer")
    mask = 0
    for minor in minors:
        mask |= 1 << minor
    field = f"{GPU_PARTITIONS}: ringBusBandwidth"
    return Partition(mask, score, None if bandwidth is None else whole(bandwidth, field))
