from __future__ import annotations

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.filters import fit

GPU = "nvidia.com/gpu"
ROWS = np.arange(3)


def cluster() -> Encoder:
    encoder = Encoder(half_node_cores=2.0)
    encoder.add_node(Node("small", Amounts.of({"cpu": 1000, "memory": 100, "pods": 9})))
    encoder.add_node(Node("large", Amounts.of({"cpu": 4000, "memory": 800, "pods": 9})))
    encoder.add_node(Node("gpus", Amounts.of({"cpu": 4000, "memory": 800, "pods": 1, GPU: 2})))
    return encoder


def passing(encoder: Encoder, **requests: int) -> list[bool]:
    names = {"gpu": GPU}
    _, k = encoder.add_pod(
        Pod(f"p{len(encoder.pod_numbers)}", requests=Amounts.of({names.get(n, n): a for n, a in requests.items()}))
    )
    return fit.mask(encoder.nodes(), encoder.shapes(), k, ROWS).tolist()


def test_up_to_the_last_unit() -> None:
    encoder = cluster()
    assert passing(encoder, cpu=1000, memory=100) == [True, True, True]
    assert passing(encoder, cpu=1001) == [False, True, True]
    assert passing(encoder, memory=101) == [False, True, True]
    assert passing(encoder, cpu=4001) == [False, False, False]


def test_residents_count() -> None:
    encoder = cluster()
    encoder.nodes().requested[1, 0] = 3500
    assert passing(encoder, cpu=600) == [True, False, True]


def test_a_resource_that_only_some_nodes_have() -> None:
    encoder = cluster()
    assert passing(encoder, cpu=1, gpu=2) == [False, False, True]
    assert passing(encoder, cpu=1, gpu=3) == [False, False, False]


def test_a_resource_that_no_node_has_fits_nowhere() -> None:
    encoder = cluster()
    _, k = encoder.add_pod(Pod("p", requests=Amounts.of({"example.com/widget": 1})))
    short = fit.short(encoder.nodes(), encoder.shapes(), k, ROWS)
    assert short.sum(axis=0).tolist() == [0, 0, 0, 0, 3]
    assert fit.reason(encoder.axis.names[4]) == "Insufficient example.com/widget"


def test_every_pod_takes_a_slot() -> None:
    encoder = cluster()
    encoder.nodes().requested[2, 2] = 1
    assert passing(encoder, cpu=1) == [True, True, False]
    assert fit.reason("pods") == "Too many pods"
    assert fit.reason("cpu") == "Insufficient cpu"


def test_what_is_not_requested_is_not_asked_about() -> None:
    encoder = cluster()
    encoder.nodes().requested[0, 1] = 500  # more memory than there is
    assert passing(encoder, cpu=10) == [True, True, True]
    assert passing(encoder, cpu=10, memory=1) == [False, True, True]
