"""Kubelet's list of devices by container, and the pod of a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.drivers.kubelet.pod_of_process import uid_of_pod
from cotenant.drivers.kubelet.pod_resources import read_pod_resources
from cotenant.model.devices.gpu_use import GpuHolder
from cotenant.model.errors import InvalidInput

UID = "6f1c2d3e-0000-4000-8000-0123456789ab"
GRPCURL = """{"podResources": [
  {"name": "llm-0", "namespace": "ml", "containers": [
    {"name": "serve", "devices": [{"resourceName": "nvidia.com/gpu", "deviceIds": ["GPU-a", "GPU-b::1"]}]},
    {"name": "log"}]},
  {"name": "plain", "namespace": "ml", "containers": [{"name": "x", "cpuIds": ["1"]}]}]}"""


@pytest.mark.parametrize(
    "text",
    [
        GRPCURL,
        GRPCURL.replace("podResources", "pod_resources").replace("deviceIds", "device_ids"),
    ],
)
def test_both_spellings_of_the_list(text: str) -> None:
    holder = GpuHolder("ml/llm-0", "serve")
    assert read_pod_resources(text) == {"GPU-a": [holder], "GPU-b::1": [holder]}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pods": []}', "[" * 9999])
def test_another_document_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="pod resources"):
        read_pod_resources(text)


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice",
        f"/kubepods/besteffort/pod{UID}",
        f"/kubepods/pod{UID}/{'a' * 64}",
        f"/kubepods/pod{UID}/{'a' * 64}/workers/3",
    ],
)
def test_the_pod_of_a_process_is_that_of_its_group(tmp_path: Path, path: str) -> None:
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "cgroup").write_text(f"12:cpu:/\n0::{path}\n")
    assert uid_of_pod(42, tmp_path) == UID


def test_a_process_of_no_pod_or_none_at_all(tmp_path: Path) -> None:
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "cgroup").write_text("0::/system.slice/ssh.service\n")
    assert [uid_of_pod(pid, tmp_path) for pid in (42, 43)] == ["", ""]
