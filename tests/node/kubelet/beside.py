"""An agent as a process beside the stand-in, with a service to protect and best-effort work to limit.

Where best-effort work has the least weight already, as in a kubelet's class, the idle class need not be held; where it
is, it counts.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.fakes.node.kubelet.limits import InForce
from tests.fakes.node.kubelet.node import SERVICE, KubeletNode
from tests.fakes.node.kubelet.pods import Qos
from tests.node.kubelet.forked import ForkedAgent

QUOTA = {"best_effort_cpu": {"suppress": {"form": "cfsQuota", "threshold_percent": 60}}}


class AgentBeside:
    """One agent, which can be killed and started again, and the pods that it has."""

    def __init__(self, node: KubeletNode, folder: Path) -> None:
        self.node = node
        self.idle: set[str] = set()
        self.service = node.add(SERVICE)
        self.job = node.add()
        service = {
            "group": node.kubelet.pod_path(self.service),
            "name": "shop/web",
            "qos": "LS",
            "objective_p99_ms": 5,
            "requests": {"cpu": "200m"},
        }
        self.process = ForkedAgent(
            folder,
            node.kubelet.path_of(Qos.GUARANTEED),
            "--single",
            groups=[service],
            sources={"kubepods": True},
            policies=QUOTA,
            cgroup_root=str(node.root),
            discovery_period_s=1,
        )

    def start(self) -> None:
        """Again, until the limits of every best-effort pod stand."""
        self.settled()

    def settled(self) -> None:
        """Until every best-effort pod has a quota: a new pod's is set within a period or two after it is seen. Then
        the groups in the idle class are noted.
        """
        if self.process.process is None:
            self.process.start()
        self.process.until(lambda: self.limits(self.node.best_effort()))
        until = self.process.ticks() + 2
        self.process.until(lambda: self.process.ticks() >= until)
        leases = self.process.told("/v1/leases", "leases")
        assert isinstance(leases, list)
        self.idle = {lease["target"]["group"] for lease in leases if lease["target"]["knob"] == "cpu.idle"}

    def limits(self, pods: Iterable[str]) -> bool:
        """Whether these pods have a quota, and what was put into the idle class is in it."""
        return all(map(self.node.has_quota, pods)) and all(map(self.node.is_idle, self.idle))

    def holds(self) -> bool:
        """Whether the limits of all best-effort pods are in force."""
        return self.limits(self.node.best_effort())

    def holds_at(self, group: str) -> bool:
        """Whether it has a lease on a group, or does not say."""
        leases = self.process.told("/v1/leases", "leases")
        return not isinstance(leases, list) or any(lease["target"]["group"] == group for lease in leases)

    def in_force(self) -> InForce:
        """A new measurement."""
        return InForce(self.holds, self.process.ticks)


def beside(node: KubeletNode) -> Iterator[AgentBeside]:
    """The body of a fixture."""
    folder = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
    folder.chmod(0o1777)
    made = AgentBeside(node, folder)
    try:
        made.start()
        yield made
    finally:
        made.process.kill()
        shutil.rmtree(folder)
