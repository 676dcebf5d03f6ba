"""NVIDIA GPUs through NVML: use, memory, processes, and health.

The library and its driver are missing on most machines, single queries are refused on some models, and a GPU that fell
off its bus must not affect the others. `pynvml` is imported at first use, or the library is given as an object with the
same functions; every query is made separately, and one that a model does not support is a gap; so is one that a card
answers with an error that nobody foresaw, for as long as it does. A GPU is unhealthy when it is lost, has uncorrected
memory errors since the driver started, waits for a reset to replace memory, or raised a critical error of its own; it
stays so until it is read by a new reader. It counts as unhealthy too while it does not tell its memory or its
processes, since it would look empty. Errors that a program causes do not count for that, but are counted by Xid as the
others. What each process does is told since the last reading; where a process has no sample it did nothing. A process
keeps its pod for some seconds, so that thousands on a card cost little.
Limits: of MIG instances memory only; utilisation is of the driver's last sampling period; of clients of MPS some
drivers show the server alone.

Source: NVML API reference; NVIDIA, "Xid errors" (which codes are an application's).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from cotenant.drivers.gpu.nvml_cards import started
from cotenant.drivers.gpu.nvml_moved import CardBytes
from cotenant.drivers.gpu.places import place_of, short_address
from cotenant.drivers.gpu.recorded_values import reasons
from cotenant.drivers.kubelet.pod_of_process import uid_of_pod
from cotenant.model.errors import Transient
from cotenant.model.machine.counters import COMPUTE_MODES, Gap, GpuCounters, GpuInstance, GpuPodUse, NodeSample

# Caused by programs: illegal access, stopped or preempted work, their own page faults and time-outs.
APPLICATION_XIDS = frozenset((13, 31, 43, 45, 68, 109))
_MAX_EVENTS = 64  # taken in one reading
_MAX_XIDS = 64  # different ones of a GPU that are counted
_PODS_READINGS = 10  # after which the pods of processes are looked up anew, and cards that could not be opened
_MEMORY, _PROCESSES = "memory", "compute processes"  # without which a card would look empty
_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class _Device:
    """A GPU between two readings."""

    index: int
    handle: Any
    uuid: str
    name: str
    memory_total_bytes: int = 0
    memory_used_bytes: int = 0
    divided: bool = False
    unhealthy: str = ""  # the cause; permanent
    bus: str = ""
    root: str = ""
    least_power_mw: int | None = None
    sampled_us: int = 0  # the driver's time of the newest sample of its processes
    moved: CardBytes = field(default_factory=CardBytes)
    xids: dict[int, int] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)  # query -> the error that it was answered with last

    @property
    def fault(self) -> str:
        """Why it is not healthy now; empty where it is."""
        lacking = next((what for what in (_MEMORY, _PROCESSES) if what in self.silent), "")
        return self.unhealthy or (f"its driver does not tell its {lacking}: {self.silent[lacking]}" if lacking else "")


class GpuReader:
    """Reads all GPUs; `collect` and `gaps` make a drivers/cgroup/sensor.SampleCollector. `library`: pynvml or a
    substitute; None = import it at first use.
    """

    def __init__(
        self,
        library: Any = None,
        pod_of: Callable[[int], str] = uid_of_pod,
        root_of: Callable[[str], str | None] = lambda bus: place_of(bus)[1],
    ) -> None:
        """`pod_of`: the UID of a process's pod, "" where it has none; `root_of`: the host bridge of a PCI address."""
        self._given = library
        self._pod_of = pod_of
        self._root_of = root_of
        self._nvml: Any = None
        self._devices: list[_Device] = []
        self._closed: dict[int, str] = {}  # cards that could not be opened, by number, with the error
        self._events: Any = None
        self._gaps: dict[str, Gap] = {}
        self._pods_of: dict[int, str] = {}
        self._readings = 0

    def read(self) -> tuple[GpuCounters, ...]:
        """All GPUs now. Raises `Unsupported` without library or driver, `Transient` where the driver does not
        answer for a moment.
        """
        if self._nvml is None:
            self._start()
        self._take_events()
        if self._readings % _PODS_READINGS == 0:
            self._pods_of.clear()
            self._open_others()
        self._readings += 1
        return tuple(self._counters(device) for device in self._devices)

    def collect(self, sample: NodeSample) -> NodeSample:
        """The sample with the GPUs. Raises as `read` does."""
        return replace(sample, gpus=self.read())

    def gaps(self) -> tuple[Gap, ...]:
        """Queries that single models did not support so far, or a card does not answer now, and unhealthy GPUs with the
        cause.
        """
        ill = [device for device in self._devices if device.fault]
        unhealthy = (Gap(f"GPU {device.index} in good health", device.fault) for device in ill)
        silent = (
            Gap(f"{what} of GPU {device.index}", f"an answer of its driver ({error})")
            for device in self._devices
            for what, error in device.silent.items()
        )
        closed = (Gap(f"GPU {index}", f"a driver that opens it ({error})") for index, error in self._closed.items())
        return (*self._gaps.values(), *unhealthy, *silent, *closed)

    def close(self) -> None:
        """Shut NVML down; a later reading starts it again."""
        if self._nvml is not None:
            nvml, self._nvml = self._nvml, None
            self._devices, self._closed, self._events = [], {}, None
            try:
                nvml.nvmlShutdown()
            except nvml.NVMLError as error:
                raise Transient(f"NVML does not shut down: {error}") from error

    def _start(self) -> None:
        self._nvml = nvml = started(self._given, "GPU counters", retry_after_s=30.0)
        try:
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            self.close()
            raise Transient(f"NVML does not list its GPUs: {error}", retry_after_s=30.0) from error
        self._devices, self._closed = [], dict.fromkeys(range(count), "")
        try:
            self._events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError as error:
            self._events = None
            self._has_no_events(error)
        self._open_others()
        if count and not self._devices:
            why = next(iter(self._closed.values()))
            self.close()
            raise Transient(f"NVML opens none of its {count} GPUs: {why}", retry_after_s=30.0)

    def _open_others(self) -> None:
        """The cards that were not opened so far: one that is lost, or is another's, keeps nobody from the others."""
        for index in tuple(self._closed):
            try:
                self._devices.append(self._found(index))
            except self._nvml.NVMLError as error:
                self._closed[index] = str(error)
                continue
            del self._closed[index]
            self._listen(self._devices[-1])
        self._devices.sort(key=lambda device: device.index)

    def _found(self, index: int) -> _Device:
        handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        uuid, name = self._nvml.nvmlDeviceGetUUID(handle), self._nvml.nvmlDeviceGetName(handle)
        device = _Device(index, handle, _text(uuid), _text(name))
        where = self._query(device, "PCI address", lambda: self._nvml.nvmlDeviceGetPciInfo(handle))
        device.bus = short_address(_text(where.busId)) if where is not None else ""
        device.root = self._root_of(device.bus) or ""
        bounds = self._query(
            device, "bounds of power", lambda: self._nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)
        )
        device.least_power_mw = None if bounds is None else int(bounds[0])
        return device

    def _listen(self, device: _Device) -> None:
        """Subscribe to critical errors; unsupported models are a gap."""
        nvml = self._nvml
        if self._events is None:
            return
        try:
            nvml.nvmlDeviceRegisterEvents(device.handle, nvml.nvmlEventTypeXidCriticalError, self._events)
        except nvml.NVMLError as error:
            self._has_no_events(error)

    def _has_no_events(self, error: Exception) -> None:
        self._gaps["xid"] = Gap("critical GPU errors", f"a driver that reports them ({error})")

    def _take_events(self) -> None:
        nvml = self._nvml
        if self._events is None:
            return
        by_uuid = {device.uuid: device for device in self._devices}
        for _ in range(_MAX_EVENTS):
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError as error:
                if error.value != nvml.NVML_ERROR_TIMEOUT:
                    self._has_no_events(error)
                return
            try:
                device = by_uuid.get(_text(nvml.nvmlDeviceGetUUID(event.device)))
            except nvml.NVMLError:
                continue  # of a card that fell off its bus, whose own queries say so; the next may be another's
            if device is None:
                continue
            xid = int(event.eventData)
            if xid in device.xids or len(device.xids) < _MAX_XIDS:
                device.xids[xid] = device.xids.get(xid, 0) + 1
            _log.warning("GPU %d (%s): Xid %d", device.index, device.uuid, xid)
            if xid not in APPLICATION_XIDS:
                device.unhealthy = device.unhealthy or f"Xid {xid}"

    def _counters(self, device: _Device) -> GpuCounters:
        nvml, handle = self._nvml, device.handle
        memory = self._query(device, _MEMORY, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        rates = self._query(device, "utilisation", lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        if memory is not None:
            device.memory_total_bytes, device.memory_used_bytes = int(memory.total), int(memory.used)
        self._check_health(device)
        processes = self._processes(device)
        divided = self._is_divided(device)
        return GpuCounters(
            index=device.index,
            uuid=device.uuid,
            name=device.name,
            healthy=not device.fault,
            utilisation_percent=None if rates is None else int(rates.gpu),
            memory_total_bytes=device.memory_total_bytes,
            memory_used_bytes=device.memory_used_bytes,
            processes=processes,
            bus=device.bus,
            compute_mode=self._compute_mode(device),
            pods=self._pods(device, processes),
            fault=device.fault,
            divided=divided,
            root=device.root,
            pcie_bps=self._query(device, "PCIe bytes", lambda: device.moved.pcie_bps(nvml, handle)),
            power_mw=self._query(device, "power draw", lambda: int(nvml.nvmlDeviceGetPowerUsage(handle))),
            least_power_mw=device.least_power_mw,
            nvlink_bps=device.moved.nvlink_bps(nvml, handle),
            sm_clock_mhz=self._query(
                device, "clocks", lambda: int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
            ),
            throttled_by=reasons(self._query(device, "throttle reasons", lambda: self._event_reasons(handle))),
            xids=tuple(sorted(device.xids.items())),
            instances=self._instances(device) if divided else (),
        )

    def _event_reasons(self, handle: Any) -> int:
        """Under its name since driver 535, or the one before."""
        ask = getattr(self._nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        return int((ask or self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(handle))

    def _instances(self, device: _Device) -> tuple[GpuInstance, ...]:
        """The MIG instances that there are; their numbers have holes."""
        nvml, found = self._nvml, []
        for place in range(self._query(device, "MIG instances", lambda: self._most_instances(device)) or 0):
            try:
                handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(device.handle, place)
                memory = nvml.nvmlDeviceGetMemoryInfo(handle)
                number, uuid = int(nvml.nvmlDeviceGetGpuInstanceId(handle)), _text(nvml.nvmlDeviceGetUUID(handle))
            except nvml.NVMLError as error:
                if error.value not in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_INVALID_ARGUMENT):
                    self._gaps["MIG"] = Gap("MIG instances of GPUs", f"a driver that reports them ({error})")
                continue
            found.append(GpuInstance(number, uuid, int(memory.total), int(memory.used)))
        return tuple(found)

    def _most_instances(self, device: _Device) -> int:
        return int(self._nvml.nvmlDeviceGetMaxMigDeviceCount(device.handle))

    def _is_divided(self, device: _Device) -> bool:
        """As far as it said last. A model without MIG does not know the query, which is no gap."""
        nvml = self._nvml
        with suppress(nvml.NVMLError):
            device.divided = bool(nvml.nvmlDeviceGetMigMode(device.handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE)
        return device.divided

    def _compute_mode(self, device: _Device) -> str:
        mode = self._query(device, "compute mode", lambda: self._nvml.nvmlDeviceGetComputeMode(device.handle))
        return "" if mode is None or not 0 <= mode < len(COMPUTE_MODES) else COMPUTE_MODES[mode]

    def _check_health(self, device: _Device) -> None:
        nvml, handle = self._nvml, device.handle
        if device.unhealthy:
            return
        errors = self._query(
            device,
            "uncorrected memory errors",
            lambda: nvml.nvmlDeviceGetTotalEccErrors(
                handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            ),
        )
        rows = self._query(device, "remapped rows", lambda: nvml.nvmlDeviceGetRemappedRows(handle))
        if errors:
            device.unhealthy = f"{errors} uncorrected memory errors since its driver started"
        elif rows is not None and (rows[2] or rows[3]):  # corrected, uncorrected, pending, failed
            device.unhealthy = (
                "memory that failed to be replaced" if rows[3] else "memory that waits for a reset to be replaced"
            )

    def _processes(self, device: _Device) -> tuple[tuple[int, int], ...]:
        nvml, handle = self._nvml, device.handle
        used: dict[int, int] = {}
        for what, ask in (
            (_PROCESSES, nvml.nvmlDeviceGetComputeRunningProcesses),
            ("graphics processes", nvml.nvmlDeviceGetGraphicsRunningProcesses),
        ):
            for process in self._query(device, what, partial(ask, handle)) or ():
                # A process that draws and computes is in both lists with the same amount.
                used[process.pid] = max(used.get(process.pid, 0), int(process.usedGpuMemory or 0))
        return tuple(sorted(used.items()))

    def _pods(self, device: _Device, processes: tuple[tuple[int, int], ...]) -> tuple[GpuPodUse, ...]:
        """The processes' use, summed by pod."""
        active = self._activity(device) if processes else {}
        found: dict[str, GpuPodUse] = {}
        for pid, used in processes:
            uid = self._pods_of.get(pid)
            if uid is None:
                uid = self._pods_of[pid] = self._pod_of(pid)
            before = found.get(uid, GpuPodUse(uid, 0, 0, 0))
            memory = before.memory_bytes + used
            if active is None or before.sm_percent is None or before.bandwidth_percent is None:
                found[uid] = GpuPodUse(uid, memory)
                continue
            sm, bandwidth = active.get(pid, (0, 0))
            found[uid] = GpuPodUse(
                uid, memory, min(100, before.sm_percent + sm), min(100, before.bandwidth_percent + bandwidth)
            )
        return tuple(sorted(found.values(), key=lambda use: use.uid))

    def _activity(self, device: _Device) -> dict[int, tuple[int, int]] | None:
        """What each process did since the last reading, percent of multiprocessors' and of memory's time; None where
        this model does not tell processes apart.
        """
        nvml = self._nvml

        def ask() -> list[Any]:
            try:
                return list(nvml.nvmlDeviceGetProcessUtilization(device.handle, device.sampled_us))
            except nvml.NVMLError as error:
                if error.value == nvml.NVML_ERROR_NOT_FOUND:
                    return []  # no sample since then
                raise

        samples = self._query(device, "use by process", ask)
        if samples is None:
            return None
        found: dict[int, tuple[int, int]] = {}
        for sample in samples:
            before = found.get(sample.pid, (0, 0))
            found[sample.pid] = max(before[0], int(sample.smUtil)), max(before[1], int(sample.memUtil))
            device.sampled_us = max(device.sampled_us, int(sample.timeStamp))
        return found

    def _query(self, device: _Device, what: str, ask: Callable[[], _Answer]) -> _Answer | None:
        """Make one query; None where this model does not support it, or this card does not answer. A lost GPU is
        unhealthy from then on.
        """
        nvml = self._nvml
        error_before = device.silent.pop(what, "")
        try:
            return ask()
        except nvml.NVMLError as error:
            match error.value:
                case nvml.NVML_ERROR_NOT_SUPPORTED | nvml.NVML_ERROR_FUNCTION_NOT_FOUND | nvml.NVML_ERROR_NO_PERMISSION:
                    self._gaps[what] = Gap(f"{what} of GPUs", f"a model and driver that report them ({error})")
                case nvml.NVML_ERROR_GPU_IS_LOST:
                    device.unhealthy = "lost: it does not answer any more"
                case nvml.NVML_ERROR_UNINITIALIZED:
                    self._nvml = None
                    raise Transient("NVML was shut down elsewhere in this process") from error
                case _:
                    device.silent[what] = str(error)
                    if device.silent[what] != error_before:
                        _log.warning("GPU %d (%s): %s: %s", device.index, device.uuid, what, error)
            return None


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
