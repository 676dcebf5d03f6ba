"""A real kubelet where one is named: the stand-in leaves the same values as it, and it keeps the contract beside an
agent, too.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from bench.containerd import IMAGE, Runtime
from tests.fakes.node.kubelet.kubelet import Settings
from tests.fakes.node.kubelet.node import KubeletNode, trees_alone, uid, v1_node
from tests.fakes.node.kubelet.pods import Container, Pod
from tests.fakes.waiting import eventually
from tests.node.kubelet.beside import QUOTA
from tests.node.kubelet.forked import ForkedAgent
from tests.node.kubelet.real_kubelet import NAMED, RESERVED_M, RealKubelet, values
from tests.node.test_cri import runtime

__all__ = ["runtime"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get(NAMED), reason=f"{NAMED} names no kubelet"),
]
MIB = 1 << 20
PODS = {
    "job": Pod(uid(1)),
    "web": Pod(uid(2), (Container(cpu_request_m=200, cpu_limit_m=500, memory_request_bytes=32 * MIB),)),
    "cache": Pod(
        uid(3),
        (Container(cpu_request_m=100, cpu_limit_m=100, memory_request_bytes=64 * MIB, memory_limit_bytes=64 * MIB),),
    ),
    "pinned": Pod(
        uid(5),
        (Container(cpu_request_m=1000, cpu_limit_m=1000, memory_request_bytes=64 * MIB, memory_limit_bytes=64 * MIB),),
    ),
    "two": Pod(
        uid(4),
        (
            Container(name="a", cpu_request_m=50),
            Container(name="b", memory_limit_bytes=64 * MIB, memory_request_bytes=32 * MIB),
        ),
    ),
}
Trees = dict[str, Path]


@pytest.fixture(params=["none", "static"])
def static_cpus(request: pytest.FixtureRequest) -> bool:
    """The CPU manager's policy."""
    if request.param == "static" and len(Settings().cpus) < 2:
        pytest.skip("needs two CPUs")
    return bool(request.param == "static")


@pytest.fixture
def real(runtime: Runtime, group: str, static_cpus: bool) -> Iterator[tuple[RealKubelet, Trees]]:
    """A kubelet whose machine is one group, and that group's trees."""
    top = f"{group.rpartition('/')[0]}-real"
    with tempfile.TemporaryDirectory(prefix="cotenant-test-") as place, trees_alone(top, Path(place)) as trees:
        made = RealKubelet(os.environ[NAMED], runtime.folder, top, runtime.socket, IMAGE, static_cpus)
        try:
            made.start()
            yield made, trees
        finally:
            made.end()
            for sandbox in runtime.ask("ListPodSandbox").items:
                runtime.ask("StopPodSandbox", pod_sandbox_id=sandbox.id)
                runtime.ask("RemovePodSandbox", pod_sandbox_id=sandbox.id)


@pytest.fixture
def stand_in(group: str, static_cpus: bool) -> Iterator[tuple[KubeletNode, Trees]]:
    """The stand-in on trees of the same machine."""
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    pids = min(int(Path("/proc/sys/kernel", name).read_text()) for name in ("pid_max", "threads-max"))
    settings = Settings(memory_bytes=int(total.split()[1]) * 1024, pids=pids, static_cpus=static_cpus)
    if static_cpus:
        settings = replace(settings, reserved_cpu_m=RESERVED_M)
    place = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
    try:
        with v1_node(f"{group.rpartition('/')[0]}-stand-in", place, settings) as node:
            node.kubelet.start()
            yield node, {tree: place / tree for tree in ("cpu", "cpuset", "memory", "pids")}
    finally:
        shutil.rmtree(place)


def disturb(trees: Trees) -> None:
    """Other values everywhere above pods."""
    for group in ("kubepods", "kubepods/burstable", "kubepods/besteffort", f"kubepods/besteffort/pod{uid(1)}"):
        (trees["cpu"] / group / "cpu.shares").write_text("77")
        (trees["cpu"] / group / "cpu.cfs_quota_us").write_text("150000")
        (trees["memory"] / group / "memory.limit_in_bytes").write_text(str(20 << 30))


def compare(theirs: Trees, trees: Trees) -> None:
    """The real one works in the background: what differs after a while is a difference."""
    with suppress(AssertionError):
        eventually("both have the same", lambda: values(theirs) == values(trees), 15.0, interval_s=0.1)
    assert values(theirs) == values(trees)


def test_the_stand_in_leaves_the_same_values(
    real: tuple[RealKubelet, Trees], stand_in: tuple[KubeletNode, Trees]
) -> None:
    kubelet, trees = real
    node, theirs = stand_in
    compare(theirs, trees)
    for name, pod in PODS.items():
        kubelet.add(name, pod)
        node.kubelet.add(pod)
    list(node.kubelet.advance(10))
    compare(theirs, trees)
    for entry in (trees, theirs):
        disturb(entry)
    list(node.kubelet.advance(60))
    weight = trees["cpu"] / "kubepods/besteffort/cpu.shares"
    eventually("the minute's update", lambda: weight.read_text() == "2\n", 90.0, interval_s=0.2)
    compare(theirs, trees)
    for entry in (trees, theirs):
        disturb(entry)
    kubelet.stop()
    kubelet.start()
    node.restart()
    eventually("the node's limits", lambda: (trees["cpu"] / "kubepods/cpu.shares").read_text() != "77\n")
    compare(theirs, trees)
    kubelet.remove("web", PODS["web"])
    node.kubelet.remove(PODS["web"].uid)
    compare(theirs, trees)


def test_an_agent_beside_it_breaks_nothing_and_its_limits_last(real: tuple[RealKubelet, Trees], group: str) -> None:
    kubelet, trees = real
    for name in ("job", "web"):
        kubelet.add(name, PODS[name])
    service = {"group": kubelet.pod_path(PODS["web"]), "name": "shop/web", "qos": "LS", "requests": {"cpu": "200m"}}
    place = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
    place.chmod(0o1777)
    more = {"groups": [service], "sources": {"kubepods": True}, "policies": QUOTA, "discovery_period_s": 1}
    agent = ForkedAgent(place, "kubepods", "--single", cgroup_root=str(trees["cpu"].parent), **more)
    looks: list[bool] = []

    def holds() -> bool:
        class_, pod = (trees["cpu"] / name for name in ("kubepods/besteffort", kubelet.pod_path(PODS["job"])))
        return any(int((path / "cpu.cfs_quota_us").read_text()) > 0 for path in (class_, pod))

    try:
        agent.start()
        agent.until(holds)
        for _ in range(3):
            kubelet.stop()
            kubelet.start()
        until = time.monotonic() + 70
        eventually("a minute", lambda: looks.append(holds()) or time.monotonic() > until, 120.0)
        assert looks.count(True) >= 0.99 * len(looks)
        assert (trees["cpu"] / "kubepods/besteffort/cpu.shares").read_text() == "2\n"
        said = kubelet.log.read_text(errors="replace")
        assert "failed to write" not in said, said[-3000:]
    finally:
        agent.kill()
        shutil.rmtree(place)
