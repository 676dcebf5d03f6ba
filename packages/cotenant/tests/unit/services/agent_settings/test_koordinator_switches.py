"""What a NodeSLO switches on and off, and the figures that stand where it names none: Koordinator's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.engine.node.policies import DEFAULT_POLICIES, PolicySettings
from cotenant.policy.nodeqos.burst.config import BurstPolicy
from cotenant.policy.nodeqos.cpu.best_effort import BestEffortCpuConfig
from cotenant.policy.nodeqos.cpu.suppression import SuppressionForm
from cotenant.policy.nodeqos.eviction.satisfaction import SatisfactionOf
from cotenant.services.agent_settings.koordinator import policies_of, read_node_slo

MARKS = {"cpuEvictBESatisfactionLowerPercent": 40, "cpuEvictBESatisfactionUpperPercent": 60}


def read(base: PolicySettings = DEFAULT_POLICIES, **spec: Any) -> PolicySettings:
    return policies_of(read_node_slo(spec), base)


def best_effort(**parts: Any) -> PolicySettings:
    return read(resourceQOSStrategy={"beClass": parts})


def idle(found: PolicySettings) -> bool:
    assert found.best_effort_cpu is not None
    return found.best_effort_cpu.idle


@pytest.mark.parametrize(
    ("given", "is_idle"),
    [
        ({"enable": True, "schedIdle": 1}, True),
        ({"enable": True, "schedIdle": 0}, False),
        ({"enable": False, "schedIdle": 1}, False),
        ({"schedIdle": 1}, False),
        ({"enable": True, "groupIdentity": -1}, True),
        ({"enable": True, "groupIdentity": 0}, False),
        ({"enable": True, "groupIdentity": 2}, False),
        ({"enable": False, "groupIdentity": -1}, False),
        ({"enable": True, "groupIdentity": -1, "schedIdle": 0}, True),
        ({"enable": True, "groupIdentity": 2, "schedIdle": 1}, True),
    ],
)
def test_the_idle_class_of_best_effort_work(given: dict[str, Any], is_idle: bool) -> None:
    assert idle(best_effort(cpuQOS=given)) == is_idle


@pytest.mark.parametrize("stood", [False, True])
def test_where_it_says_nothing_of_idle_the_file_has_the_word(stood: bool) -> None:
    base = replace(DEFAULT_POLICIES, best_effort_cpu=BestEffortCpuConfig(idle=stood))
    for given in ({}, {"cpuQOS": {"enable": True}}):
        assert idle(read(base, resourceQOSStrategy={"beClass": given})) == stood
    assert idle(read(base, resourceUsedThresholdWithBE={"enable": True})) == stood


@pytest.mark.parametrize("enable", [True, False, None])
def test_the_threshold_part_is_off_unless_it_is_enabled(enable: bool | None) -> None:
    given = MARKS if enable is None else {"enable": enable, **MARKS}
    found = read(resourceUsedThresholdWithBE=given)
    assert found.best_effort_cpu is not None
    assert found.best_effort_cpu.suppress.enabled is (enable is True)
    assert (found.memory_eviction is not None) is (enable is True)
    assert (found.cpu_eviction is not None) is (enable is True)


@pytest.mark.parametrize("mark", MARKS)
def test_evictions_by_satisfaction_need_both_marks(mark: str) -> None:
    found = read(resourceUsedThresholdWithBE={"enable": True, mark: 50})
    assert found.cpu_eviction is None


def test_figures_of_the_threshold_part_that_are_not_given() -> None:
    found = read(resourceUsedThresholdWithBE={"enable": True, **MARKS})
    assert found.best_effort_cpu is not None
    suppress = found.best_effort_cpu.suppress
    assert (suppress.threshold_percent, suppress.min_percent, suppress.form) == (65, None, SuppressionForm.CPUSET)
    assert found.memory_eviction is not None
    assert found.memory_eviction.best_effort is not None
    assert found.memory_eviction.best_effort.threshold_percent == 70
    assert found.cpu_eviction is not None
    satisfaction = found.cpu_eviction.satisfaction
    assert satisfaction is not None
    assert (satisfaction.lower_percent, satisfaction.upper_percent, satisfaction.used_percent) == (40, 60, 90)
    assert satisfaction.measured_against is SatisfactionOf.REAL_LIMIT
    assert found.cpu_eviction.window_us == 60_000_000


def test_a_figure_of_nought_is_a_figure() -> None:
    memory = read(resourceQOSStrategy={"lsClass": {"memoryQOS": {"enable": True, "minLimitPercent": 0}}}).memory
    assert memory is not None
    assert memory.ls.min_percent == 0
    burst = read(cpuBurstStrategy={"cfsQuotaBurstPeriodSeconds": 0}).burst
    assert burst is not None
    assert burst.quota_burst_period_s == 0


def test_figures_of_the_burst_part_that_are_not_given() -> None:
    burst = read(cpuBurstStrategy={}).burst
    assert burst is not None
    assert (burst.policy, burst.burst_percent, burst.quota_burst_percent) == (BurstPolicy.NONE, 1000, 300)
    assert (burst.quota_burst_period_s, burst.pool_threshold_percent) == (-1, 50)


CLASSES = {"lsrClass": "lsr", "lsClass": "ls", "beClass": "best_effort"}


@pytest.mark.parametrize("name", CLASSES)
def test_memory_of_a_class_alone(name: str) -> None:
    given = {"enable": True, "minLimitPercent": 10, "lowLimitPercent": 20, "throttlingPercent": 80}
    memory = read(resourceQOSStrategy={name: {"memoryQOS": given}}).memory
    assert memory is not None
    for class_ in CLASSES.values():
        found = getattr(memory, class_)
        figures = (found.min_percent, found.low_percent, found.throttling_percent)
        assert figures == ((10, 20, 80) if class_ == CLASSES[name] else (0, 0, 0))
    assert read(resourceQOSStrategy={name: {"memoryQOS": {**given, "enable": False}}}).memory is None
    only = read(resourceQOSStrategy={name: {"memoryQOS": {"enable": True}}}).memory
    assert only is not None
    found = getattr(only, CLASSES[name])
    assert (found.min_percent, found.low_percent, found.throttling_percent) == (0, 0, 0)


@pytest.mark.parametrize(("name", "usual"), [("lsrClass", 100), ("lsClass", 100), ("beClass", 30)])
def test_cache_of_a_class_alone(name: str, usual: int) -> None:
    def of(**given: Any) -> tuple[int, int, int] | None:
        cache = read(replace(DEFAULT_POLICIES, cache=None), resourceQOSStrategy={name: {"resctrlQOS": given}}).cache
        if cache is None:
            return None
        found = getattr(cache, CLASSES[name])
        return found.start_percent, found.end_percent, found.bandwidth_percent

    assert of(enable=True) == (0, usual, 100)
    assert of(enable=True, catRangeStartPercent=10, catRangeEndPercent=20, mbaPercent=50) == (10, 20, 50)
    assert of(enable=False, catRangeEndPercent=20) is None


@pytest.mark.parametrize(("percent", "weight"), [(0, 1), (1, 1), (40, 40), (100, 100), (250, 250)])
def test_weights_of_disks(percent: int, weight: int) -> None:
    blocks = [{"name": "vda", "ioCfg": {"ioWeightPercent": percent}}, {"name": "vdb"}]
    for name, field in (("beClass", "best_effort_weight"), ("lsClass", "service_weight")):
        io = read(resourceQOSStrategy={name: {"blkioQOS": {"enable": True, "blocks": blocks}}}).io
        assert io is not None
        assert getattr(io, field) == weight
        for off in ({"enable": False, "blocks": blocks}, {"enable": True}):
            assert read(resourceQOSStrategy={name: {"blkioQOS": off}}).io == DEFAULT_POLICIES.io
