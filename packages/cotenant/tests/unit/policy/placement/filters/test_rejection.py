"""The compiled filters and their plain form, each with a node and a shape of its own: which filter turns a pod down,
and that the first one is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
import pytest

from cotenant.engine.state.ledger import empty_nodes
from cotenant.model.arrays import CPU, MEMORY, Float, NodeArrays, Param, ShapeArrays, Sum
from cotenant.policy.placement.codes import Fit
from cotenant.policy.placement.compiled import Reject, plain_rejections, rejection
from cotenant.policy.placement.knobs import Knobs

KNOBS = Knobs(use_limit=0.8, memory_limit=0.9, request_cap=1.5)
REQUESTS, PREDICTED = Fit.REQUESTS, Fit.PREDICTED_USE
PODS, CARDS = MEMORY + 1, MEMORY + 2


@dataclass
class Case:
    """A node of 10 cores, 1000 bytes, 5 pods and 2 cards, and a batch pod that asks for 1 core and 100 bytes."""

    requested: dict[int, int] = field(default_factory=dict)
    request: dict[int, int] = field(default_factory=dict)
    used_m: int = 0
    used_bytes: int = 0
    use_cores: float = 0.0
    use_bytes: float = 0.0
    service: float = 0.0
    taints: int = 0
    tolerated: int = 0
    selector: int = 0
    labels: int = 0
    residents: int = 0
    group: int = -1
    group_limit: int = 1
    load_limit: float = inf
    ready: bool = True

    def arrays(self) -> tuple[NodeArrays, ShapeArrays]:
        nodes = empty_nodes(np.array([[10_000, 1000, 5, 2]]), groups=2)
        for at, amount in self.requested.items():
            nodes.requested[0, at] = amount
        nodes.sums[0, Sum.USE_CPU], nodes.sums[0, Sum.USE_MEMORY] = self.used_m, self.used_bytes
        nodes.taints[0], nodes.labels[0, 0], nodes.ready[0] = self.taints, self.labels, self.ready
        nodes.group_count[0, 1] = self.residents
        request = np.array([[1000, 100, 1, 0]])
        for at, amount in self.request.items():
            request[0, at] = amount
        params = np.zeros((1, len(Param)))
        params[0, Param.USE_CPU], params[0, Param.USE_MEMORY] = self.use_cores, self.use_bytes
        params[0, Param.IS_SERVICE], params[0, Param.LOAD_LIMIT] = self.service, self.load_limit
        shapes = ShapeArrays(
            request=request,
            sums=np.zeros((1, len(Sum)), np.int64),
            params=params,
            tolerated=np.array([self.tolerated], np.uint64),
            selector=np.array([[self.selector]], np.uint64),
            tenant=np.zeros(1, np.int64),
            group=np.array([self.group]),
            group_limit=np.array([self.group_limit]),
        )
        return nodes, shapes


def compiled(nodes: NodeArrays, shapes: ShapeArrays, fit: int, knobs: Float) -> int:
    return int(rejection(nodes, 0, shapes, 0, fit, knobs))


def plain(nodes: NodeArrays, shapes: ShapeArrays, fit: int, knobs: Float) -> int:
    return int(plain_rejections(nodes, shapes, 0, fit, knobs)[0])


CASES = {
    "an empty node": (Case(), REQUESTS, 0),
    "the last core": (Case({CPU: 9000}), REQUESTS, 0),
    "beyond the last core": (Case({CPU: 9001}), REQUESTS, Reject.CPU),
    "no core asked of a full node": (Case({CPU: 12_000}, {CPU: 0}), REQUESTS, 0),
    "the last byte": (Case({MEMORY: 900}), REQUESTS, 0),
    "beyond the last byte": (Case({MEMORY: 901}), REQUESTS, Reject.MEMORY),
    "no byte asked of a full node": (Case({MEMORY: 2000}, {MEMORY: 0}), REQUESTS, 0),
    "the last pod": (Case({PODS: 4}), REQUESTS, 0),
    "one pod too many": (Case({PODS: 5}), REQUESTS, Reject.RESOURCE),
    "the last card": (Case({CARDS: 1}, {CARDS: 1}), REQUESTS, 0),
    "one card too many": (Case({CARDS: 2}, {CARDS: 1}), REQUESTS, Reject.RESOURCE),
    "no card asked where none is left": (Case({CARDS: 9}), REQUESTS, 0),
    "use does not count by requests": (Case(used_m=9999, used_bytes=999, use_bytes=99.0), REQUESTS, 0),
    # by predicted use: 1.5 times the cores may be requested, 0.8 of them and 0.9 of the memory used
    "batch over the requests": (Case({CPU: 14_000}), PREDICTED, 0),
    "batch over the cap": (Case({CPU: 14_001}), PREDICTED, Reject.CPU),
    "batch without cores over the cap": (Case({CPU: 99_000}, {CPU: 0}), PREDICTED, 0),
    "a service by its requests": (Case({CPU: 9001}, service=1.0), PREDICTED, Reject.CPU),
    "a service within its requests": (Case({CPU: 9000}, service=1.0), PREDICTED, 0),
    "batch over requested memory": (Case({MEMORY: 5000}), PREDICTED, 0),
    "batch at the memory's limit": (Case(used_bytes=850, use_bytes=50.0), PREDICTED, 0),
    "batch over the memory's limit": (Case(used_bytes=850, use_bytes=51.0), PREDICTED, Reject.MEMORY),
    "a service over the memory's limit": (Case(used_bytes=999, use_bytes=51.0, service=1.0), PREDICTED, 0),
    "a service over requested memory": (Case({MEMORY: 901}, service=1.0), PREDICTED, Reject.MEMORY),
    "at the use's limit": (Case(used_m=7000, use_cores=1.0), PREDICTED, 0),
    "over the use's limit": (Case(used_m=7001, use_cores=1.0), PREDICTED, Reject.LOAD),
    "a service over the use's limit": (Case(used_m=7001, use_cores=1.0, service=1.0), PREDICTED, Reject.LOAD),
    "at its own limit of load": (Case(used_m=4000, use_cores=1.0, load_limit=0.5), REQUESTS, 0),
    "over its own limit of load": (Case(used_m=4001, use_cores=1.0, load_limit=0.5), REQUESTS, Reject.LOAD),
    "a taint that it does not tolerate": (Case(taints=0b110, tolerated=0b101), REQUESTS, Reject.TAINT),
    "taints that it tolerates": (Case(taints=0b110, tolerated=0b111), REQUESTS, 0),
    "a label that the node lacks": (Case(selector=0b11, labels=0b01), REQUESTS, Reject.SELECTOR),
    "labels that the node has": (Case(selector=0b11, labels=0b111), REQUESTS, 0),
    "a place left for its group": (Case(residents=1, group=1, group_limit=2), REQUESTS, 0),
    "as many of its group as may be": (Case(residents=2, group=1, group_limit=2), REQUESTS, Reject.GROUP),
    "no group and no limit": (Case(residents=9, group=-1, group_limit=-1), REQUESTS, 0),
    "a node that is not ready": (Case(ready=False), REQUESTS, Reject.NOT_READY),
}


@pytest.mark.parametrize(("case", "fit", "said"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("form", [compiled, plain])
def test_a_pod_is_turned_down_by_the_filter_that_it_does_not_pass(
    form: Callable[[NodeArrays, ShapeArrays, int, Float], int], case: Case, fit: Fit, said: int
) -> None:
    assert form(*case.arrays(), fit, KNOBS.array()) == said


FIRST_TO_LAST: list[tuple[Reject, dict[str, Any]]] = [
    (Reject.NOT_READY, {"ready": False}),
    (Reject.CPU, {"requested": {CPU: 99_000}}),
    (Reject.MEMORY, {"requested": {CPU: 0, MEMORY: 9000}}),
    (Reject.RESOURCE, {"requested": {PODS: 5}}),
    (Reject.TAINT, {"taints": 1}),
    (Reject.SELECTOR, {"selector": 1}),
    (Reject.GROUP, {"residents": 1, "group": 1}),
    (Reject.LOAD, {"use_cores": 9.0, "load_limit": 0.5}),
]


@pytest.mark.parametrize("form", [compiled, plain])
def test_the_first_filter_is_told(form: Callable[[NodeArrays, ShapeArrays, int, Float], int]) -> None:
    for at, (said, _) in enumerate(FIRST_TO_LAST):
        wrong: dict[str, Any] = {}
        for _, more in reversed(FIRST_TO_LAST[at:]):
            wrong |= more
        assert form(*Case(**wrong).arrays(), REQUESTS, KNOBS.array()) == said


@pytest.mark.parametrize("form", [compiled, plain])
def test_predicted_use_comes_before_requests(form: Callable[[NodeArrays, ShapeArrays, int, Float], int]) -> None:
    case = Case({CPU: 99_000}, used_m=9000, taints=1)
    assert form(*case.arrays(), PREDICTED, KNOBS.array()) == Reject.LOAD
    assert form(*Case({CPU: 99_000}, used_m=9000, ready=False).arrays(), PREDICTED, KNOBS.array()) == Reject.NOT_READY
