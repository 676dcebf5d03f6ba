"""Whom the hub believes."""

from __future__ import annotations

import msgspec
from tests.fakes.shared_use import use_evidence

from cotenant.engine.federation.hub import MAX_SKEW_MS, FederationWeights, Hub
from cotenant.model.prediction.shared_use import UseEvidence
from cotenant.policy.federation.statement import ClusterRoom, Statement, TenantSums

CAPACITY = (100_000, 100_000, 0)
WALL = 1_700_000_000_000
ROOM = ClusterRoom(CAPACITY, (0, 0, 0))
RICH, POOR = TenantSums("rich", (60_000, 0, 0)), TenantSums("poor", (20_000, 0, 0))


def statement(cluster: str = "east", epoch: int = 1, **fields: object) -> Statement:
    made = Statement(cluster, "s1", epoch, WALL, 30_000, 0, ROOM, (RICH, POOR))
    return msgspec.structs.replace(made, **fields)


def hub() -> Hub:
    return Hub({"east": CAPACITY, "west": CAPACITY})


def refused(found: FederationWeights) -> str:
    assert not found.factors
    return found.refused


def test_weights_answer_a_statement() -> None:
    found = hub().hear(statement(), WALL, 0)
    assert not found.refused
    assert (found.cluster, found.epoch, found.lasts_ms) == ("east", 1, 30_000)
    given = dict(found.factors)
    assert given["rich"] < 1000 < given["poor"]


def test_a_replay_is_refused_and_changes_nothing() -> None:
    of = hub()
    of.hear(statement(epoch=5), WALL, 0)
    before = of.view(1)
    assert "epoch 5 is not above" in refused(of.hear(statement(epoch=5), WALL, 1))
    assert "epoch 4 is not above" in refused(of.hear(statement(epoch=4), WALL, 1))
    assert of.view(1).tenants == before.tenants
    assert "not above" in refused(of.hear(statement(epoch=5), WALL, 40_000))  # also after it expired


def test_an_unknown_cluster_is_refused() -> None:
    assert "registered" in refused(hub().hear(statement("north"), WALL, 0))


def test_clocks_may_be_minutes_apart_and_not_more() -> None:
    of = hub()
    for epoch, skew in enumerate((-MAX_SKEW_MS, -300_000, 300_000, MAX_SKEW_MS), 1):
        assert not of.hear(statement(epoch=epoch, issued_ms=WALL + skew), WALL, 0).refused
    assert "ahead" in refused(of.hear(statement(epoch=9, issued_ms=WALL + MAX_SKEW_MS + 1), WALL, 0))
    old = WALL - MAX_SKEW_MS - 30_001
    assert "expired" in refused(of.hear(statement(epoch=9, issued_ms=old), WALL, 0))


def test_two_joiners_of_one_name() -> None:
    of = hub()
    of.hear(statement(epoch=1), WALL, 0)
    assert "another joiner" in refused(of.hear(statement(epoch=2, session="s2"), WALL, 29_999))
    assert not of.hear(statement(epoch=3, session="s2"), WALL, 30_000).refused  # the first was silent


def test_one_that_overstates_is_refused_and_its_last_good_statement_counts() -> None:
    of = hub()
    of.hear(statement(epoch=1), WALL, 0)
    large = ClusterRoom((100_001, 0, 0), (0, 0, 0))
    assert "registered" in refused(of.hear(statement(epoch=2, room=large), WALL, 1))
    seen = of.view(2).clusters[0]
    assert seen.room == ROOM
    assert "registered" in seen.refused


def test_a_silent_cluster_counts_no_more() -> None:
    of = hub()
    of.hear(statement("east"), WALL, 0)
    of.hear(statement("west", lasts_ms=60_000), WALL, 0)
    assert [cluster.room is not None for cluster in of.view(29_999).clusters] == [True, True]
    assert [cluster.room is not None for cluster in of.view(30_000).clusters] == [False, True]
    assert of.view(30_000).tenants[0].clusters == 1


def test_factors_move_once_a_round_however_often_clusters_speak() -> None:
    of = hub()
    first = of.hear(statement(epoch=1), WALL, 0)
    for epoch in range(2, 50):
        assert of.hear(statement(epoch=epoch), WALL, epoch).factors == first.factors
    assert of.hear(statement(epoch=99), WALL, 10_000).factors != first.factors


def test_what_three_others_learned_of_use_answers_who_asks_and_an_impossible_one_is_refused() -> None:
    of = Hub(dict.fromkeys(("a", "b", "c", "new"), CAPACITY))
    asks = statement("new", predictions=(UseEvidence("web.cpu"),))
    for at, name in enumerate("abc"):
        found = of.hear(statement(name, predictions=(use_evidence(day_ppm=1000 * at),)), WALL, 0)
        assert found.predictions == ()
        asks = statement("new", epoch=at + 1, predictions=(UseEvidence("web.cpu"),))
        (answer,) = of.hear(asks, WALL, 0).predictions or (None,)
        assert (answer is None) is (at < 2)
    assert answer is not None
    assert (answer.clusters, answer.day_ppm[0]) == (3, 1000)
    assert of.hear(statement("new", epoch=5), WALL, 0).predictions == ()  # who does not ask gets nothing
    odd = msgspec.structs.replace(use_evidence(), hours=-1)
    assert "prediction web.cpu.hours" in refused(of.hear(statement("a", epoch=9, predictions=(odd,)), WALL, 0))
    twice = (use_evidence(), use_evidence())
    assert "each name once" in refused(of.hear(statement("a", epoch=9, predictions=twice), WALL, 0))
