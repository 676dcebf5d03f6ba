from __future__ import annotations

from math import inf

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.arrays import Sum
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod, PodEstimate
from cotenant.model.resources import Amounts
from cotenant.policy.placement.filters import load_threshold

ROWS = np.arange(2)


def answers(limit: float, use_cores: float = 1.0) -> list[bool]:
    encoder = Encoder(half_node_cores=5.0)
    for name in ("idle", "busy"):
        encoder.add_node(Node(name, Amounts.of({"cpu": 10_000, "memory": 100})))
    encoder.nodes().sums[1, Sum.USE_CPU] = 6000
    _, k = encoder.add_pod(Pod("p", estimate=PodEstimate(use_cores, 1), load_limit=limit))
    return load_threshold.mask(encoder.nodes(), encoder.shapes(), k, ROWS).tolist()


def test_residents_and_the_newcomer_count() -> None:
    assert answers(0.7) == [True, True]  # 6 + 1 of 10 cores: at the limit is within it
    assert answers(0.69) == [True, False]
    assert answers(0.7, use_cores=1.1) == [True, False]
    assert answers(0.05) == [False, False]


def test_no_limit() -> None:
    assert answers(inf, use_cores=1000.0) == [True, True]
