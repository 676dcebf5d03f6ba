"""Signals of replicas on their way into the engine: which pods they are asked for, and what becomes of each line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.replica_signal import MaxAction, ReplicaSignal
from cotenant.services.agent.replica_signals import ReplicaSignalFeed, traced
from cotenant.services.reporting.signals import SignalLine, WireSignal


def pod(name: str, qos: QoSClass, phase: NodePodPhase = NodePodPhase.RUNNING) -> NodePod:
    return NodePod(f"u-{name}", "shop", name, f"g/{name}", qos, phase=phase)


def test_signals_are_asked_of_services_that_are_not_over() -> None:
    pods = (
        pod("web", QoSClass.LS),
        pod("plain", QoSClass.NONE),
        pod("going", QoSClass.LSR, NodePodPhase.TERMINATING),
        pod("gone", QoSClass.LS, NodePodPhase.OVER),
        pod("job", QoSClass.BE),
    )
    assert traced(pods) == [("shop/web", "u-web"), ("shop/plain", "u-plain"), ("shop/going", "u-going")]


def wire(pod: str, uid: str = "", bad: int = 1, requests: int = 10) -> WireSignal:
    return WireSignal(
        "shop/fast", "web", pod, uid, 5000, 10_000, MaxAction.OBSERVE, True, 60_000_000, requests, bad, 7000, 6000
    )


class Engine:
    """Knows the pods `u-web` and `shop/db`."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, ReplicaSignal, int]] = []
        self.withdrawn: list[tuple[str, str]] = []

    def signal_reported(self, pod: str, signal: ReplicaSignal, now_us: int) -> bool:
        if signal.bad > signal.requests:
            raise InvalidInput("bad", signal.bad, "at most the requests")
        self.reported.append((pod, signal, now_us))
        return pod in ("u-web", "shop/db")

    def signal_withdrawn(self, pod: str, objective: str) -> None:
        self.withdrawn.append((pod, objective))


def test_each_signal_of_a_line_is_taken_unknown_or_invalid_and_counted() -> None:
    engine = Engine()
    components = SimpleNamespace(clocks=SimpleNamespace(now_us=lambda: 77))
    feed = ReplicaSignalFeed(cast(Any, SimpleNamespace(agent=engine, components=components)))
    more_bad_than_requests = wire("shop/web", "u-web", bad=11)
    line = SignalLine(
        (wire("shop/web", "u-web"), wire("shop/db"), more_bad_than_requests, wire("shop/stranger", "u-stranger")),
        (("shop/web", "shop/slow"), ("shop/db", "shop/slow")),
    )
    feed.came(line)
    assert [(pod, signal.p99_us, now_us) for pod, signal, now_us in engine.reported] == [
        ("u-web", 7000, 77),
        ("shop/db", 7000, 77),
        ("u-stranger", 7000, 77),
    ]
    assert feed.counts == {"taken": 2, "unknown": 1, "invalid": 1}
    assert engine.withdrawn == [("shop/web", "shop/slow"), ("shop/db", "shop/slow")]
    feed.came(SignalLine((wire("shop/db"),)))
    assert feed.counts == {"taken": 3, "unknown": 1, "invalid": 1}
