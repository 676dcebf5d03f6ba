"""What the stand-in for a container runtime writes at an update, against the owner's table."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.node.kubelet.groups import V1Groups, V2Groups
from tests.fakes.node.kubelet.pods import Container, resources_of_container
from tests.fakes.node.kubelet.runtime import Running, Runtime
from tests.fakes.node.kubelet.writes import Recorder

from cotenant.drivers.cgroup.translation import FILES
from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.kubelet.facts import STATIC, KubeletFacts
from cotenant.model.kubelet.groups import Driver, GroupKind, Level
from cotenant.model.kubelet.owners import KnobWriter
from cotenant.model.kubelet.ruling import rows_of
from cotenant.model.machine.knob import Knob, KnobScope

POD, CONTAINER_ID = ("kubepods", "pod1"), "c" * 64
KNOBS = tuple(knob for knob in Knob if knob.scope is KnobScope.CGROUP)
BY_CPU_LIST = {Knob.CPUSET_CPUS: KnobWriter.CPU_MANAGER}


@pytest.mark.parametrize(
    ("qos", "container"),
    [
        (KubernetesQoS.BEST_EFFORT, Container()),
        (KubernetesQoS.BURSTABLE, Container(cpu_request_m=100, cpu_limit_m=200, memory_limit_bytes=1 << 20)),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_each_knob_that_an_update_of_a_cpu_list_writes_has_a_row(
    version: int, qos: KubernetesQoS, container: Container, tmp_path: Path
) -> None:
    """The static CPU manager asks for a list; the runtime writes all that the container was started with."""
    folder = tmp_path.joinpath(*POD, CONTAINER_ID)
    folder.mkdir(parents=True)
    for knob in KNOBS:
        for file in FILES[knob].files(version):
            (folder / file).touch()
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory\n")
    recorder = Recorder()
    trees = dict.fromkeys(("cpu", "cpuset", "memory"), tmp_path)
    runtime = Runtime(V1Groups(recorder, trees) if version == 1 else V2Groups(recorder, tmp_path))
    runtime.running["1", "main"] = Running(POD, CONTAINER_ID, resources_of_container(container))
    runtime.update("1", "main", cpus="0-1")

    files = {write.path.rpartition("/")[2] for write in recorder.writes}
    written = {knob for knob in KNOBS if files.intersection(FILES[knob].files(version))}
    assert {Knob.CPU_WEIGHT, Knob.CPU_MAX, Knob.CPUSET_CPUS} <= written
    assert (Knob.MEMORY_MAX in written) is bool(container.memory_limit_bytes)
    facts = KubeletFacts(version, (1, 30), STATIC)
    kind = GroupKind(Level.CONTAINER, qos, Driver.CGROUPFS)
    for knob in written:
        writers = {row.writer for row in rows_of(knob, kind, facts)}
        assert BY_CPU_LIST.get(knob, KnobWriter.RUNTIME) in writers, knob
