"""Random pods of every feature are passed on the nodes on which kube-scheduler's filters pass them, and on no others.

Many: `python -m tests.kube.feasible.compare --cases 5000`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kube.claims.upstream import why_not
from tests.kube.feasible.compare import batch, servers
from tests.kube.feasible.upstream_side import Server

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(why_not()), reason=why_not() or "there")]
WORLDS, PODS = 2, 40


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers(tmp_path_factory.mktemp("upstream")) as found:
        yield found


def test_the_same_nodes_pass(server: Server) -> None:
    found = [batch(server, seed, PODS) for seed in range(WORLDS)]
    cases = [case for one in found for case in one.cases]
    assert [(case.name, case.difference) for case in cases if case.difference] == []
    assert len(cases) == WORLDS * PODS, [one.refused for one in found]
    passed = sum(case.feasible for case in cases)
    assert (
        WORLDS * PODS / 4 < passed < sum(case.nodes for case in cases) / 2
    )  # the pods ask for enough, and not too much
