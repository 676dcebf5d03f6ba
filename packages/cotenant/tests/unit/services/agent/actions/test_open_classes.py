"""The classes beside cgroups that an agent of one and of two processes can use."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from tests.fakes.node.cgroup_trees import CgroupTrees
from tests.fakes.node.fake_resctrl import FakeResctrl

from cotenant.engine.node.policies import PolicySettings
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob
from cotenant.policy.nodeqos.io.network import NetworkConfig
from cotenant.policy.nodeqos.memory.cache import CacheConfig
from cotenant.services.agent.actions.hardware_classes import NEEDS_SINGLE, open_classes
from cotenant.services.agent_settings.config import AgentConfig

BOTH = PolicySettings(cache=CacheConfig(), network=NetworkConfig(device="up0", link_bits=10**9))


def test_with_two_processes_both_policies_are_gaps(tmp_path: Path) -> None:
    layout = CgroupTrees(tmp_path / "cgroup", "hybrid").layout
    config = AgentConfig(policies=BOTH, resctrl_root=FakeResctrl(tmp_path / "resctrl").root)
    found = open_classes(config, layout, AsyncExitStack(), single=False)
    assert (found.knobs, found.cache, found.uplink) == (frozenset(), None, None)
    assert found.gaps == (Gap("classes of the cache", NEEDS_SINGLE), Gap("classes of the uplink", NEEDS_SINGLE))
    quiet = replace(config, policies=PolicySettings())
    assert open_classes(quiet, layout, AsyncExitStack(), single=False).gaps == ()


def test_in_one_process_the_cache_is_partitioned_where_supported(tmp_path: Path) -> None:
    layout = CgroupTrees(tmp_path / "cgroup", "hybrid").layout
    config = AgentConfig(policies=BOTH, resctrl_root=FakeResctrl(tmp_path / "resctrl", ways=11).root)
    found = open_classes(config, layout, AsyncExitStack(), single=True)
    assert found.knobs == {Knob.RATE, Knob.SCHEMATA}
    assert found.hardware is not None
    assert found.hardware.ways == 11
    lacking = open_classes(replace(config, resctrl_root=tmp_path / "none"), layout, AsyncExitStack(), single=True)
    assert lacking.knobs == {Knob.RATE}
    assert [gap.what for gap in lacking.gaps] == ["classes of the cache"]
