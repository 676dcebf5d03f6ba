"""A kubelet's configuration, from its file and from configz."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cotenant.drivers.kubelet.configuration import config_of_configz, config_of_file, memory_manager_of
from cotenant.model.errors import InvalidInput
from cotenant.model.kubelet.facts import KubeletFacts

WRITTEN = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0-1"
topologyManagerPolicy: single-numa-node
topologyManagerScope: pod
memoryManagerPolicy: Static
featureGates: {MemoryQoS: true}
evictionHard: {memory.available: 100Mi}
"""
READ = KubeletFacts(
    cpu_manager="static",
    cpu_options=(("full-pcpus-only", "true"),),
    reserved_cpus=(0, 1),
    topology_manager="single-numa-node",
    topology_scope="pod",
    memory_manager="Static",
    cgroup_driver="systemd",
    memory_qos=True,
)


def test_a_file_says_what_is_written_in_it(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(WRITTEN)
    assert config_of_file(file) == READ
    file.write_text("cgroupDriver: cgroupfs")
    assert config_of_file(file) == KubeletFacts(cgroup_driver="cgroupfs")


@pytest.mark.parametrize("text", ["", "[1, 2]", "cpuManagerPolicy: {a: b}", "{", "reservedSystemCPUs: x-y"])
def test_what_cannot_be_read_is_not_known(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.yaml"
    assert config_of_file(file) == KubeletFacts()
    file.write_text(text)
    assert config_of_file(file) == KubeletFacts()


def test_configz_has_what_the_kubelet_runs_with() -> None:
    body = {"kubeletconfig": {"cpuManagerPolicy": "none", "topologyManagerPolicy": "none", "reservedSystemCPUs": ""}}
    assert config_of_configz(json.dumps(body).encode()) == KubeletFacts(cpu_manager="none", topology_manager="none")


# Of what a kubelet 1.36 answers, with its defaults and with a file that sets these: the fields that look like ours. An
# empty list of CPUs and a default gate are left out of it.
ANSWERED = {
    "cgroupsPerQOS": True,
    "cgroupDriver": "cgroupfs",
    "cpuManagerPolicy": "none",
    "cpuManagerReconcilePeriod": "10s",
    "memoryManagerPolicy": "None",
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
    "cpuCFSQuota": True,
    "memorySwap": {},
    "memoryThrottlingFactor": 0.9,
    "memoryReservationPolicy": "None",
}
SET = {
    **ANSWERED,
    "cgroupRoot": "/nodes",
    "cpuManagerPolicy": "static",
    "cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"},
    "topologyManagerPolicy": "restricted",
    "topologyManagerScope": "pod",
    "featureGates": {"MemoryQoS": False},
    "reservedSystemCPUs": "0",
}


@pytest.mark.parametrize(
    ("answered", "known"),
    [
        (
            ANSWERED,
            KubeletFacts(
                cpu_manager="none",
                topology_manager="none",
                topology_scope="container",
                memory_manager="None",
                cgroup_driver="cgroupfs",
            ),
        ),
        (
            SET,
            KubeletFacts(
                cpu_manager="static",
                cpu_options=(("strict-cpu-reservation", "true"),),
                reserved_cpus=(0,),
                topology_manager="restricted",
                topology_scope="pod",
                memory_manager="None",
                cgroup_driver="cgroupfs",
                memory_qos=False,
            ),
        ),
    ],
)
def test_the_answers_of_a_real_kubelet(answered: dict[str, object], known: KubeletFacts) -> None:
    assert config_of_configz(json.dumps({"kubeletconfig": answered}).encode()) == known


@pytest.mark.parametrize("body", [b"", b"[]", b'{"componentconfig": {}}', b"\xff"])
def test_another_answer_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput, match="a kubelet's configuration"):
        config_of_configz(body)


def test_the_memory_managers_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "memory_manager_state"
    assert memory_manager_of(file) == ""
    file.write_text('{"policyName":"Static","machineState":{},"checksum":1}')
    assert memory_manager_of(file) == "Static"
    file.write_text("x")
    assert memory_manager_of(file) == ""
