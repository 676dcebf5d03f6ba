"""The figures of a node's reports, by their definitions."""

from __future__ import annotations

import pytest
from tests.fakes.node.fake_node import GIB, SECOND, FakeNode, pod

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.report import TenantUse, demand_capped_fairness, dominant_share, latency_p99_us
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_state import ServiceHealth


def health(p99_us: int, requests: int = 100, over: int = 0, age_us: int = 0) -> ServiceHealth:
    return ServiceHealth(SECOND, requests, p99_us, over, age_us)


@pytest.mark.parametrize(("cpu", "memory", "share"), [(1000, 500, 0.5), (3000, 500, 0.75), (5000, 500, 1.25)])
def test_the_dominant_share_is_the_larger_one(cpu: int, memory: int, share: float) -> None:
    assert dominant_share(cpu, 4000, memory, 1000) == share


def test_tenants_whose_demand_is_met_are_treated_equally_whatever_the_demand() -> None:
    assert demand_capped_fairness([TenantUse(100, 0, 0), TenantUse(900, 0, 0)], 4000, GIB) == 1.0


def test_a_tenant_that_waits_while_another_has_more_than_its_share_is_unfair() -> None:
    # Both could have half; the first has a quarter and waits for three quarters, the second has three quarters.
    unfair = demand_capped_fairness([TenantUse(1000, 3000, 0), TenantUse(3000, 0, 0)], 4000, GIB)
    assert unfair == pytest.approx(1.5**2 / (2 * 1.25))


def test_the_rest_of_a_small_demand_goes_to_the_others() -> None:
    # 400 is met; the other two could have 1800 each and do.
    tenants = [TenantUse(400, 0, 0), TenantUse(1800, 1000, 0), TenantUse(1800, 200, 0)]
    assert demand_capped_fairness(tenants, 4000, GIB) == pytest.approx(1.0)


def test_memory_can_be_the_dominant_resource() -> None:
    # The first has half of the memory and no CPU at all of the quarter that it wants: half of its demand of memory is
    # met.
    tenants = [TenantUse(0, 1000, GIB // 2), TenantUse(4000, 0, 0)]
    assert demand_capped_fairness(tenants, 4000, GIB) == pytest.approx(1.0)
    tenants = [TenantUse(0, 1000, GIB // 100), TenantUse(4000, 0, 0)]
    assert demand_capped_fairness(tenants, 4000, GIB) < 0.6


@pytest.mark.parametrize("tenants", [[], [TenantUse(0, 0, 0)], [TenantUse(5, 0, 0)], [TenantUse(5, 10**6, 0)]])
def test_one_tenant_or_none_is_fair(tenants: list[TenantUse]) -> None:
    assert demand_capped_fairness(tenants, 4000, GIB) == 1.0


def test_tenants_that_get_nothing_are_treated_equally() -> None:
    assert demand_capped_fairness([TenantUse(0, 9000, 0), TenantUse(0, 9000, 0)], 4000, GIB) == 1.0


@pytest.mark.parametrize(
    ("windows", "p99"),
    [
        ([], None),
        ([health(5, requests=0)], None),
        ([health(5)], 5),
        ([health(5, 990), health(900, 10)], 5),
        ([health(5, 989), health(900, 11)], 900),
        ([health(5, 10), health(900, 10), health(20, 10)], 900),
    ],
)
def test_the_nodes_p99_is_that_of_the_window_that_the_slowest_percent_ends_in(
    windows: list[ServiceHealth], p99: int | None
) -> None:
    assert latency_p99_us(windows) == p99


def test_a_report_covers_the_last_window_and_allocatable_resources() -> None:
    settings = AgentSettings(reserved_cpu_m=1000, reserved_memory_bytes=4 * GIB, report_window_us=10 * SECOND)
    agent = Agent(settings, "node-1")
    web, hog = pod("web", "a", tenant="t1"), pod("hog", "b", QoSClass.BE, tenant="t2")
    node = FakeNode(agent, (web, hog), use={"a": 3000}, memory={"a": 1 * GIB})
    assert agent.report(5.0) is None
    node.tick()
    assert agent.report(5.0) is None
    for _ in range(15):
        node.tick()
    node.use = {"a": 500, "b": 1000}
    agent.health_reported("default/web", health(90_000, 100, 50), node.now_us)
    for _ in range(10):
        node.tick()
    agent.health_reported("default/web", health(8000, 100, 5), node.now_us)
    agent.health_reported("default/web", health(9000, 100, 1), node.now_us)
    report = agent.report(5.0)
    assert report is not None
    assert (report.node, report.at_s) == ("node-1", 5.0)
    assert (report.cpu_allocatable, report.cpu_used) == (3.0, 1.5)
    assert (report.memory_allocatable, report.memory_used) == (4.0 * GIB, 1.0 * GIB)
    assert (report.latency_p99_ms, report.violation) == (9.0, 0.03)
    assert (report.dominant_share, report.fairness) == (0.5, 1.0)


def test_usage_by_node_system_pod_and_application() -> None:
    agent = Agent(AgentSettings(), "node-1")
    app = pod("app", "c", host_application=True)
    node = FakeNode(agent, (pod("web", "a"), app), use={"a": 1000, "c": 200, "loose": 300}, memory={"a": GIB})
    assert agent.usage([SECOND]) is None
    for _ in range(10):
        node.tick()
    usage = agent.usage([5 * SECOND, 100 * SECOND])
    assert usage is not None
    assert (usage.cpu_m, usage.system_cpu_m, usage.memory_bytes, usage.system_memory_bytes) == (1500, 300, GIB, 0)
    assert [(one.pod.name, one.cpu_m) for one in usage.pods] == [("web", 1000)]
    assert [(one.pod.name, one.cpu_m) for one in usage.applications] == [("app", 200)]
    assert [one.window_us for one in usage.node] == [5 * SECOND, 100 * SECOND]
    summary = usage.node[1].cpu_m
    assert summary is not None
    assert (summary.average, summary.p50, summary.p99) == (1500, 1500, 1500)


def test_usage_has_the_p99_that_a_service_reported_until_it_is_too_old() -> None:
    agent = Agent(AgentSettings(health_us=20 * SECOND), "node-1")
    node = FakeNode(agent, (pod("web", "a"), pod("other", "b")), use={"a": 1000, "b": 100})
    node.tick()
    agent.health_reported("default/web", health(90_000), node.now_us)
    agent.health_reported("default/other", health(0, requests=0), node.now_us)

    def p99_ms() -> list[float | None]:
        usage = agent.usage([5 * SECOND])
        assert usage is not None
        return [one.signals.latency_p99_ms for one in usage.pods]

    node.tick()
    assert p99_ms() == [None, 90.0]  # in the order of names
    for _ in range(30):
        node.tick()
    assert p99_ms() == [None, None]


@pytest.mark.parametrize(
    "wrong",
    [health(-1), health(10**12), health(5, requests=-1), health(5, requests=1, over=2), health(5, age_us=-1)],
)
def test_an_impossible_health_report_is_refused(wrong: ServiceHealth) -> None:
    agent = Agent(AgentSettings(), "node-1")
    node = FakeNode(agent, (pod("web", "a"),))
    with pytest.raises(InvalidInput):
        agent.health_reported("default/web", wrong, node.now_us)
