"""NVML as an object, after pynvml's functions and error numbers, with GPUs that a test turns as it likes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        self.value = value
        super().__init__(f"NVML error {value}")


@dataclass
class Gpu:
    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    total: int = 80 << 30
    used: int = 0
    percent: int = 0
    uncorrected: int = 0
    rows: tuple[int, int, int, int] = (0, 0, 0, 0)
    compute: list[tuple[int, int | None]] = field(default_factory=list)
    graphics: list[tuple[int, int | None]] = field(default_factory=list)
    bus: str = "00000000:17:00.0"
    power_mw: int = 700_000
    power_range_mw: tuple[int, int] = (200_000, 700_000)
    compute_mode: int = 0
    draw_mw: int = 650_000
    divided: bool = False
    moved: tuple[int, int] = (0, 0)  # bytes sent and received over PCIe
    at_us: int = 0  # the driver's time of its counters
    linked_kib: tuple[int, int] | None = None  # over all NVLinks; None: it has none
    sm_clock_mhz: int = 1980
    slowed: int = 0  # NVML's mask of clocks event reasons
    instances: list[tuple[int, str, int, int] | None] = field(default_factory=list)  # number, UUID, memory, used
    clocks_mhz: tuple[int, int] | None = None
    active: list[tuple[int, int, int, int]] = field(default_factory=list)  # pid, time in us, percent of SM and memory
    fails: dict[str, int] = field(default_factory=dict)  # function's name without the prefix -> error


@dataclass
class Instance:
    """A handle of a MIG instance."""

    number: int
    uuid: str
    total: int
    used: int


class FakeNvml:
    NVMLError = NVMLError
    NVML_SUCCESS = 0
    NVML_ERROR_UNINITIALIZED = 1
    NVML_ERROR_INVALID_ARGUMENT = 2
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_ERROR_NO_PERMISSION = 4
    NVML_ERROR_NOT_FOUND = 6
    NVML_ERROR_DRIVER_NOT_LOADED = 9
    NVML_ERROR_TIMEOUT = 10
    NVML_ERROR_LIBRARY_NOT_FOUND = 12
    NVML_ERROR_FUNCTION_NOT_FOUND = 13
    NVML_ERROR_GPU_IS_LOST = 15
    NVML_ERROR_UNKNOWN = 999
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    NVML_DEVICE_MIG_ENABLE = 1
    NVML_VALUE_TYPE_UNSIGNED_INT = 1
    NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3
    NVML_CLOCK_SM = 1
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX = 138
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 139
    NVML_FI_DEV_PCIE_COUNT_TX_BYTES = 197
    NVML_FI_DEV_PCIE_COUNT_RX_BYTES = 198
    nvmlEventTypeXidCriticalError = 8  # noqa: N815

    def __init__(self, *gpus: Gpu, starts: int = 0, listens: bool = True) -> None:
        self.gpus = list(gpus)
        self.starts = starts  # the error that nvmlInit gives; 0 = none
        self.listens = listens
        self.running = 0
        self.events: deque[tuple[Gpu, int]] = deque()
        self.registered: list[str] = []  # whose events are asked for

    def _said(self, gpu: Gpu, what: str) -> None:
        if self.running == 0:
            raise NVMLError(self.NVML_ERROR_UNINITIALIZED)
        if what in gpu.fails:
            raise NVMLError(gpu.fails[what])

    def nvmlInit(self) -> None:  # noqa: N802
        if self.starts:
            raise NVMLError(self.starts)
        self.running += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.running -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:  # noqa: N802
        self._said(self.gpus[index], "HandleByIndex")
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, gpu: Gpu | Instance) -> bytes:  # noqa: N802
        if isinstance(gpu, Gpu):
            self._said(gpu, "UUID")
        return gpu.uuid.encode()

    def nvmlDeviceGetName(self, gpu: Gpu) -> str:  # noqa: N802
        return gpu.name

    def nvmlDeviceGetPciInfo(self, gpu: Gpu) -> Any:  # noqa: N802
        self._said(gpu, "PciInfo")
        return SimpleNamespace(busId=gpu.bus.encode())

    def nvmlDeviceGetMemoryInfo(self, gpu: Gpu | Instance) -> Any:  # noqa: N802
        if isinstance(gpu, Gpu):
            self._said(gpu, "MemoryInfo")
        return SimpleNamespace(total=gpu.total, used=gpu.used, free=gpu.total - gpu.used)

    def nvmlDeviceGetUtilizationRates(self, gpu: Gpu) -> Any:  # noqa: N802
        self._said(gpu, "UtilizationRates")
        return SimpleNamespace(gpu=gpu.percent, memory=0)

    def nvmlDeviceGetComputeMode(self, gpu: Gpu) -> int:  # noqa: N802
        self._said(gpu, "ComputeMode")
        return gpu.compute_mode

    def nvmlDeviceGetTotalEccErrors(self, gpu: Gpu, kind: int, counter: int) -> int:  # noqa: N802
        self._said(gpu, "TotalEccErrors")
        assert (kind, counter) == (self.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, self.NVML_VOLATILE_ECC)
        return gpu.uncorrected

    def nvmlDeviceGetRemappedRows(self, gpu: Gpu) -> tuple[int, int, int, int]:  # noqa: N802
        self._said(gpu, "RemappedRows")
        return gpu.rows

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: Gpu) -> list[Any]:  # noqa: N802
        self._said(gpu, "ComputeRunningProcesses")
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in gpu.compute]

    def nvmlDeviceGetGraphicsRunningProcesses(self, gpu: Gpu) -> list[Any]:  # noqa: N802
        self._said(gpu, "GraphicsRunningProcesses")
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in gpu.graphics]

    def nvmlDeviceGetProcessUtilization(self, gpu: Gpu, since_us: int) -> list[Any]:  # noqa: N802
        self._said(gpu, "ProcessUtilization")
        found = [
            SimpleNamespace(pid=pid, timeStamp=at_us, smUtil=sm, memUtil=memory)
            for pid, at_us, sm, memory in gpu.active
            if at_us > since_us
        ]
        if not found:
            raise NVMLError(self.NVML_ERROR_NOT_FOUND)
        return found

    def nvmlEventSetCreate(self) -> object:  # noqa: N802
        if not self.listens:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return object()

    def nvmlDeviceRegisterEvents(self, gpu: Gpu, kinds: int, events: object) -> None:  # noqa: N802
        assert kinds == self.nvmlEventTypeXidCriticalError
        self._said(gpu, "RegisterEvents")
        self.registered.append(gpu.uuid)

    def nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> Any:  # noqa: N802
        assert timeout_ms == 0
        if not self.events:
            raise NVMLError(self.NVML_ERROR_TIMEOUT)
        gpu, xid = self.events.popleft()
        return SimpleNamespace(device=gpu, eventData=xid)

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes) -> Gpu:  # noqa: N802
        for gpu in self.gpus:
            if gpu.uuid.encode() == uuid:
                self._said(gpu, "HandleByUUID")
                return gpu
        raise NVMLError(self.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetPowerManagementLimit(self, gpu: Gpu) -> int:  # noqa: N802
        self._said(gpu, "PowerManagementLimit")
        return gpu.power_mw

    def nvmlDeviceGetPowerManagementLimitConstraints(self, gpu: Gpu) -> list[int]:  # noqa: N802
        self._said(gpu, "PowerManagementLimitConstraints")
        return list(gpu.power_range_mw)

    def nvmlDeviceGetPowerUsage(self, gpu: Gpu) -> int:  # noqa: N802
        self._said(gpu, "PowerUsage")
        return gpu.draw_mw

    def nvmlDeviceGetMigMode(self, gpu: Gpu) -> list[int]:  # noqa: N802
        self._said(gpu, "MigMode")
        return [int(gpu.divided), int(gpu.divided)]

    def nvmlDeviceGetFieldValues(self, gpu: Gpu, fields: list[int | tuple[int, int]]) -> list[Any]:  # noqa: N802
        self._said(gpu, "FieldValues")
        links = gpu.linked_kib
        amounts = dict(zip((197, 198, 138, 139), (*gpu.moved, *(links or (0, 0))), strict=True))
        numbers = [field if isinstance(field, int) else field[0] for field in fields]
        assert all(field == (number, 0xFFFFFFFF) for field, number in zip(fields, numbers, strict=True) if number < 197)
        return [
            SimpleNamespace(
                nvmlReturn=self.NVML_ERROR_NOT_SUPPORTED
                if number < 197 and links is None
                else gpu.fails.get("FieldValue", self.NVML_SUCCESS),
                valueType=self.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
                value=SimpleNamespace(uiVal=0, ullVal=amounts[number]),
                timestamp=gpu.at_us,
            )
            for number in numbers
        ]

    def nvmlDeviceGetClockInfo(self, gpu: Gpu, clock: int) -> int:  # noqa: N802
        self._said(gpu, "ClockInfo")
        assert clock == self.NVML_CLOCK_SM
        return gpu.sm_clock_mhz

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: Gpu) -> int:  # noqa: N802
        self._said(gpu, "CurrentClocksEventReasons")
        return gpu.slowed

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: Gpu) -> int:  # noqa: N802
        self._said(gpu, "MaxMigDeviceCount")
        return len(gpu.instances)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: Gpu, place: int) -> Instance:  # noqa: N802
        found = gpu.instances[place]
        if found is None:
            raise NVMLError(self.NVML_ERROR_NOT_FOUND)
        return Instance(*found)

    def nvmlDeviceGetGpuInstanceId(self, instance: Instance) -> int:  # noqa: N802
        return instance.number

    def nvmlDeviceSetPowerManagementLimit(self, gpu: Gpu, limit_mw: int) -> None:  # noqa: N802
        self._said(gpu, "SetPowerManagementLimit")
        low, high = gpu.power_range_mw
        if not low <= limit_mw <= high:
            raise NVMLError(self.NVML_ERROR_INVALID_ARGUMENT)
        gpu.power_mw = limit_mw

    def nvmlDeviceSetGpuLockedClocks(self, gpu: Gpu, low_mhz: int, high_mhz: int) -> None:  # noqa: N802
        self._said(gpu, "SetGpuLockedClocks")
        gpu.clocks_mhz = (low_mhz, high_mhz)

    def nvmlDeviceResetGpuLockedClocks(self, gpu: Gpu) -> None:  # noqa: N802
        self._said(gpu, "ResetGpuLockedClocks")
        gpu.clocks_mhz = None
