"""GPUs through a fake NVML; the real library is only asked whether it is supported."""

from __future__ import annotations

import pytest
from tests.fakes.node.fake_nvml import FakeNvml, Gpu

from cotenant.drivers.gpu.nvml import APPLICATION_XIDS, GpuReader
from cotenant.model.errors import Transient, Unsupported
from cotenant.model.machine.counters import GpuInstance, GpuPodUse

GIB = 1 << 30


def test_use_memory_and_processes() -> None:
    first = Gpu("GPU-a", used=5 * GIB, percent=37, compute=[(7, GIB), (9, None)], graphics=[(7, GIB), (3, 10)])
    reader = GpuReader(FakeNvml(first, Gpu("GPU-b")))
    a, b = reader.read()
    assert (a.index, a.uuid, a.utilisation_percent, a.memory_used_bytes, a.memory_total_bytes) == (
        0,
        "GPU-a",
        37,
        5 * GIB,
        80 * GIB,
    )
    assert a.processes == ((3, 10), (7, GIB), (9, 0))
    assert (a.healthy, b.healthy) == (True, True)
    assert reader.gaps() == ()
    first.percent = 90
    assert reader.read()[0].utilisation_percent == 90


def test_what_the_pods_do_on_a_card_is_told_by_process_since_the_last_reading() -> None:
    gpu = Gpu("GPU-a", compute=[(7, GIB), (8, 2 * GIB), (9, GIB)], active=[(7, 100, 40, 10), (8, 110, 20, 5)])
    reader = GpuReader(FakeNvml(gpu), lambda pid: {7: "web", 8: "web"}.get(pid, ""))
    (found,) = reader.read()
    assert found.pods == (GpuPodUse("", GIB, 0, 0), GpuPodUse("web", 3 * GIB, 60, 15))
    gpu.active += [(9, 120, 90, 30), (9, 130, 70, 40)]
    (found,) = reader.read()
    assert found.pods == (GpuPodUse("", GIB, 90, 40), GpuPodUse("web", 3 * GIB, 0, 0))
    (found,) = reader.read()
    assert {use.sm_percent for use in found.pods} == {0}
    gpu.fails = {"ProcessUtilization": FakeNvml.NVML_ERROR_NOT_SUPPORTED}
    (found,) = reader.read()
    assert [(use.sm_percent, use.bandwidth_percent) for use in found.pods] == [(None, None), (None, None)]
    assert [gap.what for gap in reader.gaps()] == ["use by process of GPUs"]


def test_bytes_over_pcie_are_a_rate_between_two_readings() -> None:
    gpu = Gpu("GPU-a", moved=(10_000, 5_000), at_us=1_000_000)
    reader = GpuReader(FakeNvml(gpu))
    assert reader.read()[0].pcie_bps is None
    gpu.moved, gpu.at_us = (30_000, 6_000), 1_500_000
    assert reader.read()[0].pcie_bps == 42_000
    assert reader.read()[0].pcie_bps is None  # the driver has not counted since
    gpu.moved, gpu.at_us = (10, 6_000), 2_000_000
    assert reader.read()[0].pcie_bps is None  # it wrapped
    gpu.fails = {"FieldValue": FakeNvml.NVML_ERROR_NOT_SUPPORTED}
    assert reader.read()[0].pcie_bps is None
    gpu.fails = {"FieldValues": FakeNvml.NVML_ERROR_NOT_SUPPORTED}
    assert reader.read()[0].pcie_bps is None
    assert [gap.what for gap in reader.gaps()] == ["PCIe bytes of GPUs"]


def test_bytes_over_nvlink_are_a_rate_and_a_card_without_links_lacks_nothing() -> None:
    linked, alone = Gpu("GPU-a", linked_kib=(10, 5), at_us=1_000_000), Gpu("GPU-b")
    reader = GpuReader(FakeNvml(linked, alone))
    assert [gpu.nvlink_bps for gpu in reader.read()] == [None, None]
    linked.linked_kib, linked.at_us = (30, 6), 1_500_000
    assert [gpu.nvlink_bps for gpu in reader.read()] == [42 * 1024, None]
    linked.linked_kib, linked.at_us = (1, 6), 2_000_000
    assert reader.read()[0].nvlink_bps is None  # it wrapped
    linked.linked_kib, linked.at_us = (11, 6), 3_000_000
    assert reader.read()[0].nvlink_bps == 10 * 1024
    linked.fails = {"FieldValues": 999}
    assert [reader.read()[0].nvlink_bps for _ in range(2)] == [None, None]
    linked.fails = {}
    linked.at_us = 4_000_000
    assert reader.read()[0].nvlink_bps is None
    linked.linked_kib, linked.at_us = (21, 6), 5_000_000
    assert reader.read()[0].nvlink_bps == 10 * 1024
    assert reader.gaps() == ()


