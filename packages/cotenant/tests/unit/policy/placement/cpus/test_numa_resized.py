from __future__ import annotations

import pytest

from cotenant.model.cpus.spec import NumaAmount
from cotenant.policy.placement.cpus.numa_resized import resized_amounts


@pytest.mark.parametrize(
    ("cpu_m", "memory_bytes", "expected"),
    [
        (3000, 90, (NumaAmount(0, 1000, 60), NumaAmount(1, 2000, 30))),  # as they are
        (1000, 91, (NumaAmount(0, 334, 61), NumaAmount(1, 666, 30))),  # what rounding leaves is the first one's
        (6000, 0, (NumaAmount(0, 2000, 0), NumaAmount(1, 4000, 0))),
    ],
)
def test_each_numa_node_keeps_its_share(cpu_m: int, memory_bytes: int, expected: tuple[NumaAmount, ...]) -> None:
    before = (NumaAmount(0, 1000, 60), NumaAmount(1, 2000, 30))
    assert resized_amounts(before, cpu_m, memory_bytes, owns_cpus=False) == expected


def test_what_is_not_said_stays_so_and_own_cpus_stay() -> None:
    before = (NumaAmount(0, None, 10), NumaAmount(1, 2000, None), NumaAmount(2))
    assert resized_amounts(before, 1000, 30, owns_cpus=True) == (
        NumaAmount(0, None, 30),
        NumaAmount(1, 2000, None),
        NumaAmount(2),
    )
    assert resized_amounts((), 1000, 30, owns_cpus=False) == ()
    assert resized_amounts((NumaAmount(0, 0, 0),), 1000, 30, owns_cpus=False) == (NumaAmount(0, 0, 0),)
