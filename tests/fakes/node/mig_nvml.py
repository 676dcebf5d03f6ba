"""NVML's functions of MIG over a card as a test has it, after the API reference: profiles, places, and what is refused.

The card has eight places of memory and seven of multiprocessors, as A100 and H100 have: an instance lies at the first
of its profile's places that is free. Handles are numbers that end with what they name.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tests.fakes.node.fake_nvml import FakeNvml, Gpu, Instance, NVMLError

# id, slices of multiprocessors, places of memory, where it may lie
PROFILES: dict[int, tuple[str, int, int, int, tuple[int, ...]]] = {
    0: ("1g.10gb", 19, 1, 1, (0, 1, 2, 3, 4, 5, 6)),
    1: ("2g.20gb", 14, 2, 2, (0, 2, 4)),
    2: ("3g.40gb", 9, 3, 4, (0, 4)),
    3: ("4g.40gb", 5, 4, 4, (0,)),
    4: ("7g.80gb", 0, 7, 8, (0,)),
    7: ("1g.10gb+me", 20, 1, 1, (0, 1, 2, 3, 4, 5, 6)),
}
_BY_ID = {profile[1]: profile for profile in PROFILES.values()}
_COMPUTES = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}  # slices: NVML's number of the profile, which is its id here


@dataclass
class Made:
    """A GPU instance, with the slices of its compute instances."""

    number: int
    profile: int
    start: int
    computes: dict[int, int] = field(default_factory=dict)  # handle, slices

    @property
    def size(self) -> int:
        return _BY_ID[self.profile][3]


class _Placement(ctypes.Structure):
    _fields_ = (("start", ctypes.c_uint), ("size", ctypes.c_uint))


class MigNvml(FakeNvml):
    NVML_ERROR_INSUFFICIENT_SIZE = 7
    NVML_ERROR_RESET_REQUIRED = 16
    NVML_ERROR_IN_USE = 19
    NVML_ERROR_INSUFFICIENT_RESOURCES = 23
    NVML_GPU_INSTANCE_PROFILE_COUNT = 18
    NVML_COMPUTE_INSTANCE_PROFILE_COUNT = 9
    NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED = 0
    c_nvmlGpuInstance_t = ctypes.c_void_p  # noqa: N815
    c_nvmlComputeInstance_t = ctypes.c_void_p  # noqa: N815
    c_nvmlGpuInstancePlacement_t = _Placement  # noqa: N815

    def __init__(self, *gpus: Gpu, pending: int | None = None) -> None:
        super().__init__(*gpus)
        self.pending = pending
        self.made: dict[str, list[Made]] = {gpu.uuid: [] for gpu in gpus}
        self.on: dict[int, list[int]] = {}  # pids, by GPU instance
        self.before_destroying: Callable[[], None] = lambda: None
        self._next = 100

    # What a test looks at

    def layout(self, uuid: str) -> list[tuple[str, int]]:
        """Names and places."""
        return sorted(((_BY_ID[one.profile][0], one.start) for one in self.made[uuid]), key=lambda one: one[1])

    def divide(self, gpu: Gpu, *names: str) -> None:
        """Instances of these profiles, each with one compute instance."""
        self.running += 1
        for name in names:
            profile = next(one for one in PROFILES.values() if one[0] == name)
            handle = self._create(gpu, profile[1], None)
            self.nvmlGpuInstanceCreateComputeInstance(handle, _COMPUTES[profile[2]])
        self.running -= 1

    # NVML

    def nvmlDeviceGetMigMode(self, gpu: Gpu) -> list[int]:  # noqa: N802
        now, pending = super().nvmlDeviceGetMigMode(gpu)
        return [now, pending if self.pending is None else self.pending]

    def nvmlDeviceGetMinorNumber(self, gpu: Gpu) -> int:  # noqa: N802
        self._said(gpu, "MinorNumber")
        return self.gpus.index(gpu)

    def nvmlDeviceGetGpuInstanceProfileInfo(self, gpu: Gpu, profile: int, version: int = 2) -> Any:  # noqa: N802
        self._said(gpu, "GpuInstanceProfileInfo")
        if profile not in PROFILES:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        name, number, slices, _, places = PROFILES[profile]
        return SimpleNamespace(id=number, sliceCount=slices, instanceCount=len(places), name=f"MIG {name}".encode())

    def nvmlDeviceGetGpuInstances(self, gpu: Gpu, profile: int, found: Any, count: Any) -> int:  # noqa: N802
        self._said(gpu, "GpuInstances")
        handles = [self._handle(gpu, one) for one in self.made[gpu.uuid] if one.profile == profile]
        count._obj.value = len(handles)
        for place, handle in enumerate(handles):
            found[place] = handle
        return 0

    def nvmlDeviceGetGpuInstanceById(self, gpu: Gpu, number: int) -> int:  # noqa: N802
        for one in self.made[gpu.uuid]:
            if one.number == number:
                return self._handle(gpu, one)
        raise NVMLError(self.NVML_ERROR_NOT_FOUND)

    def nvmlGpuInstanceGetInfo(self, handle: int) -> Any:  # noqa: N802
        _, one = self._of(handle)
        placement = SimpleNamespace(start=one.start, size=one.size)
        return SimpleNamespace(id=one.number, profileId=one.profile, placement=placement)

    def nvmlDeviceCreateGpuInstance(self, gpu: Gpu, profile: int) -> int:  # noqa: N802
        return self._create(gpu, profile, None)

    def nvmlDeviceCreateGpuInstanceWithPlacement(self, gpu: Gpu, profile: int, placement: Any) -> int:  # noqa: N802
        assert placement._obj.size == _BY_ID[profile][3]
        return self._create(gpu, profile, int(placement._obj.start))

    def nvmlGpuInstanceDestroy(self, handle: int) -> int:  # noqa: N802
        gpu, one = self._of(handle)
        self._said(gpu, "GpuInstanceDestroy")
        if one.computes:
            raise NVMLError(self.NVML_ERROR_IN_USE)
        self.made[gpu.uuid].remove(one)
        self._show(gpu)
        return 0

    def nvmlGpuInstanceGetComputeInstanceProfileInfo(self, handle: int, place: int, engine: int) -> Any:  # noqa: N802
        assert engine == 0
        _, one = self._of(handle)
        most = _BY_ID[one.profile][2]
        for slices, number in _COMPUTES.items():
            if number == place and slices <= most:
                return SimpleNamespace(id=number, sliceCount=slices, instanceCount=most // slices)
        raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)

    def nvmlGpuInstanceGetComputeInstances(self, handle: int, profile: int, found: Any, count: Any) -> int:  # noqa: N802
        _, one = self._of(handle)
        handles = [part for part, slices in one.computes.items() if _COMPUTES[slices] == profile]
        count._obj.value = len(handles)
        for place, part in enumerate(handles):
            found[place] = part
        return 0

    def nvmlGpuInstanceCreateComputeInstance(self, handle: int, profile: int) -> int:  # noqa: N802
        gpu, one = self._of(handle)
        self._said(gpu, "ComputeInstance")
        slices = next(slices for slices, number in _COMPUTES.items() if number == profile)
        if sum(one.computes.values()) + slices > _BY_ID[one.profile][2]:
            raise NVMLError(self.NVML_ERROR_INSUFFICIENT_RESOURCES)
        self._next += 1
        one.computes[self._next] = slices
        self._show(gpu)
        return self._next

    def nvmlComputeInstanceGetInfo_v2(self, part: int) -> Any:  # noqa: N802
        for ones in self.made.values():
            for one in ones:
                if part in one.computes:
                    start = list(one.computes).index(part)
                    placement = SimpleNamespace(start=start, size=one.computes[part])
                    return SimpleNamespace(profileId=_COMPUTES[one.computes[part]], placement=placement)
        raise NVMLError(self.NVML_ERROR_NOT_FOUND)

    def nvmlComputeInstanceDestroy(self, part: int) -> int:  # noqa: N802
        self.before_destroying()
        for gpu in self.gpus:
            for one in self.made[gpu.uuid]:
                if part in one.computes:
                    if self.on.get(one.number):
                        raise NVMLError(self.NVML_ERROR_IN_USE)
                    del one.computes[part]
                    self._show(gpu)
                    return 0
        raise NVMLError(self.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: Gpu | Instance) -> list[Any]:  # noqa: N802
        if isinstance(gpu, Instance):
            return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in self.on.get(gpu.number, ())]
        return super().nvmlDeviceGetComputeRunningProcesses(gpu)

    def _create(self, gpu: Gpu, profile: int, start: int | None) -> int:
        self._said(gpu, "CreateGpuInstance")
        _, _, _, size, places = _BY_ID[profile]
        taken = {place for one in self.made[gpu.uuid] for place in range(one.start, one.start + one.size)}
        slices = sum(_BY_ID[one.profile][2] for one in self.made[gpu.uuid])
        for place in places if start is None else (start,):
            if not taken & set(range(place, place + size)) and slices + _BY_ID[profile][2] <= 7:
                numbers = {one.number for one in self.made[gpu.uuid]}
                one = Made(next(number for number in range(1, 99) if number not in numbers), profile, place)
                self.made[gpu.uuid].append(one)
                self._show(gpu)
                return self._handle(gpu, one)
        raise NVMLError(self.NVML_ERROR_INSUFFICIENT_RESOURCES)

    def _handle(self, gpu: Gpu, one: Made) -> int:
        return (self.gpus.index(gpu) + 1) * 1000 + one.number

    def _of(self, handle: int) -> tuple[Gpu, Made]:
        gpu = self.gpus[handle // 1000 - 1]
        for one in self.made[gpu.uuid]:
            if one.number == handle % 1000:
                return gpu, one
        raise NVMLError(self.NVML_ERROR_INVALID_ARGUMENT)

    def _show(self, gpu: Gpu) -> None:
        """MIG devices are compute instances; here each has the UUID of its place."""
        gpu.instances = [None] * 7
        for place, one in enumerate(one for one in self.made[gpu.uuid] if one.computes):
            gpu.instances[place] = (one.number, f"MIG-{gpu.uuid}-at-{one.start}", 10 << 30, 0)
