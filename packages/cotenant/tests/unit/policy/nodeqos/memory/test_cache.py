"""Masks and bandwidth of the classes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.node.node_pods import node

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.cache_partition import Bandwidth, CacheHardware
from cotenant.policy.nodeqos.memory.cache import (
    CacheConfig,
    CacheMemory,
    ClassCache,
    bandwidth,
    decide,
    group_of,
    mask,
)

INTEL = CacheHardware(11, (0, 1), 1, Bandwidth.PERCENT, (0, 1))


def schemata(config: CacheConfig) -> dict[str, str]:
    verdict, _ = decide(node(), config, CacheMemory())
    assert verdict.reasons
    return {knob.target.group: knob.value for knob in verdict.knobs}


def test_koordinators_defaults_restrict_best_effort_only() -> None:
    # ceil(11 x 30 %) = 4 ways
    assert schemata(CacheConfig(INTEL)) == {"BE": "L3:0=f;1=f\nMB:0=100;1=100"}
    assert group_of(QoSClass.BE, CacheConfig(INTEL)) == "BE"
    assert group_of(QoSClass.LS, CacheConfig(INTEL)) == ""
    assert group_of(QoSClass.LSE, CacheConfig(INTEL, lsr=ClassCache(50, 100))) == "LSR"


def test_where_the_hardware_is_not_known_nothing_is_wanted() -> None:
    assert schemata(CacheConfig()) == {}
    assert group_of(QoSClass.BE, CacheConfig()) == ""


@pytest.mark.slow
@given(start=st.integers(0, 99), width=st.integers(1, 100), ways=st.integers(1, 64), least=st.integers(1, 8))
def test_masks_are_contiguous_large_enough_and_inside(start: int, width: int, ways: int, least: int) -> None:
    hardware = CacheHardware(ways, (0,), min(least, ways))
    bits = mask(ClassCache(start, min(100, start + width)), hardware)
    assert bits.bit_count() >= hardware.min_ways
    assert bits < 1 << ways
    shifted = bits >> ((bits & -bits).bit_length() - 1)
    assert shifted & (shifted + 1) == 0


@pytest.mark.parametrize(("percent", "wanted"), [(1, 10), (10, 10), (11, 20), (95, 100), (100, 100)])
def test_intel_takes_whole_steps_upwards(percent: int, wanted: int) -> None:
    assert bandwidth(ClassCache(bandwidth_percent=percent), INTEL) == wanted


@pytest.mark.parametrize(("percent", "wanted"), [(1, 1), (33, 52), (99, 158), (100, 2048)])
def test_amd_takes_eighths_of_a_gigabyte(percent: int, wanted: int) -> None:
    amd = CacheHardware(16, (0,), 1, Bandwidth.ABSOLUTE, (0,))
    assert bandwidth(ClassCache(bandwidth_percent=percent), amd) == wanted


def test_without_bandwidth_control_only_the_cache_is_said() -> None:
    assert schemata(CacheConfig(CacheHardware(20, (3, 1)))) == {"BE": "L3:1=3f;3=3f"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: ClassCache(50, 50),
        lambda: ClassCache(-1, 50),
        lambda: ClassCache(bandwidth_percent=0),
        lambda: CacheHardware(0, (0,)),
        lambda: CacheHardware(11, (0,), 12),
        lambda: CacheHardware(11, ()),
    ],
)
def test_contradictions(make: object) -> None:
    with pytest.raises(InvalidInput):
        make()  # type: ignore[operator]
