"""The pods of the node, and the group of all best-effort pods."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.node.fake_node import pod

from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.settings import AgentSettings
from cotenant.engine.node.view import NodePodsView, common_group
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.node_pod import NodeContainer, NodePodPhase
from cotenant.model.machine.node_state import ServiceHealth

HEALTH = ServiceHealth(1, 1, 1, 0, 0)


def view(**more: object) -> NodePodsView:
    return NodePodsView(AgentSettings(**more), AgentCounts())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("best_effort", "services", "roots", "common"),
    [
        (["k/be/a", "k/be/b"], ["k/s"], ["k"], "k/be"),
        (["k/be/x/a", "k/be/y/b"], [], ["k"], "k/be"),
        (["k/be/a", "k/be/b"], ["k/be/s"], ["k"], None),  # a service is among them
        (["k/a", "k/b"], [], ["k"], None),  # a root is shared by all
        (["k/a", "k/b"], [], ["k/x"], None),  # outside
        (["k/be/a"], ["k/s"], ["k"], "k/be"),
        (["k/a"], ["k/s"], ["k"], "k/a"),  # alone beside services: its own group
        (["k/a"], ["k/a/s"], ["k"], None),  # a service within it
        (["k/ab", "k/ac"], [], ["k"], None),  # no group has the path k/a
        ([], ["k/s"], ["k"], None),
        (["k/be/a", "k/be/b"], [], [], None),
    ],
)
def test_the_common_group(best_effort: list[str], services: list[str], roots: list[str], common: str | None) -> None:
    pods = [pod(f"g{i}", group, QoSClass.BE) for i, group in enumerate(best_effort)]
    pods += [pod(f"s{i}", group) for i, group in enumerate(services)]
    assert common_group(pods, roots) == common


def test_a_named_group_is_read_and_stays() -> None:
    one = view(best_effort_group="batch", watch_groups=("system",))
    assert one.groups() == ("batch", "system")
    one.pods_seen([pod("a", "k/be/a", QoSClass.BE)])
    assert one.best_effort_group == "batch"
    assert one.groups() == ("batch", "k/be/a", "system")


def test_a_service_in_the_named_group_is_not_limited_with_its_neighbours() -> None:
    """With a kubelet one without requests stands there: the others are held one by one until it is gone."""
    one = view(best_effort_group="k/besteffort", roots=("k/besteffort",))
    job, of_the_node = pod("a", "k/besteffort/a", QoSClass.BE), pod("b", "k/besteffort/b", QoSClass.SYSTEM)
    one.pods_seen([job, of_the_node, pod("c", "k/burstable/c")])
    assert one.best_effort_group == "k/besteffort"
    one.pods_seen([job, of_the_node, pod("c", "k/besteffort/c")])
    assert one.best_effort_group is None
    one.pods_seen([job, pod("c", "k/besteffort/c", phase=NodePodPhase.OVER)])
    assert one.best_effort_group == "k/besteffort"


def test_finished_pods_are_left_out() -> None:
    one = view()
    came, went = one.pods_seen(
        [pod("a", "a"), pod("b", "b", phase=NodePodPhase.OVER), pod("c", "c", phase=NodePodPhase.TERMINATING)]
    )
    assert (came, went) == ({"a", "c"}, set())
    came, went = one.pods_seen([pod("a", "a", phase=NodePodPhase.OVER)])
    assert (came, went) == (set(), {"a", "c"})


def test_a_name_refers_to_the_running_pod_and_a_uid_to_exactly_one() -> None:
    one = view()
    old = replace(pod("web", "old", phase=NodePodPhase.TERMINATING), uid="zzz")
    one.pods_seen([old, replace(pod("web", "new"), uid="aaa")])
    assert one.find("default/web").uid == "aaa"  # type: ignore[union-attr]
    assert one.find("zzz") == old
    assert one.health_reported("default/web", HEALTH, 0).uid == "aaa"  # type: ignore[union-attr]


def test_the_owner_of_a_group_is_the_pod_at_or_above_it() -> None:
    one = view()
    one.pods_seen([pod("web", "k/web", containers=(NodeContainer("c", "elsewhere/c"),))])
    assert one.owner("k/web/init/x").name == "web"  # type: ignore[union-attr]
    assert one.owner("elsewhere/c").name == "web"  # type: ignore[union-attr]
    assert one.owner("k") is None
    assert one.owner("k/webby") is None


def test_the_order_of_discovery_does_not_matter() -> None:
    pods = [pod(name, name) for name in "cab"]
    one, other = view(), view()
    one.pods_seen(pods)
    other.pods_seen(pods[::-1])
    assert list(one.pods) == list(other.pods) == ["uid-a", "uid-b", "uid-c"]