def test_clocks_and_what_slows_a_card() -> None:
    gpu = Gpu("GPU-a", sm_clock_mhz=1410, slowed=0x1 | 0x4 | 0x40)
    reader = GpuReader(FakeNvml(gpu))
    found = reader.read()[0]
    assert (found.sm_clock_mhz, found.throttled_by) == (1410, ("sw_power_cap", "hw_thermal_slowdown"))
    gpu.fails = dict.fromkeys(("ClockInfo", "CurrentClocksEventReasons"), FakeNvml.NVML_ERROR_NOT_SUPPORTED)
    found = reader.read()[0]
    assert (found.sm_clock_mhz, found.throttled_by) == (None, ())
    assert {gap.what for gap in reader.gaps()} == {"clocks of GPUs", "throttle reasons of GPUs"}


def test_what_slows_a_card_under_its_older_name() -> None:
    class Older(FakeNvml):
        nvmlDeviceGetCurrentClocksEventReasons = None  # type: ignore[assignment]  # noqa: N815

        def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: Gpu) -> int:  # noqa: N802
            return gpu.slowed

    assert GpuReader(Older(Gpu("GPU-a", slowed=0x8))).read()[0].throttled_by == ("hw_slowdown",)


def test_instances_of_a_divided_card_and_use_that_is_not_told() -> None:
    instances = [(7, "MIG-a", 10 * GIB, GIB), None, (9, "MIG-b", 20 * GIB, 0)]
    fails = {"UtilizationRates": FakeNvml.NVML_ERROR_NOT_SUPPORTED}
    gpu = Gpu("GPU-a", divided=True, instances=instances, fails=fails)
    (found,) = GpuReader(FakeNvml(gpu)).read()
    assert found.instances == (GpuInstance(7, "MIG-a", 10 * GIB, GIB), GpuInstance(9, "MIG-b", 20 * GIB, 0))
    assert found.utilisation_percent is None
    gpu.divided = False
    assert GpuReader(FakeNvml(gpu)).read()[0].instances == ()


def test_errors_are_counted_by_xid_those_of_programs_too(caplog: pytest.LogCaptureFixture) -> None:
    gpu = Gpu("GPU-a")
    library = FakeNvml(gpu)
    reader = GpuReader(library)
    reader.read()
    library.events += [(gpu, 31), (gpu, 31), (gpu, 13)]
    found = reader.read()[0]
    assert (found.xids, found.healthy) == (((13, 1), (31, 2)), True)
    assert [record.getMessage() for record in caplog.records][-1] == "GPU 0 (GPU-a): Xid 13"
    library.events += [(gpu, xid) for xid in range(1000, 1060)]
    reader.read()
    library.events += [(gpu, xid) for xid in range(2000, 2060)]
    assert len(reader.read()[0].xids) == 64


def test_of_thousands_of_processes_the_pods_are_looked_up_now_and_then() -> None:
    asked: list[int] = []

    def pod_of(pid: int) -> str:
        asked.append(pid)
        return f"pod-{pid % 3}"

    reader = GpuReader(FakeNvml(Gpu("GPU-a", compute=[(pid, 1) for pid in range(1, 10_001)])), pod_of)
    for _ in range(10):
        assert sum(use.memory_bytes for use in reader.read()[0].pods) == 10_000
    assert len(asked) == 10_000
    reader.read()
    assert len(asked) == 20_000


def test_power_its_least_limit_and_the_root() -> None:
    reader = GpuReader(FakeNvml(Gpu("GPU-a", draw_mw=410_000)), root_of={"0000:17:00.0": "pci0000:16"}.get)
    found = reader.read()[0]
    assert (found.power_mw, found.least_power_mw, found.root, found.divided) == (410_000, 200_000, "pci0000:16", False)
    fails = dict.fromkeys(("PowerUsage", "PowerManagementLimitConstraints"), FakeNvml.NVML_ERROR_NOT_SUPPORTED)
    reader = GpuReader(FakeNvml(Gpu("GPU-a", fails=fails)), root_of=lambda bus: None)
    found = reader.read()[0]
    assert (found.power_mw, found.least_power_mw, found.root) == (None, None, "")


