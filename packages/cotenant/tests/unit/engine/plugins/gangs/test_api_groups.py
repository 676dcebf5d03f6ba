"""PodGroups of both API groups: which label and which object count, and what is written to each."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster.gang_world import binds, cluster, confirm, group, see, settle
from tests.fakes.cluster.gang_world import pod as gang_pod

from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.groups.gang import POD_GROUP, SIGS_GROUP, X_GROUP, X_POD_GROUP, GangPhase, PodGroup, PodGroupStatus


def of_x(name: str, least: int) -> PodGroup:
    made = group(name, least, uid=f"x-{name}")
    return replace(made, api_group=X_GROUP, status=replace(made.status, api_group=X_GROUP))


def member(name: str, **labels: str) -> ObservedPod:
    keys = {"x": X_POD_GROUP, "sigs": POD_GROUP}
    made = gang_pod(name)
    return replace(made, pod=replace(made.pod, labels=Labels.of({keys[key]: value for key, value in labels.items()})))


def test_the_label_of_the_newer_group_names_a_gang() -> None:
    c = cluster(2)
    c.plugins.gangs.pod_group_seen(of_x("a", 3), 0.0)
    see(c, *(member(f"a-{i}", x="a") for i in range(3)))
    assert not binds(settle(c, 0.0))
    c = cluster(3)
    c.plugins.gangs.pod_group_seen(of_x("a", 3), 0.0)
    see(c, *(member(f"a-{i}", x="a") for i in range(3)))
    assert len(binds(settle(c, 0.0))) == 3


def test_the_newer_label_goes_before_the_older_one() -> None:
    c = cluster(3)
    see(c, member("p", x="a", sigs="b"))
    assert c.plugins.gangs.key_of("uid-default-p") == "default/a"


def test_of_two_pod_groups_of_one_name_the_newer_api_group_counts_and_the_gang_says_so() -> None:
    c = cluster(3)
    gangs = c.plugins.gangs
    gangs.pod_group_seen(group("a", 2), 0.0)
    gangs.pod_group_seen(of_x("a", 3), 0.0)
    view = gangs.describe("default/a")
    assert view is not None
    assert view.spec is not None
    assert view.spec.min_available == 3
    assert "the PodGroup of scheduling.sigs.k8s.io does not count beside that of scheduling.x-k8s.io" in view.problems
    gangs.pod_group_gone("default/a", 1.0, api_group=X_GROUP)
    view = gangs.describe("default/a")
    assert view is not None
    assert view.spec is not None
    assert (view.spec.min_available, view.problems) == (2, ())
    gangs.pod_group_gone("default/a", 2.0)
    assert gangs.describe("default/a") is None


def test_an_object_that_does_not_count_gets_no_status() -> None:
    c = cluster(3)
    c.plugins.gangs.pod_group_seen(group("a", 2), 0.0)
    c.plugins.gangs.pod_group_seen(of_x("a", 2), 0.0)
    see(c, *(member(f"a-{i}", sigs="a") for i in range(2)))
    statuses = [instruction for instruction in settle(c, 0.0) if isinstance(instruction, PodGroupStatus)]
    assert {status.api_group for status in statuses} == {X_GROUP}
    c.plugins.gangs.pod_group_gone("default/a", 1.0, api_group=X_GROUP)
    statuses = [instruction for instruction in settle(c, 1.0) if isinstance(instruction, PodGroupStatus)]
    assert {(status.api_group, status.uid) for status in statuses} == {(SIGS_GROUP, "uid-a")}


def test_a_status_that_comes_back_from_the_server_is_not_written_again() -> None:
    c = cluster(3)
    given = of_x("a", 2)
    c.plugins.gangs.pod_group_seen(given, 0.0)
    see(c, *(member(f"a-{i}", x="a") for i in range(2)))
    out = settle(c, 0.0)
    confirm(c, out, 0.0)
    out += settle(c, 1.0)
    *_, last = (instruction for instruction in out if isinstance(instruction, PodGroupStatus))
    assert (last.phase, last.scheduled, last.kind) == (GangPhase.SCHEDULING, 0, "PodGroup.scheduling.x-k8s.io")
    c.plugins.gangs.pod_group_seen(replace(given, status=last), 2.0)
    assert not [instruction for instruction in settle(c, 2.0) if isinstance(instruction, PodGroupStatus)]


def test_the_newer_api_group_has_its_own_default_of_the_waiting_time() -> None:
    c = cluster(1)
    c.plugins.gangs.pod_group_seen(of_x("a", 2), 0.0)
    c.plugins.gangs.pod_group_seen(group("b", 2), 0.0)
    views = c.plugins.gangs.describe_all()
    assert [view.spec.wait_s for view in views if view.spec is not None] == [60.0, 600.0]
