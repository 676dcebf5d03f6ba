"""`cotenant vm` over KubeVirt's objects on an API server, with a stand-in for KubeVirt's controllers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.servers import kubevirt
from tests.kube import definitions

from cotenant.cli.main import main
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.vms.machine import MachineSize, MachineState, MachineVerb
from cotenant.services.vms.command import MachineLocation, VerbOutcome, change, connected

SAME = MachineSize()
pytestmark = pytest.mark.slow  # an API server, definitions


@dataclass
class Machines:
    """What a case does with them."""

    kube: Any
    stand_in: kubevirt.KubeVirt
    kubeconfig: Path
    namespace: str
    said: list[str] = field(default_factory=list)

    def make(
        self,
        name: str,
        strategy: str = "Halted",
        *,
        domain: dict[str, Any] | None = None,
        hostname: str = "",
        **spec: Any,
    ) -> None:
        size = {"cpu": {"cores": 2, "sockets": 1}, "memory": {"guest": "2Gi"}, **(domain or {})}
        template = {"metadata": {"labels": {"app": name}}, "spec": {"domain": size, "hostname": hostname}}
        vm = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachine",
            "metadata": {"name": name},
            "spec": {"runStrategy": strategy, "template": template, **spec},
        }
        self.kube.create(f"/apis/kubevirt.io/v1/namespaces/{self.namespace}/virtualmachines", vm)

    def tell(self, verb: MachineVerb, name: str, to: MachineSize = SAME) -> VerbOutcome:
        async def run() -> VerbOutcome:
            async with connected(MachineLocation(self.kubeconfig, "", self.namespace)) as platform:
                return await change(platform, verb, name, to, 60.0, self.said.append, look_s=0.0)

        return asyncio.run(run())

    def command(self, *words: str) -> int:
        return main(["vm", *words, "-n", self.namespace, "--kubeconfig", str(self.kubeconfig)])


@pytest.fixture
def machines(kube: Any, namespace: str, node: str, tmp_path: Path) -> Iterator[Machines]:
    other = f"{node}-b"
    kube.create("/api/v1/nodes", {"metadata": {"name": other}})
    with kubevirt.serving(kube, (node, other), tmp_path) as (stand_in, kubeconfig):
        yield Machines(kube, stand_in, kubeconfig, namespace)
    kube.request("DELETE", f"/api/v1/nodes/{other}")


def test_a_machine_s_life(machines: Machines, node: str, capsys: pytest.CaptureFixture[str]) -> None:
    machines.make("db")
    started = machines.tell(MachineVerb.START, "db")
    assert (started.failure, started.machine.state, started.machine.node) == ("", MachineState.RUNNING, node)
    assert started.machine.pod.startswith("virt-launcher-db-")
    assert started.machine.size == MachineSize(2, 2048)
    assert f"{machines.namespace}/db is starting" in machines.said
    assert machines.tell(MachineVerb.PAUSE, "db").machine.state is MachineState.PAUSED
    with pytest.raises(Permanent, match="it is paused, and migrate needs one that is running"):
        machines.tell(MachineVerb.MIGRATE, "db")
    assert machines.tell(MachineVerb.UNPAUSE, "db").machine.state is MachineState.RUNNING
    moved = machines.tell(MachineVerb.MIGRATE, "db").machine
    assert (moved.node, moved.state) == (f"{node}-b", MachineState.RUNNING)
    assert moved.pod != started.machine.pod
    assert moved.incarnation == started.machine.incarnation  # the guest has run all the time
    assert machines.command("list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)["machines"]
    assert [(one["name"], one["state"], one["node"]) for one in listed] == [("db", "running", f"{node}-b")]
    stopped = machines.tell(MachineVerb.STOP, "db").machine
    assert (stopped.state, stopped.node, stopped.pod) == (MachineState.STOPPED, "", "")
    assert machines.command("show", "db") == 0
    assert f"{machines.namespace}/db: stopped" in capsys.readouterr().out


def test_a_new_size_is_staged_until_a_restart(machines: Machines) -> None:
    machines.make("db", "Manual")
    before = machines.tell(MachineVerb.START, "db").machine
    with pytest.raises(InvalidInput, match="a multiple of 2"):
        machines.tell(MachineVerb.RESIZE, "db", MachineSize(vcpus=3))
    staged = machines.tell(MachineVerb.RESIZE, "db", MachineSize(vcpus=4, memory_mib=4096)).machine
    assert staged.size == before.size
    assert staged.pending
    restarted = machines.tell(MachineVerb.RESTART, "db").machine
    assert restarted.size == MachineSize(4, 4096)
    assert not restarted.pending
    assert restarted.incarnation != before.incarnation


def test_what_kubevirt_would_not_do_is_said_before_it_is_asked(machines: Machines) -> None:
    machines.make("pinned", domain={"devices": {"hostDevices": [{"name": "g", "deviceName": "vendor.example/gpu"}]}})
    machines.make("sized", instancetype={"name": "small"})
    assert machines.tell(MachineVerb.START, "pinned").machine.state is MachineState.RUNNING
    with pytest.raises(Permanent, match="it cannot migrate live: VMI uses a PCI host devices"):
        machines.tell(MachineVerb.MIGRATE, "pinned")
    with pytest.raises(InvalidInput, match="its instance type is small: give --flavor"):
        machines.tell(MachineVerb.RESIZE, "sized", MachineSize(vcpus=4))
    assert machines.tell(MachineVerb.RESIZE, "sized", MachineSize(flavor="large")).machine.size.flavor == "large"
    with pytest.raises(InvalidInput, match="a machine of namespace"):
        machines.tell(MachineVerb.START, "none")


def test_a_migration_that_fails_is_told_with_its_reason(machines: Machines, node: str) -> None:
    machines.make("db", "Manual")
    machines.tell(MachineVerb.START, "db")
    machines.stand_in.fails_migrations = "the target ran out of memory"
    outcome = machines.tell(MachineVerb.MIGRATE, "db")
    assert outcome.failure.endswith("failed: the target ran out of memory")
    assert outcome.machine.node == node


def test_a_class_is_a_profile_of_its_launcher_pods(machines: Machines, capsys: pytest.CaptureFixture[str]) -> None:
    machines.make("hog", "Manual")
    assert machines.command("class", "hog", "fast") == 2
    assert "expected prod, mid, batch, free or none" in capsys.readouterr().err
    with definitions.installed(machines.kube):
        assert machines.command("class", "hog", "batch") == 0
        assert "by `cotenant webhook`" in capsys.readouterr().out
        profiles = definitions.collection("clustercolocationprofiles")
        (made,) = machines.kube.get(profiles)["items"]
        assert made["spec"]["qosClass"] == "BE"
        assert made["spec"]["selector"]["matchLabels"]["vm.kubevirt.io/name"] == "hog"
        machines.make("twin", "Manual", hostname="hog")
        assert machines.command("class", "twin", "batch") == 1
        assert "hog has the same host name, hog" in capsys.readouterr().err
        assert machines.command("class", "hog", "none") == 0
        assert machines.kube.get(profiles)["items"] == []


def test_without_kubevirt(kube: Any, namespace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vm", "list", "-n", namespace, "--kubeconfig", str(kube.kubeconfig)]) == 1
    assert "it needs a cluster with KubeVirt (kubevirt.io/v1)" in capsys.readouterr().err
    assert main(["vm", "show", "db", "-n", namespace, "--kubeconfig", str(kube.kubeconfig)]) == 2
