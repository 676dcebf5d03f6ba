"""The stand-in by itself: the values that a real kubelet 1.36 with containerd 1.6 and runc 1.1 leaves, and the
failures that were seen with it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.node.kubelet.node import KubeletNode, v1_node
from tests.fakes.node.kubelet.pods import Container, Qos, quota_of, shares_of, weight_of
from tests.fakes.node.kubelet.systemd import INFINITY, cpu_bits, rounded_quota
from tests.fakes.node.kubelet.writes import Failed

from cotenant.drivers.cgroup.layout import CgroupLayout

pytestmark = pytest.mark.slow
MIB = 1 << 20


@pytest.fixture
def node(layout: CgroupLayout) -> Iterator[KubeletNode]:
    """One for each case, not yet started."""
    if layout.version("cpu") != 1 or layout.version("cpuset") != 1:
        pytest.skip("this machine's controllers are not on cgroup v1")
    folder = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
    try:
        with v1_node(f"cotenant-test-stand-in-{os.getpid()}", folder) as made:
            yield made
    finally:
        shutil.rmtree(folder)


def cpu(node: KubeletNode, group: str) -> tuple[str, ...]:
    files = ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us")
    return tuple((node.root / "cpu" / group / file).read_text().strip() for file in files)


def test_classes_and_pods_have_the_values_of_a_real_kubelet(node: KubeletNode) -> None:
    node.kubelet.start()
    job = node.add()
    web = node.add(Container(cpu_request_m=200, cpu_limit_m=500, memory_request_bytes=32 * MIB))
    cache = node.add(Container(cpu_request_m=100, cpu_limit_m=100, memory_request_bytes=MIB, memory_limit_bytes=MIB))
    shares = str(shares_of(len(node.settings.cpus) * 1000))
    assert cpu(node, "kubepods") == (shares, "-1", "100000")
    assert cpu(node, "kubepods/besteffort") == ("2", "-1", "100000")
    assert cpu(node, "kubepods/burstable") == ("204", "-1", "100000")
    assert cpu(node, node.kubelet.pod_path(job)) == ("2", "-1", "100000")
    assert cpu(node, node.runtime.path(job, "main")) == ("2", "-1", "100000")
    assert cpu(node, node.kubelet.pod_path(web)) == ("204", "50000", "100000")
    assert cpu(node, node.runtime.path(web, "main")) == ("204", "50000", "100000")
    assert cpu(node, node.runtime.path(web, "POD")) == ("2", "-1", "100000")
    assert cpu(node, node.kubelet.pod_path(cache)) == ("102", "10000", "100000")
    memory = node.root / "memory" / node.kubelet.pod_path(cache) / "memory.limit_in_bytes"
    assert memory.read_text() == f"{MIB}\n"
    assert node.failures == []


def test_a_minute_puts_the_classes_weights_back_and_nothing_else(node: KubeletNode) -> None:
    node.kubelet.start()
    node.add(Container(cpu_request_m=500))
    for group in ("kubepods", "kubepods/burstable", "kubepods/besteffort"):
        for file, value in (("cpu.shares", "77"), ("cpu.cfs_quota_us", "150000")):
            (node.root / "cpu" / group / file).write_text(value)
    assert [step.what for step in node.kubelet.advance(60)] == ["minute", "nothing"]
    assert cpu(node, "kubepods") == ("77", "150000", "100000")
    assert cpu(node, "kubepods/burstable") == ("512", "150000", "100000")
    assert cpu(node, "kubepods/besteffort") == ("2", "150000", "100000")


def test_after_a_restart_services_have_the_least_shares_for_a_minute(node: KubeletNode) -> None:
    """Its first update comes before it has learnt of its pods."""
    node.kubelet.start()
    node.add(Container(cpu_request_m=500))
    node.restart()
    assert cpu(node, "kubepods/burstable")[0] == "2"
    list(node.kubelet.advance(60))
    assert cpu(node, "kubepods/burstable")[0] == "512"


def test_an_idle_class_keeps_it_from_starting(node: KubeletNode) -> None:
    """As on a real node: the kernel refuses every weight of an idle group."""
    node.kubelet.start()
    idle = node.root / "cpu/kubepods/besteffort/cpu.idle"
    if not idle.exists():
        pytest.skip("this kernel has no cpu.idle")
    idle.write_text("1")
    (step, _) = node.kubelet.advance(60)
    assert "EINVAL" in step.failed
    with pytest.raises(Failed, match=r"failed to initialize top level QOS containers.*cpu.shares: EINVAL"):
        node.restart()
    assert {failure.error for failure in node.failures} == {"EINVAL"}
    idle.write_text("0")
    node.restart()


def test_the_static_policy_and_a_smaller_cpuset_above_keep_a_pod_from_starting(node: KubeletNode) -> None:
    """The shared pool is written to each container, and cgroup v1 takes no CPU that the parent lacks."""
    if len(node.settings.cpus) < 2:
        pytest.skip("needs two CPUs")
    node.settings = replace(node.settings, static_cpus=True)
    node.restart(node.settings)
    first = node.settings.cpus[0]
    (node.root / "cpuset" / node.kubelet.path_of(Qos.BEST_EFFORT) / "cpuset.cpus").write_text(str(first))
    with pytest.raises(Failed, match=r"cpuset.cpus: EACCES"):
        node.add()


def test_a_resize_is_written_in_the_order_that_always_fits(node: KubeletNode) -> None:
    node.kubelet.start()
    small = Container(cpu_request_m=100, cpu_limit_m=200)
    pod = node.add(small)
    for cpu_m in (400, 100):
        before = len(node.groups.recorder.writes)
        node.kubelet.resize(pod, replace(small, cpu_limit_m=cpu_m))
        quotas = [write.path for write in node.groups.recorder.writes[before:] if write.path.endswith("cfs_quota_us")]
        groups = [
            f"{node.root}/cpu/{group}/cpu.cfs_quota_us"
            for group in (node.kubelet.pod_path(pod), node.runtime.path(pod, "main"))
        ]
        assert quotas == (groups if cpu_m > 200 else groups[::-1])
    assert node.failures == []


def test_arithmetic() -> None:
    assert [shares_of(cpu_m) for cpu_m in (0, 1, 100, 1000, 10**6)] == [2, 2, 102, 1024, 262_144]
    assert [quota_of(cpu_m) for cpu_m in (0, 5, 200)] == [0, 1000, 20_000]
    assert [weight_of(shares) for shares in (0, 2, 1024, 262_144)] == [0, 1, 39, 10_000]
    assert rounded_quota(12_345, 100_000) == (130_000, 13_000)
    assert rounded_quota(-1, 100_000) == (INFINITY, -1)
    assert cpu_bits("0-1,9").words == ("AllowedCPUs", "ay", "2", "3", "2")
