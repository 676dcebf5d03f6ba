"""A real containerd or CRI-O with runc, whose groups are a real systemd's, on cgroup v2, below the stand-in for the
kubelet and a real one: first values and limits outlast whatever makes systemd write a unit again.

Runs where systemd is the first process and every controller is on cgroup v2; `python -m tests.node.guest.uml` makes
such a machine, and says how.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fakes.node.kubelet.node import SERVICE, KubeletNode, uid
from tests.fakes.node.kubelet.pods import Container, Pod
from tests.fakes.node.kubelet.systemd import SystemdGroups, runs_here
from tests.fakes.node.kubelet.writes import Recorder, Write
from tests.fakes.waiting import eventually
from tests.node.test_agent import AgentProcess

pytest.importorskip("grpc")
from bench.containerd import IMAGE, NotHere, Runtime, containerd
from bench.crio import crio
from tests.fakes.node.kubelet.real_runtime import RealRuntime, below
from tests.node.kubelet.real_kubelet import NAMED, RealKubelet
from tests.node.test_nri import BEST_EFFORT, SPEC, UNTOUCHED, HookProcess, hook

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.model.machine.knob import Knob, KnobTarget

__all__ = ["hook"]
pytestmark = pytest.mark.slow
ROOT = Path("/sys/fs/cgroup")
MIB = 1 << 20
LENT = {Knob.CPU_WEIGHT: "150", Knob.CPU_MAX: "150000 100000", Knob.MEMORY_MAX: str(64 * MIB)}
OF_A_CPU = Container(cpu_request_m=1000, cpu_limit_m=1000, memory_request_bytes=32 * MIB)
LOOKS, EVERY = 200, 20


@pytest.fixture(params=[containerd, crio], ids=["containerd", "cri-o"])
def runtime(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Runtime]:
    if not runs_here(ROOT):
        pytest.skip("needs systemd as the first process and cgroup v2: python -m tests.node.guest.uml")
    try:
        with request.param(tmp_path, tmp_path / "nri.sock", systemd=True) as made:
            yield made
    except NotHere as error:
        pytest.skip(str(error))


@pytest.fixture
def node(runtime: Runtime) -> Iterator[KubeletNode]:
    made = KubeletNode(ROOT, SystemdGroups(Recorder(), ROOT))
    made.runtime = made.kubelet.runtime = below(made.groups, runtime)
    made.kubelet.start()
    try:
        yield made
    finally:
        made.end()


def add(node: KubeletNode, labels: dict[str, str], notes: dict[str, str], container: Container) -> str:
    """The group of the container of a new pod with these."""
    assert isinstance(node.runtime, RealRuntime)
    node.runtime.labels, node.runtime.annotations = labels, notes
    return node.runtime.path(node.add(container), container.name)


def values(layout: CgroupLayout, group: str) -> dict[Knob, str]:
    with CgroupKnobs(layout) as knobs:
        return {knob: knobs.read(KnobTarget(group, knob)) for knob in LENT}


def unexpected(node: KubeletNode) -> list[Write]:
    """Writes of the kubelet that failed; user-mode Linux has no cpusets."""
    has_cpusets = "cpuset" in (ROOT / "cgroup.controllers").read_text().split()
    return [write for write in node.failures if has_cpusets or "cpuset" not in write.path]


def agent_beside(runtime: Runtime) -> AgentProcess:
    """An agent for all pods, not yet started. Without the quota of all best-effort work, which may be less than a
    pod's.
    """
    folder = runtime.folder / "agent"
    folder.mkdir(mode=0o1777)
    more: dict[str, object] = {
        "groups": [],
        "sources": {"kubepods": True, "runtime": runtime.socket},
        "policies": {"best_effort_cpu": False},
        "discovery_period_s": 1,
        "writable": ["kubepods.slice"],
    }
    return AgentProcess(folder, "kubepods.slice", "--single", **more)


def reload_systemd() -> None:
    subprocess.run(["systemctl", "daemon-reload"], check=True, timeout=60)


def test_first_values_are_the_units_own(
    node: KubeletNode, hook: Callable[..., HookProcess], layout: CgroupLayout
) -> None:
    hook()
    job = add(node, BEST_EFFORT, {}, OF_A_CPU)
    lent = add(node, BEST_EFFORT, SPEC, Container(name="work"))
    service = add(node, {"koordinator.sh/qosClass": "LS"}, {}, OF_A_CPU)

    def as_wanted() -> None:
        held = values(layout, job)
        assert (held[Knob.CPU_WEIGHT], held[Knob.CPU_MAX]) == ("1", "100000 100000")
        assert values(layout, lent) == LENT
        assert values(layout, service)[Knob.CPU_WEIGHT] in UNTOUCHED

    as_wanted()
    reload_systemd()
    node.restart()
    list(node.kubelet.advance(120))
    as_wanted()
    for pod in list(node.kubelet.pods.values()):  # an update as after a resize in place, of native amounts alone
        node.runtime.update(pod.uid, pod.containers[0].name)
    as_wanted()
    assert unexpected(node) == []


def test_limits_stay_while_systemd_reloads_and_pods_come_and_go(
    node: KubeletNode, runtime: Runtime, hook: Callable[..., HookProcess], layout: CgroupLayout
) -> None:
    """With an agent, the kubelet restarting, too: one look in a hundred at most sees another value."""
    hook()
    agent = agent_beside(runtime)
    work = add(node, BEST_EFFORT, SPEC, Container(name="work"))
    slice_ = work.rpartition("/")[0]

    def stands() -> bool:
        return values(layout, work) == LENT and values(layout, slice_)[Knob.CPU_MAX] == LENT[Knob.CPU_MAX]

    try:
        agent.start()
        agent.until(stands)
        seen: list[bool] = []
        short = ""

        def looked() -> bool:
            nonlocal short
            if len(seen) % EVERY == 0:
                reload_systemd()
                if short:
                    node.kubelet.remove(short)
                seen.append(stands())
                short = node.add(SERVICE if len(seen) % (2 * EVERY) else Container())
                seen.append(stands())
                node.restart()
            list(node.kubelet.advance(3))
            seen.append(stands())
            return len(seen) >= LOOKS

        eventually("it was looked often enough", looked, 240.0, interval_s=0.02)
        assert seen.count(True) >= 0.99 * len(seen), f"{seen.count(True)} of {len(seen)}"
        assert unexpected(node) == []
    finally:
        agent.stop()


@pytest.mark.skipif(not os.environ.get(NAMED), reason=f"{NAMED} names no kubelet")
def test_limits_stay_beside_a_real_kubelet(
    runtime: Runtime, hook: Callable[..., HookProcess], layout: CgroupLayout
) -> None:
    """It restarts, starts and ends pods, and systemd reloads, while a best-effort pod is looked at all the time."""
    hook()
    kubelet = RealKubelet(os.environ[NAMED], runtime.folder, "", runtime.socket, IMAGE, systemd=True)
    agent = agent_beside(runtime)
    pod = Pod(uid(1), (Container(name="work"),))
    try:
        kubelet.start()
        kubelet.add("lent", pod, BEST_EFFORT, SPEC)
        slice_ = kubelet.pod_path(pod)
        agent.start()
        agent.until(lambda: values(layout, slice_).items() >= LENT.items())
        work = container_of(slice_)
        assert values(layout, work) == LENT
        ended = threading.Event()
        seen: list[bool] = []

        def look() -> None:
            while not ended.wait(0.02):
                seen.append(values(layout, work) == LENT and values(layout, slice_) == LENT)

        looking = threading.Thread(target=look)
        looking.start()
        try:
            for number in range(2, 5):
                short = Pod(uid(number), (Container(cpu_request_m=50),) if number % 2 else (Container(),))
                kubelet.add(f"short-{number}", short)
                reload_systemd()
                if number == 3:
                    kubelet.stop()
                    kubelet.start()
                kubelet.remove(f"short-{number}", short)
        finally:
            ended.set()
            looking.join()
        assert seen.count(True) >= 0.99 * len(seen), f"{seen.count(True)} of {len(seen)}"
        assert "failed to write" not in kubelet.log.read_text(errors="replace")
    finally:
        agent.stop()
        kubelet.end()
        for sandbox in runtime.ask("ListPodSandbox").items:
            runtime.end(sandbox.id)


def container_of(slice_: str) -> str:
    """The group of a pod's container which is not its sandbox, the one with a limit."""
    scopes = [path for path in (ROOT / slice_).iterdir() if path.suffix == ".scope"]
    (found,) = (path for path in scopes if not (path / "cpu.max").read_text().startswith("max"))
    return f"{slice_}/{found.name}"
