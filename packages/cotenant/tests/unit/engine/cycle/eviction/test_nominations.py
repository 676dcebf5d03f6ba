"""Pods that hold a nomination: they keep their place free, and are no company before they come."""

from __future__ import annotations

import numpy as np

from cotenant.engine.cycle.runs import place_in_runs
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.narrowing import Narrowing
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts

X = Labels.of({"app": "x"})
NEAR_X = PodTerm(HOSTNAME, LabelSelector.of({"app": "x"}))


class Cluster:
    """Two nodes, and a guest that is nominated to the first and wants no x beside it."""

    def __init__(self) -> None:
        self.encoder = Encoder(half_node_cores=1.0)
        for name in ("n0", "n1"):
            size = Amounts.of({"cpu": 1000, "memory": 1000})
            self.encoder.add_node(Node(name, size, Labels.of({HOSTNAME: name})))
        self.narrowing = Narrowing(self.encoder)
        self.guest = self.add(Pod("guest", labels=X, anti_affinity=(NEAR_X,)))
        self.nominated = ((self.guest, 0),)

    def add(self, pod: Pod) -> int:
        number, shape = self.encoder.add_pod(pod)
        self.narrowing.add_pod(number, pod, shape)
        return number


def test_it_is_left_its_place_and_does_not_stand_in_its_own_way() -> None:
    cluster = Cluster()
    other = cluster.add(Pod("other", labels=X))
    assert len(cluster.narrowing.allowed(other)) == 0
    assert cluster.narrowing.allowed_with(other, cluster.nominated).tolist() == [False, True]
    assert len(cluster.narrowing.allowed_with(cluster.guest, cluster.nominated)) == 0  # no rule narrows it
    assert cluster.narrowing.row_of(cluster.guest) == -1


def test_it_is_no_company_before_it_comes() -> None:
    cluster = Cluster()
    follower = cluster.add(Pod("follower", affinity=(NEAR_X,)))
    assert cluster.narrowing.allowed_with(follower, cluster.nominated).tolist() == [False, False]
    cluster.narrowing.assign(cluster.guest, 0)
    assert cluster.narrowing.allowed(follower).tolist() == [True, False]


def test_placing_keeps_to_expected_nominations() -> None:
    cluster = Cluster()
    other = cluster.add(Pod("other", labels=X))

    def lowest(positions: Int, allowed: Mask) -> Int:
        return np.full(len(positions), np.flatnonzero(allowed)[0] if len(allowed) else 0)

    cluster.narrowing.expect(cluster.nominated)
    assert place_in_runs(cluster.narrowing, np.array([other]), lowest).tolist() == [1]
    cluster.narrowing.unassign(other)
    cluster.narrowing.expect(())
    assert place_in_runs(cluster.narrowing, np.array([other]), lowest).tolist() == [0]