def test_a_card_with_mig_is_divided_and_a_model_without_it_lacks_nothing() -> None:
    assert GpuReader(FakeNvml(Gpu("GPU-a", divided=True))).read()[0].divided
    reader = GpuReader(FakeNvml(Gpu("GPU-a", fails={"MigMode": FakeNvml.NVML_ERROR_NOT_SUPPORTED})))
    assert not reader.read()[0].divided
    assert reader.gaps() == ()


@pytest.mark.parametrize(("number", "mode"), [(0, "default"), (3, "exclusive-process"), (9, "")])
def test_who_may_use_a_card(number: int, mode: str) -> None:
    assert GpuReader(FakeNvml(Gpu("GPU-a", compute_mode=number))).read()[0].compute_mode == mode


def test_a_card_that_does_not_say_who_may_use_it() -> None:
    reader = GpuReader(FakeNvml(Gpu("GPU-a", fails={"ComputeMode": FakeNvml.NVML_ERROR_NOT_SUPPORTED})))
    assert reader.read()[0].compute_mode == ""
    assert [gap.what for gap in reader.gaps()] == ["compute mode of GPUs"]


@pytest.mark.parametrize(
    ("turned", "why"),
    [({"uncorrected": 2}, "2 uncorrected"), ({"rows": (0, 1, 1, 0)}, "reset"), ({"rows": (0, 1, 0, 1)}, "failed")],
)
def test_faulty_memory_is_permanently_unhealthy(turned: dict[str, object], why: str) -> None:
    gpu, other = Gpu("GPU-a"), Gpu("GPU-b")
    reader = GpuReader(FakeNvml(gpu, other))
    assert all(gpu_counters.healthy for gpu_counters in reader.read())
    for name, value in turned.items():
        setattr(gpu, name, value)
    assert [gpu_counters.healthy for gpu_counters in reader.read()] == [False, True]
    gpu.uncorrected, gpu.rows = 0, (0, 0, 0, 0)
    assert [gpu_counters.healthy for gpu_counters in reader.read()] == [False, True]
    assert why in reader.gaps()[0].needs


def test_critical_errors_count_and_those_of_programs_do_not() -> None:
    library = FakeNvml(Gpu("GPU-a"), Gpu("GPU-b"))
    reader = GpuReader(library)
    reader.read()
    library.events.extend((library.gpus[0], xid) for xid in sorted(APPLICATION_XIDS))
    assert all(gpu_counters.healthy for gpu_counters in reader.read())
    library.events.append((library.gpus[1], 79))
    assert [gpu_counters.healthy for gpu_counters in reader.read()] == [True, False]
    assert reader.gaps()[0].needs == "Xid 79"


def test_a_lost_gpu_does_not_affect_the_others() -> None:
    gpu = Gpu("GPU-a", used=GIB)
    reader = GpuReader(FakeNvml(gpu, Gpu("GPU-b", percent=5)))
    reader.read()
    gpu.fails = dict.fromkeys(
        ("MemoryInfo", "UtilizationRates", "ComputeRunningProcesses", "GraphicsRunningProcesses"), 15
    )
    lost, well = reader.read()
    assert (lost.healthy, lost.memory_total_bytes, lost.processes) == (False, 80 * GIB, ())
    assert (well.healthy, well.utilisation_percent) == (True, 5)


def test_a_query_that_a_model_does_not_support_is_a_gap() -> None:
    gpu = Gpu("GPU-a", percent=5, fails={"TotalEccErrors": 3, "RemappedRows": 13, "GraphicsRunningProcesses": 4})
    reader = GpuReader(FakeNvml(gpu, listens=False))
    assert reader.read()[0].healthy
    reader.read()
    assert sorted(gap.what for gap in reader.gaps()) == [
        "critical GPU errors",
        "graphics processes of GPUs",
        "remapped rows of GPUs",
        "uncorrected memory errors of GPUs",
    ]


