"""The contract beside a kubelet: none of its writes fails because of us, it always starts, and our limits are in
force 99 % of the time.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.node.kubelet.node import SERVICE, KubeletNode
from tests.fakes.node.kubelet.pods import Container
from tests.node.kubelet.beside import AgentBeside

pytestmark = pytest.mark.slow
MIB = 1 << 20
MIN_SHARE = 0.99


class TestBesideTheKubelet:
    """For each driver and version; `node` and `agent` are fixtures of the folder."""

    @pytest.fixture(autouse=True)
    def no_write_fails(self, node: KubeletNode, agent: AgentBeside):  # type: ignore[no-untyped-def]
        """In every case, whatever else it is about."""
        before, said = len(node.failures), len(node.kubelet.said)
        yield
        assert node.failures[before:] == []
        assert node.kubelet.said[said:] == []

    def test_limits_outlast_the_updates_of_five_minutes(self, node: KubeletNode, agent: AgentBeside) -> None:
        agent.settled()
        held = agent.in_force().watch(node.kubelet.advance(300))
        assert held.share >= MIN_SHARE, held.gaps
        assert node.weight_of_class() in ("1", "2")

    def test_the_kubelet_restarts_three_times_without_a_failure(self, node: KubeletNode, agent: AgentBeside) -> None:
        agent.settled()
        held = agent.in_force()
        for _ in range(3):
            node.restart()
            held.after("restart", 60)
        assert held.share >= MIN_SHARE, held.gaps

    def test_pods_that_come_and_go_do_not_lift_the_limits(self, node: KubeletNode, agent: AgentBeside) -> None:
        agent.settled()
        held = agent.in_force()
        held.holds = lambda: agent.limits([agent.job])
        for _ in range(2):
            services = [node.add(SERVICE), node.add(Container(cpu_limit_m=100))]
            held.after("pods added", 30)
            for service in services:
                node.kubelet.remove(service)
            held.after("pods removed", 30)
        assert held.share >= MIN_SHARE, held.gaps

    def test_a_new_best_effort_pod_is_limited_and_leaves_without_a_trace(
        self, node: KubeletNode, agent: AgentBeside
    ) -> None:
        second = node.add()
        agent.settled()
        assert node.has_quota(second)
        group = node.kubelet.pod_path(second)
        node.kubelet.kill(second)
        # evicted, its volumes still there: housekeeping lowers its weight until its group can go
        agent.process.until(lambda: not agent.holds_at(group))
        assert node.kubelet.reduce(second) == ""
        node.kubelet.destroy(second)

    def test_services_are_resized_in_place(self, node: KubeletNode, agent: AgentBeside) -> None:
        agent.settled()
        limited = Container(
            cpu_request_m=200, cpu_limit_m=400, memory_request_bytes=64 * MIB, memory_limit_bytes=256 * MIB
        )
        pod = node.add(limited)
        held = agent.in_force()
        for cpu_m, memory in ((800, 512), (300, 128), (1500, 512)):
            node.kubelet.resize(pod, replace(limited, cpu_limit_m=cpu_m, memory_limit_bytes=memory * MIB))
            held.after(f"resized to {cpu_m} mCPU", 60)
        node.kubelet.remove(pod)
        assert held.share >= MIN_SHARE, held.gaps

    def test_what_a_killed_agent_leaves_keeps_no_kubelet_from_starting(
        self, node: KubeletNode, agent: AgentBeside
    ) -> None:
        agent.settled()
        agent.process.kill()
        node.restart()
        list(node.kubelet.advance(130))
        agent.start()
        node.restart()

    def test_the_end_of_the_agent_leaves_the_kubelets_own_values(self, node: KubeletNode, agent: AgentBeside) -> None:
        agent.settled()
        assert agent.process.stop() == 0
        list(node.kubelet.advance(60))
        assert not node.has_quota(agent.job)
        assert not any(map(node.is_idle, agent.idle))
        assert node.weight_of_class() in ("1", "2")
        agent.start()

    def test_the_static_cpu_manager_moves_every_container(self, node: KubeletNode, agent: AgentBeside) -> None:
        if len(node.settings.cpus) < 2:
            pytest.skip("needs two CPUs")
        agent.settled()
        node.restart(replace(node.settings, static_cpus=True))
        pinned = Container(
            cpu_request_m=1000, cpu_limit_m=1000, memory_request_bytes=64 * MIB, memory_limit_bytes=64 * MIB
        )
        held = agent.in_force()
        pod = node.add(pinned)
        held.watch(node.kubelet.advance(60))
        node.kubelet.remove(pod)
        held.watch(node.kubelet.advance(60))
        node.restart(node.settings)
        assert held.share >= MIN_SHARE, held.gaps

    def test_memory_protection_is_the_kubelets(self, node: KubeletNode, agent: AgentBeside) -> None:
        if node.groups.version != 2:
            pytest.skip("memory QoS needs cgroup v2")
        agent.settled()
        node.restart(replace(node.settings, memory_qos=True))
        pod = node.add(SERVICE)
        held = agent.in_force().watch(node.kubelet.advance(120))
        node.kubelet.remove(pod)
        node.restart(node.settings)
        assert held.share >= MIN_SHARE, held.gaps
