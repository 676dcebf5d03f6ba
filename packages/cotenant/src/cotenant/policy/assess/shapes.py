"""What is free and of no use: free amounts on nodes where no further pod of a usual shape fits.

A cluster can have a third of its cores free and no room for one more pod, because the cores are where the memory is
gone. Shapes are the requests that pods have together, the most frequent first. Stranded for a shape is what is free
where not one more of it fits; stranded of the cluster is the mean over shapes, weighted by their pods, which is the
fragmentation of Weng et al.
Source: Weng et al., "Beware of fragmentation: scheduling GPU-sharing workloads with fragmentation gradient descent",
USENIX ATC 2023 (by cores and memory here).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.assess.figure import COUNTED, AssessedFigure, unknown
from cotenant.model.assess.report import ShapeRoom

MAX_SHAPES = 200  # the most frequent ones; together all but a few pods
SHOWN = 8
_UNBOUNDED = 1 << 40


class Rooms(NamedTuple):
    """Rows of nodes that take pods: what is free, and slots for pods."""

    cpu_m: Int
    memory_mib: Int
    slots: Int


def shapes_of(cpu_m: Int, memory_mib: Int) -> tuple[Int, Int]:
    """The distinct requests of pods, the most frequent first, at most `MAX_SHAPES`: `[shapes, 2]`, and their pods."""
    if not len(cpu_m):
        return np.zeros((0, 2), np.int64), np.zeros(0, np.int64)
    found, pods = np.unique(np.column_stack((cpu_m, memory_mib)), axis=0, return_counts=True)
    order = np.argsort(-pods, kind="stable")[:MAX_SHAPES]
    return found[order], pods[order].astype(np.int64)


def rooms_for(free: Rooms, shapes: Int, pods: Int) -> tuple[ShapeRoom, ...]:
    """Room for one more pod of each shape."""
    found = []
    cpu_m, memory_mib, slots = (np.maximum(0, column) for column in free)
    for (shape_cpu_m, shape_memory_mib), count in zip(shapes.tolist(), pods.tolist(), strict=True):
        fits = np.minimum(_times(cpu_m, shape_cpu_m), _times(memory_mib, shape_memory_mib))
        fits = np.minimum(fits, slots)
        without = fits == 0
        found.append(
            ShapeRoom(
                shape_cpu_m,
                shape_memory_mib,
                count,
                int(fits.sum()),
                int(cpu_m[without].sum()),
                int(memory_mib[without].sum()),
            )
        )
    return tuple(found)


def stranded(rooms: tuple[ShapeRoom, ...], free: Rooms) -> tuple[AssessedFigure, AssessedFigure]:
    """Cores and memory stranded for the mean pod."""
    definition = (
        "free {what} on nodes where one more pod does not fit, as the mean over the requests that pods have "
        f"(the {MAX_SHAPES} most frequent), weighted by pods"
    )
    pods = sum(room.pods for room in rooms)
    keys = (
        ("stranded_cpu", "Cores stranded", "cores", "cores"),
        ("stranded_memory", "Memory stranded", "GiB", "memory"),
    )
    if not pods:
        why = "there is no pod with requests"
        first, second = (
            unknown(key, title, unit, definition.format(what=what), why) for key, title, unit, what in keys
        )
        return first, second
    totals = (
        sum(room.stranded_cpu_m * room.pods for room in rooms) / pods / 1000.0,
        sum(room.stranded_memory_mib * room.pods for room in rooms) / pods / 1024.0,
    )
    first, second = (
        AssessedFigure(key, title, total, unit, definition.format(what=what), COUNTED)
        for (key, title, unit, what), total in zip(keys, totals, strict=True)
    )
    return first, second


def _times(free: Int, request: int) -> Int:
    """How often an amount fits."""
    return free // request if request > 0 else np.full(len(free), _UNBOUNDED, np.int64)