def test_an_unexpected_error_of_one_card_is_said_for_it_and_blinds_no_other() -> None:
    gpu = Gpu("GPU-a", used=5 * GIB, percent=9)
    reader = GpuReader(FakeNvml(gpu, Gpu("GPU-b", used=GIB, percent=5)))
    reader.read()
    gpu.fails = {"PowerUsage": 999}
    found, other = reader.read()
    assert (found.healthy, found.power_mw, other.power_mw) == (True, None, 650_000)
    assert [(gap.what, gap.needs) for gap in reader.gaps()] == [
        ("power draw of GPU 0", "an answer of its driver (NVML error 999)")
    ]
    gpu.fails = {}
    assert reader.read()[0].power_mw == 650_000
    assert reader.gaps() == ()


@pytest.mark.parametrize(
    ("query", "what"), [("MemoryInfo", "memory"), ("ComputeRunningProcesses", "compute processes")]
)
def test_a_card_that_does_not_tell_who_is_on_it_does_not_look_empty(query: str, what: str) -> None:
    gpu = Gpu("GPU-a", used=5 * GIB, compute=[(7, 5 * GIB)])
    reader = GpuReader(FakeNvml(gpu, Gpu("GPU-b")))
    reader.read()
    gpu.fails = {query: 999}
    found, other = reader.read()
    assert (found.healthy, found.fault) == (False, f"its driver does not tell its {what}: NVML error 999")
    assert (found.memory_used_bytes, other.healthy, other.fault) == (5 * GIB, True, "")
    gpu.fails = {}
    assert reader.read()[0].healthy


def test_a_divided_card_stays_divided_while_it_does_not_say() -> None:
    gpu = Gpu("GPU-a", divided=True)
    reader = GpuReader(FakeNvml(gpu))
    reader.read()
    gpu.fails = {"MigMode": 999}
    assert reader.read()[0].divided


@pytest.mark.parametrize(("error", "kind"), [(9, Unsupported), (12, Unsupported), (999, Transient)])
def test_a_driver_that_does_not_start(error: int, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        GpuReader(FakeNvml(starts=error)).read()


def test_a_gpu_that_cannot_be_listed_leaves_nothing_open() -> None:
    library = FakeNvml(Gpu("GPU-a", fails={"HandleByIndex": 15}))
    with pytest.raises(Transient):
        GpuReader(library).read()
    assert library.running == 0


def test_a_card_that_cannot_be_opened_blinds_no_other_and_is_asked_again() -> None:
    lost = Gpu("GPU-a", fails={"HandleByIndex": 15})
    library = FakeNvml(lost, Gpu("GPU-b"))
    reader = GpuReader(library)
    assert [gpu.uuid for gpu in reader.read()] == ["GPU-b"]
    assert [gap.what for gap in reader.gaps()] == ["GPU 0"]
    lost.fails = {}
    for _ in range(10):
        found = reader.read()
    assert [(gpu.index, gpu.uuid) for gpu in found] == [(0, "GPU-a"), (1, "GPU-b")]
    assert reader.gaps() == ()


def test_a_card_without_events_keeps_nobody_from_those_of_the_others() -> None:
    gpus = Gpu("GPU-a", fails={"RegisterEvents": 3}), Gpu("GPU-b")
    library = FakeNvml(*gpus)
    reader = GpuReader(library)
    reader.read()
    assert library.registered == ["GPU-b"]
    gpus[0].fails["UUID"] = FakeNvml.NVML_ERROR_GPU_IS_LOST
    library.events += [(gpus[0], 79), (gpus[1], 48)]
    assert reader.read()[1].fault == "Xid 48"


def test_reading_after_close_starts_again() -> None:
    library = FakeNvml(Gpu("GPU-a"))
    reader = GpuReader(library)
    reader.close()
    reader.read()
    reader.close()
    assert library.running == 0
    assert len(reader.read()) == 1
    library.running = 0  # somebody else in the process shut it down
    with pytest.raises(Transient):
        reader.read()
    assert len(reader.read()) == 1


def test_the_real_library_is_unsupported_or_lists_its_gpus() -> None:
    pytest.importorskip("pynvml")
    reader = GpuReader()
    try:
        gpus = reader.read()
    except Unsupported as error:
        pytest.skip(str(error))
    assert all(gpu.memory_used_bytes <= gpu.memory_total_bytes for gpu in gpus)
    reader.close()
