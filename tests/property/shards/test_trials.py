"""Trials of the protocol of shards, and that they notice what is left out of it.

`python -m tests.property.shards 5000` tries more.
"""

from __future__ import annotations

import pytest
from tests.property.shards.trials import trial
from tests.property.shards.world import Broken

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("first", range(0, 24, 4))
def test_whatever_happens_no_node_and_no_quota_is_overrun_and_all_work_ends(first: int) -> None:
    found = [trial(seed) for seed in range(first, first + 4)]
    assert all(one.bound for one in found)
    assert all(one.moved >= 2 for one in found)


def test_without_the_fence_a_bind_of_a_stopped_member_overruns_a_node() -> None:
    with pytest.raises(Broken, match="node-1 holds 7 of 6"):
        trial(5, fences=False)
