"""Which events wake a waiting pod, by example: volumes, and pods that are ending or were resized."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster.gang_world import RACK, binds, cluster, members, node, pod, preempted, see, settle, told

from cotenant.model.cluster.affinity import SpreadConstraint, WhenUnsatisfiable
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.cluster.observed import (
    Attachment,
    ClaimBinding,
    NodeStorage,
    ObservedPod,
    VolumeNeed,
    VolumeOption,
)
from cotenant.model.groups.gang import GangTopology

DRIVER = "disk.example.com"
BACK_OFF_S = 10.0


def using(seen: ObservedPod, volume: str, *, exclusive: bool = False) -> ObservedPod:
    attached = None if exclusive else Attachment(DRIVER, volume)
    options = (VolumeOption(volume, None),)
    need = VolumeNeed(f"default/{volume}", ClaimBinding.BOUND, options, exclusive, attachment=attached)
    return replace(seen, volumes=(*seen.volumes, need))


def can_attach(count: int) -> NodeStorage:
    return NodeStorage("n0", ((DRIVER, count),))


def test_a_node_that_goes_with_the_only_user_of_a_claim() -> None:
    c = cluster(2, 4000)
    see(c, using(pod("user", on="n0"), "v", exclusive=True), using(pod("waits"), "v", exclusive=True))
    assert "ReadWriteOncePod" in told(settle(c, 0.0))["waits"]
    c.node_gone("n0", 1.0)
    assert binds(settle(c, BACK_OFF_S)) == {"waits": "n1"}


def test_a_volume_that_another_pod_has_attached_meanwhile() -> None:
    c = cluster(1, 4000)
    c.node_storage_seen(can_attach(1))
    see(c, using(pod("other", on="n0"), "w"), using(pod("waits"), "v"))
    assert "max volume count" in told(settle(c, 0.0))["waits"]
    see(c, using(pod("user", on="n0"), "v"), now_s=1.0)
    assert binds(settle(c, BACK_OFF_S)) == {"waits": "n0"}


def test_a_node_that_attaches_more_volumes_once_a_pod_was_evicted() -> None:
    """Neither an eviction nor another volume helps alone."""
    c = cluster(1, 4000)
    c.node_storage_seen(can_attach(0))
    see(c, using(pod("low", on="n0"), "u", exclusive=True))
    see(c, using(using(pod("waits", priority=9), "v"), "u", exclusive=True))
    settle(c, 0.0)
    c.node_storage_seen(can_attach(1))
    assert preempted(settle(c, BACK_OFF_S)) == {"waits": ("low",)}


def test_a_pod_that_is_ending_counts_in_no_spread() -> None:
    c = cluster(2, 4000)
    same = LabelSelector.of({"app": "web"})
    web = pod("web", on="n0")
    web = replace(web, pod=replace(web.pod, labels=Labels.of({"app": "web"})))
    waits = pod("waits")
    spread = (SpreadConstraint(HOSTNAME, same, 1, WhenUnsatisfiable.DO_NOT_SCHEDULE),)
    labels = Labels.of({"app": "web"})
    see(c, web, pod("large", on="n1", cpu=4000))
    see(c, replace(waits, pod=replace(waits.pod, spread=spread, labels=labels)))
    assert "topology spread" in told(settle(c, 0.0))["waits"]
    see(c, replace(web, ends_s=1e6), now_s=1.0)
    assert binds(settle(c, BACK_OFF_S)) == {"waits": "n0"}


def test_a_pod_that_is_resized_makes_room_in_a_rack() -> None:
    c = cluster(0)
    for i in range(4):
        c.node_seen(node(f"n{i}", rack=f"r{i // 2}"))
    large = [pod(f"large{i}", on=f"n{i}") for i in (1, 3)]
    see(c, *large, *members("a", 2, topology=GangTopology((RACK,), True)))
    assert binds(settle(c, 0.0)) == {}
    small = pod("large1", on="n1", cpu=0)
    see(c, small, now_s=1.0)
    assert sorted(binds(settle(c, BACK_OFF_S)).values()) == ["n0", "n1"]
