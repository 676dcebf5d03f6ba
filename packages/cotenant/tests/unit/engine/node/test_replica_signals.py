"""Signals measured from spans replace a service's own report while they are fresh."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.node.fake_node import pod

from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.rates import NodeRates
from cotenant.engine.node.settings import AgentSettings
from cotenant.engine.node.view import NodePodsView
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_state import GroupUse, HostUse, PodUse, ServiceHealth
from cotenant.model.machine.replica_signal import MaxAction, ReplicaSignal
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.nodeqos.guard.signals import Burn, pod_signal, protected
from cotenant.policy.nodeqos.guard.step import CALM, CLOSE, MISSED

SIGNAL = ReplicaSignal(
    objective="shop/cart-latency",
    service="shop/cart",
    pod="default/web",
    pod_uid="",
    threshold_us=200_000,
    budget_ppm=1000,
    max_action=MaxAction.CAP,
    guard=True,
    window_us=10_000_000,
    requests=1000,
    bad=5,
    p99_us=150_000,
    at_target_us=260_000,
)
OWN = ServiceHealth(10_000_000, 100, 1000, 0, 0)
SECOND = 1_000_000


def view() -> NodePodsView:
    found = NodePodsView(AgentSettings(), AgentCounts())
    found.pods_seen([replace(pod("web", "web"), objective_p99_us=5000), pod("other", "other")])
    return found


def use(one: NodePodsView, now_us: int, **of_group: int) -> PodUse:
    rates = NodeRates(SECOND, HostUse(2, 0, 1, 1), {"web": GroupUse("web", **of_group)}, None, 0)
    return next(pod_use for pod_use in one.state(rates, {}, (), frozenset(), now_us).pods if pod_use.pod.name == "web")


def test_a_fresh_signal_replaces_the_own_report_and_objective() -> None:
    one = view()
    one.health_reported("default/web", OWN, 0)
    assert one.signal_reported("default/web", SIGNAL, 0) is not None
    entry = use(one, 2 * SECOND)
    assert entry.pod.objective_p99_us == 200_000
    assert entry.health is not None
    assert (entry.health.objective, entry.health.over_objective, entry.health.age_us) == (
        "shop/cart-latency",
        5,
        2 * SECOND,
    )
    judged = pod_signal(entry, Burn(entry.pod.uid), GuardConfig())
    assert (judged.severity, judged.signal) == (MISSED, "latency")
    assert judged.text.startswith("default/web: p99.9 260000 us against 200000 us, slack -30")
    assert "by shop/cart-latency" in judged.text


def test_a_silent_source_leaves_the_own_report_and_then_run_delay() -> None:
    one = view()
    one.signal_reported("default/web", SIGNAL, 0)
    one.health_reported("default/web", OWN, 6 * SECOND)
    entry = use(one, 7 * SECOND)
    assert (entry.pod.objective_p99_us, entry.health) == (5000, replace(OWN, age_us=SECOND))
    entry = use(one, 90 * SECOND, cpu_m=1000, run_delay_ppm=80_000)
    judged = pod_signal(entry, Burn(entry.pod.uid), GuardConfig())
    assert (judged.severity, judged.signal) == (CLOSE, "run delay")
    assert judged.text.endswith("(no span for shop/cart-latency since 90 s)")


def test_the_objective_that_burns_fastest_counts() -> None:
    one = view()
    one.signal_reported("default/web", replace(SIGNAL, objective="shop/b", bad=9), 0)
    one.signal_reported("default/web", SIGNAL, 0)
    one.signal_reported("default/web", replace(SIGNAL, objective="shop/c", bad=999, guard=False), 0)
    entry = use(one, 0)
    assert [signal.objective for signal in entry.signals] == ["shop/c", "shop/b", "shop/cart-latency"]
    assert entry.health is not None
    assert entry.health.objective == "shop/b"
    one.signals.withdrawn(entry.pod.uid, "shop/b")
    assert use(one, 0).health.objective == "shop/cart-latency"  # type: ignore[union-attr]


def test_an_objective_of_errors_protects_and_does_not_cut() -> None:
    one = view()
    one.pods_seen([pod("web", "web")])
    one.signal_reported("default/web", replace(SIGNAL, threshold_us=None, bad=900), 0)
    entry = use(one, 0)
    assert entry.pod.objective_p99_us is None
    judged = pod_signal(entry, Burn(entry.pod.uid, short=900_000), GuardConfig())
    assert (judged.severity, judged.signal) == (CLOSE, "errors")
    assert pod_signal(entry, Burn(entry.pod.uid), GuardConfig()).severity == CALM
    rates = NodeRates(SECOND, HostUse(2, 0, 1, 1), {}, None, 0)
    assert entry.pod.key in {pod_use.pod.key for pod_use in protected(one.state(rates, {}, (), frozenset(), 0))}


@pytest.mark.parametrize(
    "wrong",
    [{"bad": 1001}, {"requests": -1}, {"budget_ppm": 0}, {"budget_ppm": 10**6}, {"threshold_us": 0}, {"window_us": 0}],
)
def test_an_impossible_signal_is_refused_and_the_earlier_stays(wrong: dict[str, int]) -> None:
    one = view()
    one.signal_reported("default/web", SIGNAL, 0)
    with pytest.raises(InvalidInput):
        one.signal_reported("default/web", replace(SIGNAL, **wrong), 0)  # type: ignore[arg-type]
    assert use(one, 0).signals == (SIGNAL,)


def test_signals_are_bounded_and_leave_with_their_pod() -> None:
    one = view()
    for number in range(100):
        one.signal_reported("default/web", replace(SIGNAL, objective=f"shop/{number}"), 0)
    assert len(use(one, 0).signals) == 32
    assert one.signal_reported("default/nobody", SIGNAL, 0) is None
    one.pods_seen([])
    one.pods_seen([pod("web", "web")])
    assert use(one, 0).signals == ()


def test_actions_are_ordered() -> None:
    assert MaxAction.EVICT.allows(MaxAction.CAP)
    assert not MaxAction.CAP.allows(MaxAction.IDLE)
    assert replace(SIGNAL, requests=0, bad=0).burn_milli is None
    assert SIGNAL.burn_milli == 5000
