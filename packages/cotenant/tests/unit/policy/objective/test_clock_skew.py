"""The shift that one call asks for."""

import pytest

from cotenant.policy.objective.clock_skew import shift_ns


@pytest.mark.parametrize(
    ("child", "shift"),
    [
        ((110, 190), 0),  # inside its parent
        ((100, 200), 0),
        ((90, 150), 30),  # too early: as much network time before as after
        ((160, 220), -40),  # too late
        ((1000, 1010), -855),
        ((50, 300), 50),  # longer than its parent: to its start
        ((120, 300), 0),  # longer, and does not start too early
    ],
)
def test_a_child_is_put_inside_its_parent(child: tuple[int, int], shift: int) -> None:
    assert shift_ns(100, 200, *child) == shift
