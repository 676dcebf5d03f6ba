"""The machine map over time: which frames a run records, and of which machines.

Two policies are understood by watching them, but a record of every pod at every minute is larger than all other results
of a run. At most `map_frames` frames at equal distances up to the horizon, six bytes a machine (`FrameCell`), of at
most `MAX_MACHINES` machines, which are picked evenly; sums over the cluster are of every machine. A frame is written at
the end of a tick and read by nothing in the run.
Limits: whole percent of a machine's CPU; what happens after the horizon, while batch runs out, is not recorded.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.results.forms import Cells, FrameCell, MachineFrames
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.records import Records

MAX_MACHINES = 1_000


def frame_ticks(config: WorldConfig) -> int:
    """Ticks from one frame to the next: the smallest number that keeps the frames of [0, horizon] within
    `map_frames`.
    """
    ticks = int(config.horizon_s // config.tick_s)
    return max(1, ceil(ticks / max(1, config.map_frames - 1)))


def no_frames(config: WorldConfig) -> tuple[Cells, Int]:
    """Room for the frames, all zero, uint8[F, M, len(FrameCell)], and the rows of their machines, int64[M]."""
    rows = np.arange(config.nodes, dtype=np.int64)
    if config.nodes > MAX_MACHINES:
        rows = np.linspace(0, config.nodes - 1, MAX_MACHINES).round().astype(np.int64)
    frames = min(config.map_frames, int(config.horizon_s // config.tick_s) // frame_ticks(config) + 1)
    return np.zeros((frames, len(rows), len(FrameCell)), np.uint8), rows


def machine_frames(cells: Cells, rows: Int, taken: Records, config: WorldConfig) -> MachineFrames | None:
    """The frames recorded so far; None if there are none. `taken`: the records of the ticks so far."""
    at = taken[:: frame_ticks(config)][: len(cells)].view(np.recarray)
    if not len(at):
        return None
    return MachineFrames(
        time_s=at.time_s.copy(),
        machine=rows,
        cells=cells[: len(at)].copy(),
        machines=config.nodes,
        violated=at.violated_nodes.astype(np.int64),
        used_cpu=at.used_cpu.copy(),
    )
