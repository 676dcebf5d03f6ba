"""Room and stranded amounts by shape, against a count pod by pod."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cotenant.policy.assess.shapes import Rooms, rooms_for, shapes_of, stranded

NODES = st.lists(st.tuples(st.integers(-3, 12), st.integers(-3, 12), st.integers(-1, 5)), max_size=6)
PODS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12)


def columns(rows: list[tuple[int, ...]], width: int) -> list[np.ndarray]:
    return list(np.array(rows, np.int64).reshape(len(rows), width).T)


@given(NODES, PODS)
def test_as_counted_pod_by_pod(nodes: list[tuple[int, int, int]], pods: list[tuple[int, int]]) -> None:
    free = Rooms(*columns(list(nodes), 3))
    found = rooms_for(free, *shapes_of(*columns(list(pods), 2)))
    assert sum(room.pods for room in found) == len(pods)
    for room in found:
        assert room.pods == pods.count((room.cpu_m, room.memory_mib))
        more = stranded_cpu = stranded_memory = 0
        for cpu, memory, slots in ((max(0, c), max(0, m), max(0, s)) for c, m, s in nodes):
            fits, left_cpu, left_memory, left = 0, cpu, memory, slots
            while left > 0 and left_cpu >= room.cpu_m and left_memory >= room.memory_mib:
                fits, left = fits + 1, left - 1
                left_cpu, left_memory = left_cpu - room.cpu_m, left_memory - room.memory_mib
            more += fits
            if not fits:
                stranded_cpu, stranded_memory = stranded_cpu + cpu, stranded_memory + memory
        assert (room.more, room.stranded_cpu_m, room.stranded_memory_mib) == (more, stranded_cpu, stranded_memory)


def test_stranded_of_the_cluster_is_the_mean_pods() -> None:
    free = Rooms(np.array([8000, 1000]), np.array([512, 8192]), np.array([10, 10]))
    rooms = rooms_for(free, *shapes_of(np.array([2000, 2000, 2000, 500]), np.array([1024, 1024, 1024, 128])))
    cores, memory = stranded(rooms, free)
    assert cores.value == (3 * 9.0 + 0.0) / 4
    assert memory.value == 3 * 8704 / 1024 / 4


def test_without_pods_there_is_no_figure() -> None:
    none = np.zeros(0, np.int64)
    assert all(figure.value is None for figure in stranded((), Rooms(none, none, none)))
