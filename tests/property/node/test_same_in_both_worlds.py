"""The agent's engine gives equal instructions for equal inputs: in any process, from memory or from disk."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.policies import PolicySettings
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.labels import Labels
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import Gap, GroupCounters, HostCounters, NodeSample
from cotenant.model.machine.run_queue import Blame, GroupWaits, NoCulprit, RunQueueReading, WaitHistogram
from cotenant.policy.nodeqos.burst.config import ANNOTATION
from cotenant.policy.nodeqos.cpu.best_effort import BestEffortCpuConfig
from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig, SuppressionForm
from cotenant_lab.plant.driving import Drive, StallTrigger
from cotenant_lab.plant.loads import Hog, PlantLoad, PlantService, SineLoad
from cotenant_lab.plant.machine import Plant
from cotenant_lab.plant.recording import RecordedCall, StoredSample, dump, load, replay
from cotenant_lab.plant.scenarios import ROOT, SERVICE, hog_pods, service_pod

SECOND = 1_000_000
SEEDS = st.integers(0, 1000)


def agent_settings(form: SuppressionForm) -> AgentSettings:
    suppress = SuppressConfig(form=form)
    chosen = PolicySettings(best_effort_cpu=BestEffortCpuConfig(suppress=suppress))
    return AgentSettings(policies=chosen, roots=(ROOT,))


def recorded(form: SuppressionForm, cpus: int, hogs: int, seed: int, seconds: int = 12) -> tuple[RecordedCall, ...]:
    """Events of an agent on a plant: a service with requests, another with a curve, hogs that come and go, one that
    vanishes.
    """
    server = PlantService(SERVICE, 200.0, 2000, 8000, np.random.default_rng(seed))
    pods = hog_pods(hogs)
    loads: list[PlantLoad] = [server, SineLoad(f"{ROOT}/wave")]
    loads += [Hog(pod.group, 1 + seed % 3, from_us=i * SECOND, until_us=(5 + i) * SECOND) for i, pod in enumerate(pods)]
    plant = Plant(cpus, loads, (ROOT,))
    burst = Labels.of({ANNOTATION: '{"policy": "auto"}'})
    service = replace(service_pod(8000), annotations=burst)
    drive = Drive(
        plant, agent_settings(form), (service, *pods), {service.key: server}, (StallTrigger(SERVICE, 30_000),)
    )
    drive.run(seconds * SECOND // 2)
    if pods:
        plant.knobs.remove(pods[0].group)
        drive.show((service, *pods[1:]))
    drive.run(seconds * SECOND)
    drive.stop()
    return tuple(drive.engine.events)


def differences(events: tuple[RecordedCall, ...], form: SuppressionForm) -> list[tuple[str, str, str]]:
    """Events for which a fresh engine with the same inputs gives other instructions."""
    again = replay(events, Agent(agent_settings(form), "another"))
    return [(event.call, event.said, said) for event, said in again if event.said.encode() != said.encode()]


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.sampled_from(list(SuppressionForm)), st.sampled_from([1, 2, 4]), st.integers(0, 4), SEEDS)
def test_a_recording_read_from_disk_gives_the_same_instructions(
    form: SuppressionForm, cpus: int, hogs: int, seed: int
) -> None:
    events = recorded(form, cpus, hogs, seed)
    if hogs:
        assert any(event.said.count('"hold":[{') for event in events)
    stored = dump(events)
    assert load(stored) == events
    assert differences(load(stored), form) == []


@pytest.mark.slow
def test_another_process_with_other_hashes_gives_the_same_instructions(tmp_path: Path) -> None:
    events = recorded(SuppressionForm.QUOTA, 2, 3, seed=5)
    (tmp_path / "recording").write_bytes(dump(events))
    program = (
        "import sys; from pathlib import Path; from cotenant_lab.plant.recording import load;"
        "from cotenant.policy.nodeqos.cpu.suppression import SuppressionForm;"
        "from tests.property.node.test_same_in_both_worlds import differences;"
        "wrong = differences(load(Path(sys.argv[1]).read_bytes()), SuppressionForm.QUOTA);"
        "print(wrong); sys.exit(bool(wrong))"
    )
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "recording")],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_sample_shows() -> None:
    """The comparison can fail: a node that was busier gives other instructions."""
    events = recorded(SuppressionForm.QUOTA, 2, 2, seed=1, seconds=4)
    changed = []
    for event in events:
        sample = event.sample
        if sample is not None:
            host = replace(sample.host, cpu_busy_us=sample.host.cpu_busy_us * 3 // 2)
            event = replace(event, sample=replace(sample, host=host))
        changed.append(event)
    assert differences(tuple(changed), SuppressionForm.QUOTA)


def test_a_sample_is_stored_whole() -> None:
    blame = (Blame("a", "b", 5), Blame("a", NoCulprit.IDLE, 7))
    reading = RunQueueReading(9, (GroupWaits("a", WaitHistogram(), 1, 2),), blame, 3, 4)
    host = HostCounters(2, 10, 1 << 30, 1 << 29)
    sample = NodeSample(1, 2.0, host, (GroupCounters("a", cpu_us=3),), (), (Gap("cycles", "a counter"),), reading)
    assert [field.name for field in fields(StoredSample)] == [field.name for field in fields(NodeSample)]
    event = RecordedCall("sampled", 1, sample=StoredSample.of(sample))
    (back,) = load(dump([event]))
    assert back == event
    assert back.sample is not None
    assert back.sample.sample() == sample


def test_an_invalid_recording_is_refused_with_its_line() -> None:
    good = dump(recorded(SuppressionForm.QUOTA, 1, 0, seed=0, seconds=2))
    with pytest.raises(InvalidInput, match="line 2"):
        load(good.splitlines()[0] + b"\n{}\n")
