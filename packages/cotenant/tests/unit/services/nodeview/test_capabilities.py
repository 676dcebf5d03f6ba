"""What `cotenant node status` says of the runtime hook, and of what an agent has by its keeper."""

from __future__ import annotations

import time
from pathlib import Path

from tests.fakes.node.cgroup_trees import CgroupTrees

from cotenant.drivers.nri.state_file import HANGS_AFTER_S, HookState, StateFile
from cotenant.model.machine.run_queue import BLAME
from cotenant.services.nodeview.capabilities import MEASURE, AgentCapability, capabilities, of_agent


def hook_of(tmp_path: Path) -> AgentCapability:
    layout = CgroupTrees(tmp_path / "cgroup", "v1").layout
    (found,) = (
        capability for capability in capabilities(layout, tmp_path / "nri.json") if "runtime hook" in capability.what
    )
    return found


def test_the_runtime_hook_and_what_it_lacks(tmp_path: Path) -> None:
    assert "new containers are limited within one period" in hook_of(tmp_path).needs
    file = StateFile(tmp_path / "nri.json")
    file.write(HookState(acts=True))
    assert "a runtime that accepts the hook" in hook_of(tmp_path).needs
    file.write(HookState("containerd 2.1.0", acts=False))
    assert hook_of(tmp_path).needs == "mode act, for the hook that containerd 2.1.0 has"
    file.write(HookState("containerd 2.1.0", acts=True))
    assert hook_of(tmp_path).is_there
    file.close()
    assert not hook_of(tmp_path).is_there


def test_what_the_agent_has_by_its_keeper_counts_and_not_what_this_process_may() -> None:
    others = AgentCapability(MEASURE, "cycles and instructions (CPI)", "a hardware performance counter")
    found = (AgentCapability(MEASURE, "blame of run-queue waits, by eBPF", "root"), others)
    assert of_agent(found, {})[0].is_there
    assert of_agent(found, {BLAME: "--waits"})[0].needs == "--waits"
    assert of_agent(found, {"cycles": "x"})[1] == others


def test_a_runtime_hook_that_hangs_is_not_there(tmp_path: Path) -> None:
    now_s = time.monotonic()
    file = StateFile(tmp_path / "nri.json", lambda: now_s)
    file.write(HookState("containerd 2.1.0", acts=True))
    assert hook_of(tmp_path).is_there
    now_s -= HANGS_AFTER_S
    file.write(HookState("containerd 2.1.0", acts=True))
    assert "lives and has not come round" in hook_of(tmp_path).needs
