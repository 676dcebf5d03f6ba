"""A real kubelet with a real runtime, and the runtime hook: pods of every class start with their values, and those last
over restarts of the kubelet and of the runtime.
"""

from __future__ import annotations

import pytest
from bench.containerd import Runtime
from bench.hook import HookProcess
from tests.fakes.node.kubelet.node import uid
from tests.fakes.node.kubelet.pods import Container, Pod
from tests.fakes.waiting import eventually
from tests.node.kubelet.real_kubelet import RealKubelet
from tests.node.kubelet.test_real_kubelet import MIB, Trees, pytestmark, real
from tests.node.test_nri import BEST_EFFORT, SPEC, runtime, state_of

from cotenant.cli.main import main
from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cri.messages import CONTAINER_RUNNING
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.services.nodeview.capabilities import capabilities

__all__ = ["pytestmark", "real", "runtime"]
UNLIMITED = "max 100000"
HALF = Container(cpu_request_m=500, memory_request_bytes=32 * MIB)
# By name: the pod, its labels, its annotations; its container's weight and quota.
PODS: dict[str, tuple[Pod, dict[str, str], dict[str, str], tuple[str, str]]] = {
    "plain": (Pod(uid(11)), {}, {}, ("1", UNLIMITED)),
    "job": (Pod(uid(12), (HALF,)), BEST_EFFORT, {}, ("1", UNLIMITED)),
    "lent": (Pod(uid(13), (Container(name="work"),)), BEST_EFFORT, SPEC, ("150", "150000 100000")),
    "web": (Pod(uid(14), (HALF,)), {"koordinator.sh/qosClass": "LS"}, {}, ("50", UNLIMITED)),
    "again": (Pod(uid(15), (HALF,)), BEST_EFFORT, {}, ("1", UNLIMITED)),
}


@pytest.fixture
def static_cpus() -> bool:
    """The CPU manager has the policy `none`."""
    return False


def held(kubelet: RealKubelet, runtime: Runtime, layout: CgroupLayout) -> dict[str, tuple[str, str]]:
    """Weight and quota of each pod's container that runs."""
    found = {}
    with CgroupKnobs(layout) as knobs:
        for container in runtime.ask("ListContainers").containers:
            if container.state != CONTAINER_RUNNING:
                continue
            name = container.labels["io.kubernetes.pod.name"].removesuffix("-cotenant-test")
            group = f"{kubelet.top}/{kubelet.pod_path(PODS[name][0])}/{runtime.prefix}{container.id}"
            found[name] = (
                knobs.read(KnobTarget(group, Knob.CPU_WEIGHT)),
                knobs.read(KnobTarget(group, Knob.CPU_MAX)),
            )
    return found


def is_missed(capsys: pytest.CaptureFixture[str], hooked: HookProcess) -> bool:
    """Whether the doctor says that there is no hook."""
    main(["node", "doctor", "--single", f"--config={hooked.config}", "--json"])
    told = capsys.readouterr().out
    return "containers get their knobs within a period after they start" in told


def test_pods_of_every_class_start_with_their_values(
    real: tuple[RealKubelet, Trees], runtime: Runtime, layout: CgroupLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    kubelet, _ = real
    if runtime.prefix and layout.unified is not None and "hugetlb" in layout.unified.controllers:
        pytest.skip("CRI-O limits huge pages at a kubelet's containers, and runc finds them in no v1 tree here")
    hooked = HookProcess(runtime.folder, runtime.folder / "nri.sock")
    assert is_missed(capsys, hooked)
    try:
        hooked.start()
        assert not is_missed(capsys, hooked)
        (there,) = (found for found in capabilities(layout, hooked.state) if "runtime hook" in found.what)
        assert there.is_there
        wanted = {}
        for name, (pod, labels, annotations, values) in PODS.items():
            if name == "again":  # the others are left as they are
                runtime.restart()
                eventually("it is hooked into the new runtime", lambda: state_of(hooked).runtime)
                kubelet.stop()
                kubelet.start()
            kubelet.add(name, pod, labels, annotations)
            wanted[name] = values
            eventually(f"{name} runs", lambda: held(kubelet, runtime, layout).keys() == wanted.keys())
            assert held(kubelet, runtime, layout) == wanted
    finally:
        hooked.end()
