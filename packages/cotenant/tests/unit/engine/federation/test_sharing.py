"""Workload profiles through a federation: what is stated, what comes back, and when it goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.federation.hub import FederationWeights, Hub
from cotenant.engine.federation.joined import Joined
from cotenant.engine.federation.sharing import WriteShared, shared_writes, stated
from cotenant.model.cluster.workload_profile import (
    NO_OVERALL,
    NOT_SEEN,
    FigureSource,
    Overall,
    ProfileFigure,
    WorkloadProfile,
    WorkloadRef,
)
from cotenant.policy.federation.shared_profiles import Evidence, SharedProfile
from cotenant.policy.federation.statement import MAX_PROFILES, ClusterRoom, Statement

WALL = 1_700_000_000_000
CAPACITY = (100_000, 100_000, 0)


def figure(value: int, samples: int = 50, source: FigureSource = FigureSource.LEARNED) -> ProfileFigure:
    return ProfileFigure(value, value - 10, value + 10, samples, source)


def profile(name: str, sensitivity: ProfileFigure | None = None, **more: object) -> WorkloadProfile:
    overall = Overall(sensitivity or NOT_SEEN, NOT_SEEN)
    made = WorkloadProfile(f"shop/{name}", WorkloadRef("Deployment", name), learned_overall=overall, uid=f"uid-{name}")
    return replace(made, **more)  # type: ignore[arg-type]


def test_only_what_was_learned_here_under_a_shared_name_is_stated() -> None:
    found = stated(
        [
            profile("cart", figure(300), shared_as="web"),
            profile("mail", figure(500)),
            profile("new", shared_as="fresh"),
            profile("told", figure(700, source=FigureSource.SHARED), shared_as="echo"),
        ]
    )
    assert found == (
        SharedProfile("echo"),
        SharedProfile("fresh"),
        SharedProfile("web", Evidence(300, 290, 310, 50)),
    )


def test_workloads_of_one_name_are_one() -> None:
    found = stated([profile(str(value), figure(value), shared_as="web") for value in (300, 400, 500)])
    assert found == (SharedProfile("web", Evidence(400, 390, 410, 150)),)
    assert len(stated([profile(str(i), shared_as=f"w{i}") for i in range(MAX_PROFILES + 5)])) == MAX_PROFILES


def hear(hub: Hub, cluster: str, *profiles: SharedProfile, epoch: int = 1, now_ms: int = 0) -> FederationWeights:
    room = ClusterRoom(CAPACITY, (0, 0, 0))
    return hub.hear(Statement(cluster, "s", epoch, WALL, 30_000, 0, room, (), profiles), WALL, now_ms)


def test_the_hub_answers_with_what_the_others_learned() -> None:
    hub = Hub(dict.fromkeys("abc", CAPACITY))
    web, other = SharedProfile("web", Evidence(300, 290, 310, 50)), SharedProfile("web", Evidence(500, 490, 510, 50))
    assert hear(hub, "a", web).profiles == ()
    assert hear(hub, "b", other, SharedProfile("alone", Evidence(1, 1, 1, 30))).profiles == (
        SharedProfile("web", Evidence(300, 290, 310, 50), clusters=1),
    )
    assert hear(hub, "c", SharedProfile("web")).profiles == (
        SharedProfile("web", Evidence(400, 390, 410, 100), clusters=2),
    )
    assert hear(hub, "c", epoch=2).profiles == ()  # it does not ask
    later = hear(hub, "c", SharedProfile("web"), epoch=3, now_ms=40_000)
    assert (later.refused, later.profiles) == ("", ())  # the others' statements have expired


@pytest.mark.parametrize(
    "profiles",
    [
        (SharedProfile("web", Evidence(300, 310, 320, 50)),),
        (SharedProfile("web", Evidence(300, 290, 1001, 50)),),
        (SharedProfile("web", Evidence(300, 290, 310, 0)),),
        (SharedProfile("web", tolerates=Evidence(-1, -1, 310, 9)),),
        (SharedProfile("web"), SharedProfile("web")),
        (SharedProfile("Web!"),),
        tuple(SharedProfile(f"w{i}") for i in range(MAX_PROFILES + 1)),
    ],
)
def test_figures_that_nobody_learns_are_refused(profiles: tuple[SharedProfile, ...]) -> None:
    found = hear(Hub({"a": CAPACITY}), "a", *profiles)
    assert "profile" in found.refused


def test_what_others_learned_is_written_once_and_goes_when_it_expires() -> None:
    joined = Joined("a")
    epoch = joined.next_epoch(1)
    told = SharedProfile("web", Evidence(400, 390, 410, 100), Evidence(5000, 1, 2, 3), clusters=2)
    assert joined.answered(FederationWeights("a", epoch, 1000, profiles=(told,)), epoch, 0) == ""
    overall = Overall(figure(400, 100, FigureSource.SHARED), NOT_SEEN)  # the impossible figure is left out
    mine = profile("cart", shared_as="web")
    written = shared_writes([mine, profile("mail")], joined.profiles_in_force(999))
    assert written == [WriteShared("shop/cart", "uid-cart", overall, 2)]
    has = replace(mine, shared=overall, shared_by=2)
    assert shared_writes([has], joined.profiles_in_force(999)) == []
    nothing = WriteShared("shop/cart", "uid-cart", NO_OVERALL, 0)
    assert shared_writes([replace(has, shared_as="")], joined.profiles_in_force(999)) == [nothing]
    assert shared_writes([has], joined.profiles_in_force(1000)) == [nothing]


def test_its_own_and_its_owners_figures_count_before_those_of_others() -> None:
    shared = Overall(figure(900, source=FigureSource.SHARED), figure(901, source=FigureSource.SHARED))
    found = profile("cart", figure(300), shared=shared).overall
    assert (found.sensitivity, found.pressure) == (figure(300), shared.pressure)
    declared = Overall(ProfileFigure(1, 1, 1, 0, FigureSource.DECLARED), NOT_SEEN)
    assert profile("cart", shared=shared, declared_overall=declared).overall.sensitivity == declared.sensitivity
