"""What `cotenant node status` says of GPUs."""

from __future__ import annotations

from dataclasses import replace

from cotenant.cli.node.card_lines import card_lines
from cotenant.model.machine.counters import GpuCounters, GpuInstance, GpuPodUse

GIB = 1 << 30
GPU = GpuCounters(
    0, "GPU-a", "H100", True, 97, 80 * GIB, 30 * GIB,
    pods=(GpuPodUse("", GIB, 1, 0), GpuPodUse("u1", GIB, 88, 20), GpuPodUse("u2", GIB)),
)  # fmt: skip
NOBODY: dict[str, object] = {"up": False, "said": "no agent"}


def hold(group: str, knob: str, value: str, state: str = "held") -> dict[str, object]:
    return {"target": {"group": group, "knob": knob}, "value": value, "state": state}


def test_without_an_agent_pods_have_their_uids() -> None:
    start = "GPU 0 H100: 97 % in use, memory 30.0 GiB of 80.0 GiB"
    assert card_lines([GPU], NOBODY) == [f"{start}; programs outside pods 1 %; pod u1 88 %; pod u2 – %"]
    failed = replace(GPU, healthy=False, fault="Xid 79", divided=True, pods=())
    assert card_lines([failed], NOBODY) == [f"{start}, UNHEALTHY (Xid 79), divided (MIG)"]
    assert card_lines([replace(failed, fault="", divided=False)], NOBODY) == [f"{start}, UNHEALTHY"]


def test_an_agent_names_pods_and_tells_what_it_holds_of_a_card_and_of_clients_to_come() -> None:
    holds = [
        hold("GPU-a", "gpu.power", "300000"),
        hold("GPU-b", "gpu.power", "200000"),
        hold("GPU-a", "gpu.clocks", "210 900", "yielded"),
        hold("all", "mps.threads", "30"),
    ]
    answer = {"up": True, "state": {"pods": [{"uid": "u1", "pod": "batch/b"}]}, "holds": holds}
    card, clients = card_lines([GPU], answer)
    assert card.endswith("; programs outside pods 1 %; batch/b 88 %; pod u2 – %; held: gpu.power=300000")
    assert clients == "MPS clients that start now: mps.threads=30"


def test_what_a_card_cannot_do_and_what_has_not_returned_yet_is_said() -> None:
    holds = [
        hold("GPU-a", "gpu.clocks", "990 990", "refused") | {"detail": "needs a card and driver with such a limit"},
        hold("GPU-a", "gpu.power", "300000", "returning") | {"detail": "the driver of GPU-a has not answered"},
        hold("GPU-b", "gpu.power", "300000", "refused") | {"detail": "another card"},
    ]
    (line,) = card_lines([replace(GPU, pods=())], {"up": True, "state": {"pods": []}, "holds": holds})
    assert line.endswith(
        "; not done: gpu.clocks (needs a card and driver with such a limit), "
        "gpu.power (the driver of GPU-a has not answered)"
    )


def test_what_slows_a_card_its_errors_and_its_instances() -> None:
    instances = (GpuInstance(7, "MIG-a", 10 * GIB, GIB), GpuInstance(9, "MIG-b", 20 * GIB, 0))
    gpu = replace(
        GPU,
        utilisation_percent=None,
        pods=(),
        divided=True,
        instances=instances,
        throttled_by=("sw_power_cap", "hw_slowdown"),
        xids=((13, 1), (31, 2)),
    )
    assert card_lines([gpu], NOBODY) == [
        "GPU 0 H100: use not known, memory 30.0 GiB of 80.0 GiB, "
        "divided (MIG: #7 1.0 of 10.0 GiB, #9 0.0 of 20.0 GiB), "
        "slowed by sw_power_cap and hw_slowdown, Xid 13 1 x, Xid 31 2 x"
    ]


def test_idle_but_held_is_a_line_of_its_own() -> None:
    idle = {"allocated": 3, "idle": 1, "unknown": 1, "idle_memory_bytes": 2 * GIB, "idle_holders": ["ml/train"]}
    answer = {"up": True, "state": {"pods": [], "idle_gpus": idle}, "holds": []}
    assert card_lines([GPU], answer)[1:] == [
        "1 of 3 held GPUs are idle, with 2.0 GiB of memory in use: ml/train; of 1 the driver does not say"
    ]
    none = {"allocated": 2, "idle": 0, "unknown": 0, "idle_memory_bytes": 0, "idle_holders": []}
    assert card_lines([GPU], {**answer, "state": {"pods": [], "idle_gpus": none}})[1:] == ["0 of 2 held GPUs are idle"]
    assert len(card_lines([GPU], {**answer, "state": {"pods": [], "idle_gpus": {**none, "allocated": 0}}})) == 1
