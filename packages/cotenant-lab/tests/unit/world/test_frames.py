"""The machine map over time: what a frame has, of which machines, and that recording changes nothing."""

import numpy as np
import pytest

from cotenant.model.results.forms import FrameCell
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.frames import MAX_MACHINES, frame_ticks, no_frames


def placed(world, **config):
    w = world(
        [{"cores": 24.0, "duration_s": 3000.0}, {"job": 1, "duration_s": 5000.0}],
        [{"cores": 48, "load": 60.0}],
        **config,
    )
    w.advance(0.0)
    w.start(np.array([1, 2, 0]), np.array([0, 1, 1]))
    w.advance(7200.0)
    return w.account()


def test_a_frame_has_what_is_allocated_and_used_and_who_misses(world):
    frames = placed(world).machine_frames
    assert frames is not None
    assert (frames.machines, frames.machine.tolist()) == (2, [0, 1])
    assert frames.time_s.tolist() == [120.0 * i for i in range(len(frames.time_s))]
    at = int(np.flatnonzero(frames.time_s == 1200.0)[0])
    columns = [FrameCell.SERVICE_ASKED, FrameCell.BATCH_ASKED, FrameCell.BATCH_USED, FrameCell.DOWN]
    assert frames.cells[at, 1, columns].tolist() == [50, 1, 1, 0]
    assert frames.cells[at, 0, columns].tolist() == [0, 25, 25, 0]
    assert frames.cells[at, 1, FrameCell.SERVICE_USED] == 50  # a load of 60 for 48 cores
    assert (frames.cells[at, :, FrameCell.MISSED].tolist(), frames.violated[at]) == ([0, 1], 1)
    late = int(np.flatnonzero(frames.time_s == 3600.0)[0])
    assert frames.cells[late, 0, FrameCell.BATCH_ASKED] == 0


def test_recording_changes_no_result(world):
    one, other = placed(world), placed(world, map_frames=0)
    assert other.machine_frames is None
    assert one.violation == other.violation
    assert one.wait_s.tolist() == other.wait_s.tolist()
    assert one.slowdown.tolist() == other.slowdown.tolist()
    assert one.timeline.service_violation.tolist() == other.timeline.service_violation.tolist()


@pytest.mark.parametrize(("frames", "hours"), [(96, 6.0), (96, 24.0), (10, 2.0), (1, 6.0), (96, 1.5)])
def test_frames_are_bounded_and_reach_the_horizon(frames, hours):
    config = WorldConfig(map_frames=frames, horizon_s=3600.0 * hours)
    cells, _ = no_frames(config)
    assert 1 <= len(cells) <= frames
    if frames > 1:
        assert (len(cells) - 1) * frame_ticks(config) * config.tick_s > config.horizon_s - frame_ticks(
            config
        ) * config.tick_s


def test_many_machines_are_picked_evenly():
    cells, rows = no_frames(WorldConfig(nodes=3 * MAX_MACHINES))
    assert cells.shape[1] == len(rows) == MAX_MACHINES
    assert (rows[0], rows[-1]) == (0, 3 * MAX_MACHINES - 1)
    assert set(np.diff(rows).tolist()) <= {3, 4}
