"""Who holds a GPU, and which are held and idle."""

from __future__ import annotations

from cotenant.engine.node.gpu_holding import attributed, idle_gpus
from cotenant.model.devices.gpu_use import GpuHolder, GpuProcess, GpuUse, joined, whole_or_instances

A, B = GpuHolder("ml/a", "serve"), GpuHolder("ml/b")


def use(index: int, active: int | None = None, **more: object) -> GpuUse:
    return GpuUse("dcgm", index, f"GPU-{index}", sm_active_permille=active, **more)  # type: ignore[arg-type]


def test_holders_by_uuid_by_index_by_replica_and_by_process() -> None:
    uses = [use(0), use(1), use(2), use(3, processes=(GpuProcess(42), GpuProcess(43)))]
    found = attributed(uses, {"GPU-0": [A], "1": [A], "GPU-2::0": [A], "GPU-2::7": [B]}, {42: B})
    assert [gpu.holders for gpu in found] == [(A,), (A,), (A, B), (B,)]
    (shared,) = attributed([use(0)], {"nvidia0/vgpu0": [A], "nvidia0/vgpu12": [B]}, {})
    assert shared.holders == (A, B)


def test_what_several_sources_tell_of_a_gpu_or_an_instance_is_of_one() -> None:
    smi = [
        GpuUse("nvidia-smi", 0, "gpu-0", busy_permille=7, memory_used_bytes=3),
        GpuUse("nvidia-smi", 0, "gpu-0", instance="#7", instance_uuid="MIG-a"),
        GpuUse("nvidia-smi", 0, "gpu-0", instance="#7", instance_uuid="MIG-b"),
        GpuUse("nvidia-smi", 1),
    ]
    found = joined([use(0, 5, memory_used_bytes=2), use(0, 6, instance="1g.10gb#7"), *smi])
    assert [(one.sm_active_permille, one.busy_permille, one.memory_used_bytes) for one in found[:1]] == [(5, 7, 2)]
    assert [(one.instance, one.instance_uuid, one.index) for one in found[1:]] == [
        ("1g.10gb#7", "MIG-a", 0),
        ("#7", "MIG-b", 0),
        ("", "", 1),
    ]


def test_a_pod_that_several_sources_name_holds_it_once() -> None:
    (found,) = attributed([use(0, holders=(A,))], {"GPU-0": [GpuHolder("ml/a", "other")]}, {})
    assert found.holders == (A,)


def test_idle_is_held_and_below_one_percent_active() -> None:
    uses = [
        use(0, 9, holders=(A,), memory_used_bytes=7),
        use(1, 10, holders=(A,)),
        use(2, 0),  # nobody's
        use(3, None, holders=(B,), memory_used_bytes=5),  # not known: not idle
        use(4, None, holders=(B,), busy_permille=0, memory_used_bytes=3),
    ]
    idle = idle_gpus(uses)
    assert (idle.allocated, idle.idle, idle.unknown) == (4, 2, 1)
    assert (idle.idle_memory_bytes, idle.idle_holders) == (10, ("ml/a", "ml/b"))


def test_multiprocessors_are_believed_before_busy() -> None:
    assert idle_gpus([use(0, 2, busy_permille=1000, holders=(A,))]).idle == 1


def test_of_a_divided_gpu_its_instances_are_held() -> None:
    whole = use(0, 500, holders=(A,))
    instances = [use(0, 0, instance="1g.10gb#1", holders=(A,)), use(0, 600, instance="1g.10gb#2", holders=(B,))]
    idle = idle_gpus([whole, *instances])
    assert (idle.allocated, idle.idle, idle.idle_holders) == (2, 1, ("ml/a",))


def test_an_instance_is_not_given_by_the_id_of_its_gpu() -> None:
    (found,) = attributed([use(0, instance="1g.10gb#1")], {"GPU-0": [A]}, {})
    assert found.holders == ()


def test_a_mig_instance_is_given_by_its_own_names() -> None:
    def held(device: str) -> tuple[GpuHolder, ...]:
        instance = use(2, instance="1g.10gb#7", instance_uuid="MIG-ab")
        return attributed([instance], {device: [A]}, {})[0].holders

    for device in ("MIG-ab", "MIG-ab::3", "MIG-GPU-2/7/0", "nvidia2/gi7", "nvidia2/gi7/vgpu1"):
        assert held(device) == (A,), device
    for device in ("MIG-cd", "MIG-GPU-2/8/0", "MIG-GPU-1/7/0", "nvidia2/gi77", "nvidia2", "2"):
        assert held(device) == (), device


def test_a_gpu_of_amd_is_given_by_its_address() -> None:
    (found,) = attributed([GpuUse("amd-smi", 0, "00ff", bus="0000:83:00.0")], {"0000:83:00.0": [B]}, {})
    assert found.holders == (B,)


def test_cards_of_two_vendors_with_one_number_are_two() -> None:
    divided = [use(0), use(0, instance="1g.10gb#1")]
    found = whole_or_instances([*divided, GpuUse("amd-smi", 0)])
    assert [(gpu.source, gpu.instance) for gpu in found] == [("dcgm", "1g.10gb#1"), ("amd-smi", "")]
