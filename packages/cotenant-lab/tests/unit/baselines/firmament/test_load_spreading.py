from __future__ import annotations

import numpy as np

from cotenant_lab.baselines.firmament.load_spreading import LoadSpreading
from cotenant_lab.baselines.firmament.scheduler import Firmament


def greedy_to_the_emptiest(running: list[int], room: list[int], tasks: int) -> list[int]:
    """Tasks each machine gets when each goes to the machine with the fewest tasks that still has room."""
    got = [0] * len(running)
    for _ in range(tasks):
        open_machines = [m for m in range(len(running)) if got[m] < room[m]]
        if not open_machines:
            break
        got[min(open_machines, key=lambda m: running[m] + got[m])] += 1
    return got


def test_one_class_goes_as_greedy_to_the_emptiest_machine(snapshot) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        running = rng.integers(0, 9, 6).tolist()
        room = rng.integers(0, 6, 6).tolist()
        tasks = int(rng.integers(1, 20))
        cluster = snapshot([(r, 100) for r in room], [(1, 1)], [0] * tasks, running=running)
        decision = Firmament(LoadSpreading()).decide(cluster, 0.0, rng)
        got = np.bincount(decision.row[decision.row >= 0], minlength=6).tolist()
        expected = greedy_to_the_emptiest(running, room, tasks)
        assert sum(got) == sum(expected)
        # machines with equally many tasks are interchangeable: compare what was paid, the sum over placements of the
        # level
        paid = [sum(range(r, r + g)) for r, g in zip(running, got, strict=True)]
        assert sum(paid) == sum(sum(range(r, r + g)) for r, g in zip(running, expected, strict=True))
        assert all(g <= r for g, r in zip(got, room, strict=True))
