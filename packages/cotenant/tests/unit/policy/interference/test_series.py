from __future__ import annotations

from typing import Any

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse
from cotenant.model.machine.run_queue import Blame, NoCulprit
from cotenant.policy.interference.series import BlameSample, SampleSlice, SampleWindow, VictimSample, extend, job_of
from cotenant.policy.interference.settings import InterferenceSettings, VictimSignal

SETTINGS = InterferenceSettings(victim_signal=VictimSignal.CPI, sample_us=10_000_000, every_us=60_000_000)
HOST = HostUse(cpus=2, cpu_m=1000, memory_total_bytes=1, memory_used_bytes=1)


def use(name: str, qos: QoSClass = QoSClass.LS, **signals: Any) -> PodUse:
    return PodUse(NodePod(name, "ns", name, f"pods/{name}", qos), GroupUse(f"pods/{name}", **signals))


def state(at_s: float, *pods: PodUse, length_s: float = 5, blame: tuple[Blame, ...] | None = None) -> NodeState:
    return NodeState(round(at_s * 1e6), round(length_s * 1e6), HOST, pods, blame=blame)


def feed(*states: NodeState) -> tuple[SampleWindow, list[SampleSlice]]:
    series, slices = SampleWindow(), []
    for state in states:
        series, done = extend(series, state, SETTINGS)
        if done is not None:
            slices.append(done)
    return series, slices


def test_a_sample_is_the_mean_by_time_of_its_first_seconds_of_each_minute() -> None:
    service = [use("s", cpi_milli=level, cpu_m=500) for level in (1000, 2000, 9000)]
    guest = [use("g", QoSClass.BE, cpu_m=amount) for amount in (100, 400, 9000)]
    _, slices = feed(
        state(62, service[0], guest[0], length_s=2),
        state(66, service[1], guest[1], length_s=4),
        state(71, service[2], guest[2], length_s=5),  # ends after the tenth second
    )
    assert slices == [SampleSlice(66_000_000, (VictimSample("s", "ns/s", 1_666_666, 500, 0),), (("g", 300),))]


def test_a_sample_that_fills_its_turn_is_done_when_the_next_one_begins() -> None:
    service = use("s", cpi_milli=1000, cpu_m=500)
    series, slices = feed(state(65, service), state(121, service))
    assert [part.at_us for part in slices] == [65_000_000]
    assert len(series.taken) == 1


def test_samples_older_than_the_window_go() -> None:
    service = use("s", cpi_milli=1000, cpu_m=500)
    series, slices = feed(*(state(60 * minute + 5, service) for minute in range(30)))
    assert len(slices) == 29
    assert [part.at_us // 60_000_000 for part in series.slices] == list(range(19, 29))


def test_a_service_without_the_signal_gives_no_sample() -> None:
    _, slices = feed(state(5, use("s", cpu_m=500)), state(65, use("s", cpu_m=500)))
    assert slices[0].victims == ()


def test_blame_is_summed_by_pod_with_descendants() -> None:
    blame = (
        Blame("pods/s/container", "pods/g/container", 10),
        Blame("pods/s/container", "pods/g", 5),
        Blame("pods/s/container", "pods/s", 7),
        Blame("pods/s/container", "system/sshd", 3),
        Blame("pods/s/container", NoCulprit.UNKNOWN, 1),
        Blame("pods/s/container", NoCulprit.IDLE, 90),
        Blame("system/sshd", "pods/g", 90),
    )
    pods = use("s", cpi_milli=1000, cpu_m=500), use("g", QoSClass.BE, cpu_m=100)
    _, slices = feed(state(4, *pods, blame=blame), state(8, *pods, blame=blame), state(65, *pods))
    assert slices[0].blame == (BlameSample("s", (("g", 30),), by_others=8, itself=14),)


def test_pods_with_the_same_application_label_are_one_job() -> None:
    pod = NodePod("u", "shop", "cart-7f", "pods/u", labels={"app": "cart"})
    assert job_of(PodUse(pod, GroupUse("pods/u"))) == "shop/cart"
    assert job_of(use("alone")) == "ns/alone"
