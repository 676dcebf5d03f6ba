"""A Job on lent resources beside a service, as nodes with a real kubelet recorded it, with other work outside the pods.

`recorded_job.json`, at a load of twenty: two CPUs; the guard held all best-effort work at 0.2 CPU, start-up graces
raised that to 0.6, and the class had far more weight than a kubelet gives it, so that the Job harmed the service within
two seconds and was held again after the third. The agent's own pod used up to nine times as much as before, in samples
that it took because of the trouble.

`recorded_starved.json`, at a load of forty, the class with more weight than all services: the agent itself got so
little CPU that a sample is of ten seconds and the next of nineteen, after looks of less than one.

`recorded_waiting.json`, at a load of fifteen, weighted as above, guard off: the service had a few milliseconds of CPU
time of each second, and waited for the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.knob_values import CpuMax
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse, ServiceHealth
from cotenant.policy.interference.attribution.answer import Attribution
from cotenant.policy.interference.attribution.attribute import attribute
from cotenant.policy.interference.attribution.causes import CandidateCause
from cotenant.policy.interference.attribution.samples import NodeSamples, extended
from cotenant.policy.interference.attribution.settings import AttributionSettings

JOB_AND_AGENT, STARVED, WAITING = "recorded_job.json", "recorded_starved.json", "recorded_waiting.json"
OBJECTIVES_US = {JOB_AND_AGENT: 100_000, STARVED: 100_000, WAITING: 250_000}
JOB = "Job shop/hogs"
CLASS = "kubepods/besteffort"
START_MS = 60_000  # of the recording, by the clock of the case


def states(case: str) -> Iterator[NodeState]:
    for row in json.loads(Path(__file__).with_name(case).read_text()):
        yield NodeState(
            at_us=(START_MS + row["at_ms"]) * 1000,
            interval_us=row["length_ms"] * 1000,
            host=HostUse(2, row["host_m"], 1, 0, steal_ppm=row["steal_ppm"]),
            pods=tuple(pod_use(name, cpu_m, row["cart"], OBJECTIVES_US[case]) for name, cpu_m in row["pods"].items()),
            best_effort_group=CLASS,
            knobs={KnobTarget(CLASS, Knob.CPU_MAX): str(CpuMax(row["quota_m"] and row["quota_m"] * 100))},
        )


def pod_use(name: str, cpu_m: int, cart: dict[str, Any], objective_us: int) -> PodUse:
    if name.startswith("hogs"):
        pod = NodePod(f"uid-{name}", "shop", name, f"{CLASS}/{name}", QoSClass.BE, workload=JOB)
        return PodUse(pod, GroupUse(pod.group, cpu_m=cpu_m))
    pod = NodePod(f"uid-{name}", "shop", name, f"kubepods/burstable/{name}", QoSClass.LS, ours=name == "agent")
    if name != "cart":
        return PodUse(pod, GroupUse(pod.group, cpu_m=cpu_m))
    use = GroupUse(pod.group, cpu_m=cpu_m, run_delay_ppm=cart["run_delay_ppm"], cpu_stall_ppm=cart["stall_ppm"])
    if "p99_us" not in cart:
        return PodUse(replace(pod, objective_p99_us=objective_us), use)
    health = ServiceHealth(cart["window_us"], cart["requests"], cart["p99_us"], cart["bad"], cart["age_us"])
    return PodUse(replace(pod, objective_p99_us=objective_us), use, health=health)


def answers(config: AttributionSettings, case: str = JOB_AND_AGENT) -> list[Attribution]:
    """What is found at each sample while the service is in trouble."""
    history, found = NodeSamples(), []
    for state in states(case):
        history = extended(history, state, config)
        cart = next(entry for entry in state.pods if entry.pod.name == "cart")
        answer = attribute(history, state, cart, config) if history.in_trouble("uid-cart", config) else None
        if answer is not None:
            found.append(answer)
    return found


def is_job(candidate: CandidateCause) -> bool:
    return JOB in (candidate.workload, candidate.owner)


def test_the_job_is_named_at_the_first_look_at_the_trouble() -> None:
    first, *_ = answers(AttributionSettings())
    assert first.culprit is not None, first.reason.text
    assert is_job(first.culprit)


def test_the_job_comes_first_at_every_look() -> None:
    looks = answers(AttributionSettings())
    assert len(looks) >= 5
    assert all(is_job(answer.candidates[0]) for answer in looks)


def test_without_what_it_used_before_nobody_is_named() -> None:
    """The recording is a case for that: once held, the Job hardly ran while requests went on to be late."""
    looks = answers(AttributionSettings(held_ppm=0))
    assert all(answer.culprit is None for answer in looks)


def test_samples_of_a_starved_agent_count_by_the_time_that_they_are_of() -> None:
    """Three short looks, in which the Job had hardly begun, and ten seconds in which it took all that there was."""
    *_, last = answers(AttributionSettings(), STARVED)
    assert last.culprit is not None, last.reason.text
    assert is_job(last.culprit)


def test_a_service_that_hardly_gets_any_cpu_time_tells_who_has_it() -> None:
    """Weighed by the CPU time that it got, its worst seconds would count least."""
    *_, last = answers(AttributionSettings(), WAITING)
    assert last.culprit is not None, last.reason.text
    assert is_job(last.culprit)
