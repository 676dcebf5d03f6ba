"""The prediction of reclaimable requests: which pods train it, and what a restart keeps."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from cotenant.engine.node.prediction import KeptHistories, ProdPrediction
from cotenant.engine.node.report import NodeUsage, PodAverage
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import Use
from cotenant.model.machine.node_pod import NodeContainer, NodePod
from cotenant.policy.overcommit.reclaimable import ReclaimableConfig

GIB = 1 << 30
ROOM = Use(32_000, 64 * GIB)
CONFIG = ReclaimableConfig(cold_start_s=0.0)


def pod(name: str, of: PriorityClass = PriorityClass.PROD) -> NodePod:
    container = NodeContainer("main", f"g/{name}", cpu_request_m=4000, memory_request_bytes=8 * GIB)
    return NodePod(f"uid-{name}", "ns", name, f"g/{name}", priority_class=of, containers=(container,))


WEB, PLAIN, MID, BATCH = (
    pod("web"),
    pod("plain", PriorityClass.NONE),
    pod("mid", PriorityClass.MID),
    pod("batch", PriorityClass.BATCH),
)
ALL = (WEB, PLAIN, MID, BATCH)


def usage(*pods: NodePod, cpu_m: int = 1000) -> NodeUsage:
    host = replace(pod("ntp"), host_application=True)
    entry = tuple(PodAverage(one, cpu_m, GIB) for one in pods)
    return NodeUsage(0, 9000, 9 * GIB, 500, GIB, (), (), entry, (PodAverage(host, 100, GIB),))


def after(minutes: int, *pods: NodePod) -> ProdPrediction:
    found = ProdPrediction(CONFIG)
    for _ in range(minutes):
        found.measured(usage(*pods), 60.0)
    return found


def test_only_prod_and_pods_without_a_class_are_predicted() -> None:
    both = after(3, *ALL).current(ALL, ROOM)
    alone = after(3, WEB, PLAIN).current((WEB, PLAIN), ROOM)
    assert both == alone
    assert both is not None
    assert both.warm == 2
    assert 3000 < both.value.cpu_m < 6000


def test_the_prediction_goes_on_after_a_restart() -> None:
    before = after(200, *ALL)
    text = msgspec.json.encode(before.kept())
    restarted = ProdPrediction(CONFIG)
    restarted.restore(msgspec.json.decode(text, type=KeptHistories))
    assert restarted.current(ALL, ROOM) == before.current(ALL, ROOM)
    for one in (before, restarted):
        one.measured(usage(*ALL, cpu_m=3500), 60.0)
    assert restarted.current(ALL, ROOM) == before.current(ALL, ROOM)
    assert len(text) < 2000  # only buckets with a weight


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"now_s": -1.0},
        {"now_s": 1.0},  # histories from after now
        {
            "together": {
                "first_s": 0,
                "last_s": 0,
                "cpu": {"at_s": 0, "counts": {"9999": 1}},
                "memory": {"at_s": 0, "counts": {}},
            }
        },
        {
            "together": {
                "first_s": 0,
                "last_s": 0,
                "cpu": {"at_s": 0, "counts": {"1": -1}},
                "memory": {"at_s": 0, "counts": {}},
            }
        },
    ],
)
def test_kept_histories_that_make_no_sense_are_refused(change: dict[str, object]) -> None:
    document = msgspec.to_builtins(after(3, *ALL).kept(), str_keys=True) | change
    fresh = ProdPrediction(CONFIG)
    with pytest.raises(InvalidInput):
        fresh.restore(msgspec.convert(document, KeptHistories, str_keys=True))
    assert fresh.current(ALL, ROOM) is None
