from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant_lab.baselines.drf import DominantResourceFairness
from cotenant_lab.baselines.mesos import NOT_OFFERED, MesosOffers
from cotenant_lab.baselines.rounds import NO_ROOM


def test_a_whole_agent_goes_to_one_tenant_a_cycle(snapshot, rng) -> None:
    cluster = snapshot([(8, 8)], [(2, 2), (2, 2)], [0, 1], tenant=[0, 1])
    once = MesosOffers(cycles=1).decide(cluster, 0.0, rng)
    assert once.row.tolist() == [0, -1]
    assert once.reasons == {NOT_OFFERED: 1}
    assert MesosOffers(cycles=2).decide(cluster, 0.0, rng).row.tolist() == [0, 0]
    assert DominantResourceFairness().decide(cluster, 0.0, rng).row.tolist() == [0, 0]


def test_offers_go_to_the_least_share_with_what_was_offered_counted(snapshot, rng) -> None:
    # four empty agents, two equal tenants with plenty to run: two agents each
    cluster = snapshot([(4, 4)] * 4, [(1, 1), (1, 1)], [0] * 16 + [1] * 16, tenant=[0, 1])
    row = MesosOffers(cycles=1).decide(cluster, 0.0, rng).row
    assert [(row[:16] >= 0).sum(), (row[16:] >= 0).sum()] == [8, 8]
    assert not set(row[:16][row[:16] >= 0]) & set(row[16:][row[16:] >= 0])


def test_a_weight_of_three_gets_three_agents_of_four(snapshot, rng) -> None:
    cluster = snapshot([(4, 4)] * 4, [(1, 1), (1, 1)], [0] * 16 + [1] * 16, tenant=[0, 1], weight=[1.0, 3.0])
    row = MesosOffers(cycles=1).decide(cluster, 0.0, rng).row
    assert [(row[:16] >= 0).sum(), (row[16:] >= 0).sum()] == [4, 12]


def test_a_declined_agent_is_not_offered_to_the_same_tenant_again_in_a_round(snapshot, rng) -> None:
    # tenant 0 has the least share and declines the only agent in the first cycle; without the filter it would get it
    # for ever
    cluster = snapshot([(4, 4)], [(8, 8), (1, 1)], [0, 1], tenant=[0, 1])
    cluster.tenants.allocated[1] = (2, 2, 1)
    assert MesosOffers(cycles=1).decide(cluster, 0.0, rng).row.tolist() == [-1, -1]
    decision = MesosOffers(cycles=2).decide(cluster, 0.0, rng)
    assert decision.row.tolist() == [-1, 0]
    assert decision.reasons == {NO_ROOM: 1}


def test_offers_fragment_where_central_drf_does_not(snapshot) -> None:
    # A (two small tasks, holds nothing) is offered an agent before B (one task that needs a whole large agent).
    # Whenever that is the large one, A's small tasks split it, though the small agent had room for them; central DRF
    # with best fit never does.
    cluster = snapshot([(4, 4), (2, 2)], [(1, 1), (4, 4)], [0, 0, 1], tenant=[0, 1])
    cluster.tenants.allocated[1] = (1, 1, 1)
    stranded = {"offers": 0, "central": 0}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        stranded["offers"] += int(MesosOffers().decide(cluster, 0.0, rng).row[2] < 0)
        stranded["central"] += int(DominantResourceFairness().decide(cluster, 0.0, rng).row[2] < 0)
    assert stranded["central"] == 0
    assert 10 <= stranded["offers"] <= 30


def test_services_are_offered_before_the_batch_of_a_poorer_tenant(snapshot, rng) -> None:
    cluster = snapshot([(2, 2)], [(2, 2), (2, 2)], [0, 1], tenant=[0, 1], service=[False, True])
    cluster.tenants.allocated[1] = (1, 1, 1)
    assert MesosOffers().decide(cluster, 0.0, rng).row.tolist() == [-1, 0]


def test_the_group_limit_holds_within_one_offer(snapshot, rng) -> None:
    cluster = snapshot([(9, 9)] * 2, [(1, 1)], [0] * 6, group_limit=[2], service=[True] * 6)
    row = MesosOffers().decide(cluster, 0.0, rng).row
    assert np.bincount(row[row >= 0]).tolist() == [2, 2]


def test_no_cycles_are_refused() -> None:
    with pytest.raises(InvalidInput, match="cycles"):
        MesosOffers(cycles=0)
