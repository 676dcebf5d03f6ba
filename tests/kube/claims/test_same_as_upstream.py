"""Random worlds of devices, placed by kube-scheduler and by `cotenant scheduler` on a real API server: the same pods
are placed, with the same devices.

Many: `python -m tests.kube.claims.compare --seeds 0:2000`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kube.claims.compare import COTENANT, both, outcomes
from tests.kube.claims.upstream import Upstream, why_not

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(why_not()), reason=why_not() or "there")]
WORLDS = 40


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with both(tmp_path_factory.mktemp("upstream"), COTENANT) as found:
        yield found


def test_worlds_are_placed_the_same(servers: Upstream) -> None:
    found = list(outcomes(servers, range(WORLDS), COTENANT, threads=8))
    assert [(one.seed, one.difference) for one in found if one.difference] == []
    assert sum(one.bound for one in found) > WORLDS  # most worlds place some pods
    assert sum(one.pods - one.bound for one in found) > WORLDS / 2  # and refuse some
