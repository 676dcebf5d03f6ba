from __future__ import annotations

import numpy as np

from cotenant_lab.baselines.firmament.classes import how_many_fit, request_classes


def test_shapes_that_ask_alike_are_one_class(snapshot) -> None:
    cluster = snapshot([(4, 4)], [(1, 2), (2, 2), (1, 2), (1, 2)], [])
    cluster.shapes.tolerated[3] = 1
    label = np.zeros(4, np.int64)
    class_of, stands_for = request_classes(cluster.shapes, np.array([0, 1, 2, 3, 2]), label)
    assert class_of[0] == class_of[2] == class_of[4]
    assert len({class_of[0], class_of[1], class_of[3]}) == 3
    assert (cluster.shapes.request[stands_for[class_of]] == cluster.shapes.request[[0, 1, 2, 3, 2]]).all()


def test_a_label_or_a_group_splits_a_class(snapshot) -> None:
    cluster = snapshot([(4, 4)], [(1, 2)] * 3, [], group_limit=[0, 0, 2])
    class_of, _ = request_classes(cluster.shapes, np.array([0, 1, 2]), np.array([0, 1, 0]))
    assert len(set(class_of.tolist())) == 3


def test_how_many_fit_is_the_scarcest_resource_the_group_or_the_cap(snapshot) -> None:
    cluster = snapshot(
        [(9, 9), (9, 4), (1, 9)], [(2, 1), (1, 2)], [], used=[(1, 0), (0, 0), (0, 0)], group_limit=[3, 0]
    )
    cluster.nodes.group_count[1, 0] = 1
    rows = np.array([2, 0, 1])
    assert how_many_fit(cluster.nodes, cluster.shapes, np.array([0, 1]), rows, 99).tolist() == [[0, 3, 2], [1, 4, 2]]
    assert how_many_fit(cluster.nodes, cluster.shapes, np.array([1]), rows, 3).tolist() == [[1, 3, 2]]


def test_machines_that_may_not_be_used_fit_none(snapshot) -> None:
    cluster = snapshot([(9, 9), (9, 9)], [(1, 1)], [])
    cluster.nodes.ready[0] = False
    cluster.nodes.taints[1] = 1
    assert how_many_fit(cluster.nodes, cluster.shapes, np.array([0]), np.array([0, 1]), 9).tolist() == [[0, 0]]
