"""A real kubelet where one is named: which device it gave to which pod is asked over its own socket.

Limits: every kubelet has its device plugins in one folder of the machine, so no other may start meanwhile.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")
from bench.containerd import IMAGE, Runtime
from tests.fakes.node.kubelet.device_plugin import DevicePlugin
from tests.fakes.node.kubelet.node import trees_alone, uid
from tests.fakes.node.kubelet.pods import Container, Pod
from tests.fakes.waiting import eventually
from tests.node.kubelet.real_kubelet import NAMED, START_S, RealKubelet, _manifest
from tests.node.test_cri import runtime

from cotenant.drivers.kubelet.given_devices import POD_RESOURCES, GivenDevices

__all__ = ["runtime"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get(NAMED), reason=f"{NAMED} names no kubelet"),
]
GPU = "nvidia.com/gpu"
PLUGINS = Path("/var/lib/kubelet/device-plugins")


@pytest.fixture
def kubelet(runtime: Runtime, group: str) -> Iterator[RealKubelet]:
    top = f"{group.rpartition('/')[0]}-devices"
    with tempfile.TemporaryDirectory(prefix="cotenant-test-") as place, trees_alone(top, Path(place)):
        made = RealKubelet(os.environ[NAMED], runtime.folder, top, runtime.socket, IMAGE)
        try:
            made.start()
            yield made
        finally:
            made.end()
            for sandbox in runtime.ask("ListPodSandbox").items:
                runtime.ask("StopPodSandbox", pod_sandbox_id=sandbox.id)
                runtime.ask("RemovePodSandbox", pod_sandbox_id=sandbox.id)


def test_what_a_device_plugin_gave_is_told_by_the_kubelet(kubelet: RealKubelet, tmp_path: Path) -> None:
    folder = kubelet.folder / "kubelet"
    devices = GivenDevices(folder / POD_RESOURCES, patience_s=60.0, cards=(tmp_path,))
    assert devices() == ()
    plugin = DevicePlugin(PLUGINS, GPU, ["GPU-a", "GPU-b"])
    try:
        plugin.register()
        state = PLUGINS / "kubelet_internal_checkpoint"
        eventually("the kubelet knows the devices", lambda: "GPU-b" in state.read_text(), START_S, tolerated=(OSError,))
        manifest: Any = _manifest("train", Pod(uid(7), (Container(),)), IMAGE, {}, {})
        amounts = manifest["spec"]["containers"][0]["resources"]
        amounts["limits"][GPU] = amounts["requests"][GPU] = "2"
        (kubelet.manifests / "train.json").write_text(json.dumps(manifest))
        pod = "default/train-cotenant-test"
        found = eventually("they are given", devices, START_S)
        assert found == (("GPU-a", pod), ("GPU-b", pod))
    finally:
        plugin.stop()
