"""`cotenant agent --single` with a kubelet's tree whose pods change while it runs, and a cache in a fixture tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.node.fake_resctrl import FakeResctrl
from tests.fakes.node.kubepods import UIDS, container_group, pod_group
from tests.fakes.waiting import becomes
from tests.node.burning import burning
from tests.node.test_agent import AgentProcess, folder, top

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.kubelet.roots import roots_here

__all__ = ["folder", "top"]  # fixtures
pytestmark = pytest.mark.slow
DISCOVERY_S = 600.0  # the longest there is, and longer than a case waits


@pytest.fixture
def kubepods(layout: CgroupLayout, groups: Groups, top: str) -> str:
    """A kubelet's tree below the test's group, with one guaranteed pod. An agent finds that of the machine's own
    kubelet first.
    """
    if there := [root for root in roots_here(layout) if not root.startswith("cotenant-test-")]:
        pytest.skip(f"a kubelet has its groups on this machine: {', '.join(there)}")
    service = pod_group(UIDS[0], "", True)
    groups.make(f"{top}/{container_group(service, 0, True)}")
    groups.make(f"{top}/kubepods.slice/kubepods-besteffort.slice")
    return top


@pytest.fixture
def agent(folder: Path, kubepods: str) -> Iterator[AgentProcess]:
    sources = {"kubepods": True}
    made = AgentProcess(
        folder, kubepods, "--single", groups=[], sources=sources, period_ms=1000, discovery_period_s=DISCOVERY_S
    )
    yield made
    made.kill()


def test_a_hog_in_a_new_pod_is_throttled_without_waiting_for_the_next_discovery(
    groups: Groups, kubepods: str, agent: AgentProcess
) -> None:
    agent.start().until(lambda: agent.told("/v1/state", "pods"))
    assert not agent.holds_something()
    for number in (1, 2):  # the second one comes where best effort is held already
        pod = f"{kubepods}/{pod_group(UIDS[number], 'besteffort', True)}"
        groups.make(f"{kubepods}/{container_group(pod_group(UIDS[number], 'besteffort', True), number, True)}")
        with burning(groups, pod, 2):
            agent.until(lambda pod=pod: held(agent, pod))  # type: ignore[misc]
    assert agent.stop() == 0


def held(agent: AgentProcess, group: str) -> bool:
    leases = agent.told("/v1/leases", "leases")
    assert leases is None or isinstance(leases, list)
    return any(lease["target"]["group"] == group for lease in leases or ())


def test_best_effort_gets_its_part_of_the_cache_until_the_end(
    groups: Groups, top: str, folder: Path, tmp_path: Path
) -> None:
    tree = FakeResctrl(tmp_path / "resctrl", ways=4)
    tree.make("BE")  # a folder gets no files of the kernel's when the agent makes it
    before = "L3:0=f;1=f\nMB:0=100;1=100\n"
    (tree.root / "BE/schemata").write_text(before)  # nor is a file cut off when less is written
    agent = AgentProcess(
        folder,
        top,
        "--single",
        resctrl_root=str(tree.root),
        policies={"best_effort_cpu": False, "burst": False, "cache": True},
    )
    tasks = tree.root / "BE/tasks"
    try:
        with burning(groups, f"{top}/job") as pids, burning(groups, f"{top}/web") as others:
            agent.start().until(lambda: "L3:0=3;1=3" in (tree.root / "BE/schemata").read_text())
            agent.until(lambda: tasks.read_text().strip() == str(pids[0]))
            assert str(others[0]) not in tasks.read_text()
            (tree.root / "BE/mon_data/mon_L3_00/llc_occupancy").write_text("4096\n")
            agent.until(lambda: {"BE", ""} == {entry["group"] for entry in cache(agent)})
            becomes("the next sample", lambda: [entry["occupancy_bytes"] for entry in cache(agent)], [0, 4096])
            story = agent.client.get("/v1/leases")["leases"]
            assert [(entry["target"]["knob"], entry["reason"]["rule"]) for entry in story] == [
                ("schemata", "cache-qos")
            ]
            assert agent.stop() == 0
        assert (tree.root / "BE/schemata").read_text() == before
    finally:
        agent.kill()


def cache(agent: AgentProcess) -> list[dict[str, object]]:
    told = agent.told("/v1/state", "cache")
    assert isinstance(told, list)
    return told
