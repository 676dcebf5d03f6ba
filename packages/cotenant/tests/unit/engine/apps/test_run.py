"""Changes of releases as runs against a small world, killed anywhere too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.release_world import World, config, deployment, document

from cotenant.engine.apps.run import ReleaseEnd, ReleaseRun, RunPlan
from cotenant.model.apps.release import Revision, RevisionState, possibly_there
from cotenant.model.json_object import JsonObject

FIRST = (config("settings"), deployment("web"))
SECOND = (config("other"), deployment("web", 3))


def plan(
    goal: Sequence[JsonObject] = FIRST,
    before: Sequence[JsonObject] = (),
    number: int = 1,
    waits: bool = True,
    back_to: tuple[JsonObject, ...] | None = None,
    deletes_data: bool = False,
) -> RunPlan:
    return RunPlan(number, tuple(goal), tuple(before), waits, 10.0, back_to, deletes_data)


def test_an_installation_is_recorded_before_it_touches_anything_and_at_its_end() -> None:
    world = World()
    assert world.finish(ReleaseRun(plan(), 0.0)) == ReleaseEnd("")
    assert world.said == ["apply settings", "apply web"]
    assert world.records == [(1, "pending", ("settings", "web")), (1, "deployed", ("settings", "web"))]


def test_definitions_are_applied_and_served_before_the_rest() -> None:
    world = World()
    definition = document("CustomResourceDefinition", "zoos", "apiextensions.k8s.io/v1", "")
    goal = (document("Zoo", "z", "example.org/v1"), config("a"), definition, document("Namespace", "n", namespace=""))
    assert not world.finish(ReleaseRun(plan(goal), 0.0)).failure
    assert world.said == ["apply zoos", "apply n", "apply a", "apply z"]


def test_an_upgrade_deletes_what_it_no_longer_has_when_the_rest_is_ready() -> None:
    world = World()
    world.finish(ReleaseRun(plan(), 0.0))
    world.said.clear()
    assert not world.finish(ReleaseRun(plan(SECOND, FIRST, 2), 0.0)).failure
    assert world.said == ["apply other", "apply web", "delete settings"]
    assert world.names == ["other", "web"]


def test_a_failed_upgrade_has_deleted_nothing_and_says_which_object() -> None:
    world = World(broken=frozenset({"web"}))
    for one in FIRST:
        world.apply(one)
    finished = world.finish(ReleaseRun(plan(SECOND, FIRST, 2), 0.0))
    assert finished.failure == "not ready within 10 s"
    assert [str(one) for one in finished.obstacles] == ["Deployment shop/web: 0/3 ready"]
    assert world.names == ["other", "settings", "web"]
    assert world.records[-1] == (2, "failed", ("other", "web"))


def test_what_cannot_become_ready_is_not_waited_for() -> None:
    world = World(failing=frozenset({"web"}))
    finished = world.finish(ReleaseRun(plan(), 0.0))
    assert finished.failure == "it cannot become ready"
    assert "no progress" in finished.obstacles[0].why
    assert world.now_s == 1


def test_a_refusal_names_the_object() -> None:
    world = World()
    world.refused["web"] = "403 exceeded quota"
    finished = world.finish(ReleaseRun(plan(), 0.0))
    assert str(finished.obstacles[0]) == "Deployment shop/web: 403 exceeded quota"


def test_an_upgrade_that_fails_goes_back_to_what_was_deployed() -> None:
    world = World()
    world.finish(ReleaseRun(plan(), 0.0))
    world.refused["web"] = "no"
    run = ReleaseRun(plan(SECOND, FIRST, 2, back_to=FIRST), 0.0)
    while not run.unexplained:
        world.step(run)
    del world.refused["web"]
    finished = world.finish(run)
    assert finished.is_rolled_back
    assert finished.failure == "Deployment shop/web was refused"
    assert world.names == ["settings", "web"]
    assert [(number, state) for number, state, _ in world.records[2:]] == [
        (2, "pending"), (2, "failed"), (3, "pending"), (3, "deployed"),
    ]  # fmt: skip


def test_a_new_release_that_fails_is_removed_and_forgotten_but_for_its_data() -> None:
    world = World(broken=frozenset({"web"}))
    claim = document("PersistentVolumeClaim", "data")
    finished = world.finish(ReleaseRun(plan((*FIRST, claim), back_to=()), 0.0))
    assert finished.is_rolled_back
    assert world.is_forgotten
    assert world.names == ["data"]
    assert [ref.name for ref in finished.kept] == ["data"]


def test_a_roll_back_that_fails_is_the_end() -> None:
    world = World()
    world.finish(ReleaseRun(plan(), 0.0))
    world.refused["web"] = "no"
    finished = world.finish(ReleaseRun(plan(SECOND, FIRST, 2, back_to=FIRST), 0.0))
    assert "rolling back failed too" in finished.failure
    assert world.records[-1][:2] == (3, "failed")


def test_an_object_of_another_release_is_left_alone() -> None:
    world = World()
    world.finish(ReleaseRun(plan(), 0.0))
    live = next(one for ref, one in world.objects.items() if ref.name == "settings")
    live["metadata"]["annotations"] = {"cotenant.io/release": "kube-system/dns"}
    finished = world.finish(ReleaseRun(plan(SECOND, FIRST, 2), 0.0))
    assert not finished.failure
    assert "settings" in world.names
    assert "belongs to the release kube-system/dns" in finished.obstacles[0].why


def test_what_could_not_be_deleted_stays_in_the_record() -> None:
    world = World()
    world.finish(ReleaseRun(plan(), 0.0))
    world.refused["settings"] = "403"
    finished = world.finish(ReleaseRun(plan(SECOND, FIRST, 2, back_to=FIRST), 0.0))
    assert finished.failure
    assert not finished.is_rolled_back
    assert world.records[-1] == (2, "failed", ("other", "web", "settings"))


@pytest.mark.parametrize(("deletes_data", "left"), [(False, ["data"]), (True, [])])
def test_an_uninstallation_deletes_in_reverse_order(deletes_data: bool, left: list[str]) -> None:
    world = World()
    goal = (*FIRST, document("PersistentVolumeClaim", "data"))
    world.finish(ReleaseRun(plan(goal), 0.0))
    world.said.clear()
    assert not world.finish(ReleaseRun(plan((), goal, deletes_data=deletes_data), 0.0)).failure
    assert world.names == left
    assert world.is_forgotten
    assert world.said == ["delete web", *(["delete data"] if deletes_data else []), "delete settings"]


def test_without_waiting_nothing_is_looked_at() -> None:
    world = World(broken=frozenset({"web"}))
    assert not world.finish(ReleaseRun(plan(waits=False), 0.0)).failure
    assert world.now_s == 0


NAMES = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5, unique=True)


@settings(deadline=None)
@given(steps=st.lists(st.tuples(NAMES, st.integers(0, 12)), min_size=1, max_size=5), last=NAMES)
def test_runs_killed_anywhere_leave_nothing_that_the_next_does_not_want(
    steps: list[tuple[list[str], int]], last: list[str]
) -> None:
    """Whatever revisions were killed after however many instructions, the next run leaves exactly its own objects."""
    world = World()
    history: list[Revision] = []
    for names, kill_after in [*steps, (last, 500)]:
        number = len(history) + 1
        goal = tuple(config(name) for name in names)
        run = ReleaseRun(plan(goal, possibly_there(tuple(history)), number), world.now_s)
        known = len(world.records)
        for _ in range(kill_after):
            if isinstance(world.step(run), ReleaseEnd):
                break
        for written, state, _ in world.records[known:]:
            revision = Revision(written, RevisionState(state), goal, 0.0)
            if state == "deployed":
                history = [
                    replace(one, state=RevisionState.SUPERSEDED) if one.state is RevisionState.DEPLOYED else one
                    for one in history
                ]
            history = [one for one in history if one.number != written] + [revision]
    assert world.names == sorted(last)
