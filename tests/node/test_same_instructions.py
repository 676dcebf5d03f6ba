"""Samples of this machine's cgroups, replayed on an engine in the lab, give byte-identical instructions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from time import monotonic_ns, sleep, time

import pytest

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.schedstat import RunDelayReader
from cotenant.drivers.cgroup.sensor import NodeSensor
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.proc.host import HostReader
from cotenant.drivers.proc.topology import read_topology
from cotenant.engine.node.agent import Agent
from cotenant.engine.node.policies import PolicySettings
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.node_pod import NodePod
from cotenant.policy.nodeqos.cpu.best_effort import BestEffortCpuConfig
from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig, SuppressionForm
from cotenant_lab.plant.keeping import PlantKeeper
from cotenant_lab.plant.recording import EngineRecorder, dump, load, replay

BUSY = (
    "import time\nwhile True:\n    until = time.thread_time() + 0.002\n    while time.thread_time() < until: "
    "pass\n    time.sleep(0.002)"
)
CPU_KNOBS = (Knob.CPU_MAX, Knob.CPU_IDLE, Knob.CPU_WEIGHT, Knob.CPUSET_CPUS)
TICKS = 8
PERIOD_US = 150_000


def now_us() -> int:
    return monotonic_ns() // 1000


@pytest.fixture
def workers(groups: Groups, group: str) -> Iterator[tuple[str, str]]:
    """Two groups, a busy process in each."""
    top = group.rpartition("/")[0]
    names = (f"{top}/service", f"{top}/guest")
    running = []
    try:
        for name in names:
            groups.make(name)
            running.append(subprocess.Popen([sys.executable, "-c", BUSY]))
            groups.move(running[-1].pid, name)
        yield names
    finally:
        for worker in running:
            worker.kill()
            worker.wait()


@pytest.mark.slow
def test_a_recording_of_this_machine_gives_the_same_instructions_in_the_lab(
    layout: CgroupLayout, workers: tuple[str, str]
) -> None:
    service, guest = workers
    policies = PolicySettings(best_effort_cpu=BestEffortCpuConfig(SuppressConfig(form=SuppressionForm.QUOTA)))
    settings = AgentSettings(policies=policies, roots=(service.rpartition("/")[0],), period_us=PERIOD_US)
    pods = (
        NodePod("u1", "test", "service", service, QoSClass.LS),
        NodePod("u2", "test", "guest", guest, QoSClass.BE),
    )
    with ExitStack() as stack:
        reader = stack.enter_context(closing(CgroupReader(layout)))
        host = stack.enter_context(closing(HostReader()))
        delays = stack.enter_context(closing(RunDelayReader(layout)))
        knobs = stack.enter_context(CgroupKnobs(layout))
        sensor = NodeSensor(reader, host, now_us, time, delays)
        keeper = PlantKeeper(knobs, now_us)
        engine = EngineRecorder(Agent(settings, "this"))
        engine.machine_seen(frozenset(knob for knob in CPU_KNOBS if knobs.supported(knob) is None))
        engine.pods_seen(pods, now_us())
        due_us = now_us()
        for _ in range(TICKS):
            due_us += PERIOD_US
            sleep(max(0.0, (due_us - now_us()) / 1e6))  # the machine's own counters need its own time
            values = {target: knobs.read(target) for target in engine.knobs_to_read()}
            said = engine.sampled(sensor.sample(engine.groups()), values, read_topology())
            if said:
                engine.answered((*keeper.give_back(said.give_back), *keeper.hold(said.hold)), now_us())
        last = engine.stopping(now_us())
        engine.answered(keeper.give_back(last.give_back), now_us())
        assert not keeper.leases()

    events = load(dump(engine.events))
    asked = [event.said for event in events if "cpu.max" in event.said]
    assert asked, "the engine asked for no quota, so nothing was compared"
    told = [(event.said, again) for event, again in replay(events, Agent(settings, "lab"))]
    assert [here.encode() for here, _ in told] == [there.encode() for _, there in told]
