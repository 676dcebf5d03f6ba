"""The MIG instances of a card as NVML has them: which there are and where, and making and destroying them.

A GPU instance is a part of the memory and of the multiprocessors at a place; programs run in its compute instances. An
instance that is made here gets one compute instance, of all of it; one that is made again gets those that it had.
Handles are asked for anew each time, since they end with what they name.
Limits: of the engines of compute instances those that are shared only, which are all that there are.

Source: NVML API reference, "Multi Instance GPU Management".
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A GPU instance. `computes`: profiles of its compute instances, in the order of their places. `uuids`: of its
    devices.
    """

    number: int
    profile: int
    name: str
    start: int
    size: int
    computes: tuple[int, ...]
    minor: int = -1  # of the card's device file, by which some plugins name it; -1: not known
    uuids: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()

    @property
    def is_of(self) -> tuple[int, int, tuple[int, ...]]:
        """What makes one like another: profile, place and compute instances."""
        return self.profile, self.start, self.computes


class Wanted(msgspec.Struct, frozen=True, array_like=True):
    """An instance to be made. `start` None: where there is room; `computes` (): one, of all of it."""

    profile: int
    start: int | None = None
    size: int = 0
    computes: tuple[int, ...] = ()

    @classmethod
    def like(cls, one: MigInstance) -> Wanted:
        """The same instance."""
        return cls(one.profile, one.start, one.size, one.computes)


class MigLayout:
    """The instances of one card in MIG mode. Methods raise `NVMLError`."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._passed = (
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_INVALID_ARGUMENT,
            nvml.NVML_ERROR_NOT_FOUND,
        )

    def profiles(self) -> dict[str, tuple[int, int]]:
        """Profiles of the card by name: number, and how many instances it may have."""
        found = {}
        for place in range(self._nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            info = self._asked(lambda place=place: self._nvml.nvmlDeviceGetGpuInstanceProfileInfo(self._handle, place))  # type: ignore[misc]
            if info is None:
                continue
            name = info.name.decode("ascii", "replace") if isinstance(info.name, bytes) else str(info.name)
            found[name.removeprefix("MIG ").strip()] = int(info.id), int(info.instanceCount)
        return found

    def instances(self) -> tuple[MigInstance, ...]:
        """All, by number."""
        devices, minor = self._devices(), self._asked(lambda: self._nvml.nvmlDeviceGetMinorNumber(self._handle))
        found = []
        for name, (profile, most) in self.profiles().items():
            for gpu_instance in self._listed(
                self._nvml.nvmlDeviceGetGpuInstances, self._handle, profile, most, self._nvml.c_nvmlGpuInstance_t
            ):
                info = self._nvml.nvmlGpuInstanceGetInfo(gpu_instance)
                number = int(info.id)
                parts = sorted(
                    (int(part.placement.start), int(part.profileId))
                    for part in map(self._nvml.nvmlComputeInstanceGetInfo_v2, self._computes(gpu_instance))
                )
                uuids, pids = devices.get(number, ((), ()))
                found.append(
                    MigInstance(
                        number,
                        profile,
                        name,
                        int(info.placement.start),
                        int(info.placement.size),
                        tuple(one for _, one in parts),
                        -1 if minor is None else int(minor),
                        uuids,
                        pids,
                    )
                )
        return tuple(sorted(found, key=lambda one: one.number))

    def destroy(self, one: MigInstance) -> None:
        """Destroy it with its compute instances; NVML refuses while a program runs in it."""
        gpu_instance = self._nvml.nvmlDeviceGetGpuInstanceById(self._handle, one.number)
        for part in self._computes(gpu_instance):
            self._nvml.nvmlComputeInstanceDestroy(part)
        self._nvml.nvmlGpuInstanceDestroy(gpu_instance)

    def create(self, wanted: Wanted) -> int:
        """Make it; its number. One without its compute instances is not left behind."""
        nvml = self._nvml
        if wanted.start is None:
            made = nvml.nvmlDeviceCreateGpuInstance(self._handle, wanted.profile)
        else:
            place = nvml.c_nvmlGpuInstancePlacement_t(wanted.start, wanted.size)
            made = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(self._handle, wanted.profile, ctypes.byref(place))
        try:
            for profile in wanted.computes or (self._whole(made),):
                nvml.nvmlGpuInstanceCreateComputeInstance(made, profile)
            return int(nvml.nvmlGpuInstanceGetInfo(made).id)
        except nvml.NVMLError:
            for part in self._computes(made):
                nvml.nvmlComputeInstanceDestroy(part)
            nvml.nvmlGpuInstanceDestroy(made)
            raise

    def _whole(self, gpu_instance: Any) -> int:
        """The profile of a compute instance that is all of a GPU instance."""
        known = self._compute_profiles(gpu_instance)
        return max(known, key=lambda profile: known[profile][1])

    def _compute_profiles(self, gpu_instance: Any) -> dict[int, tuple[int, int]]:
        """Profiles of compute instances: how many there may be, and how many slices each has."""
        nvml, found = self._nvml, {}
        for place in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            info = self._asked(
                lambda place=place: nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(  # type: ignore[misc]
                    gpu_instance, place, nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
                )
            )
            if info is not None:
                found[int(info.id)] = int(info.instanceCount), int(info.sliceCount)
        return found

    def _computes(self, gpu_instance: Any) -> list[Any]:
        nvml = self._nvml
        return [
            part
            for profile, (most, _) in self._compute_profiles(gpu_instance).items()
            for part in self._listed(
                nvml.nvmlGpuInstanceGetComputeInstances, gpu_instance, profile, most, nvml.c_nvmlComputeInstance_t
            )
        ]

    def _devices(self) -> dict[int, tuple[tuple[str, ...], tuple[int, ...]]]:
        """UUIDs of devices, and the programs on them, by GPU instance."""
        nvml, found = self._nvml, dict[int, tuple[tuple[str, ...], tuple[int, ...]]]()
        for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(self._handle)):
            device = self._asked(
                lambda place=place: nvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle, place)  # type: ignore[misc]
            )
            if device is None:
                continue
            number, uuid = int(nvml.nvmlDeviceGetGpuInstanceId(device)), nvml.nvmlDeviceGetUUID(device)
            text = uuid.decode("ascii", "replace") if isinstance(uuid, bytes) else str(uuid)
            running = self._asked(lambda device=device: nvml.nvmlDeviceGetComputeRunningProcesses(device)) or ()  # type: ignore[misc]
            uuids, pids = found.get(number, ((), ()))
            found[number] = (*uuids, text), (*pids, *(int(one.pid) for one in running))
        return found

    def _listed(self, ask: Callable[..., Any], of: Any, profile: int, most: int, kind: Any) -> list[Any]:
        if most == 0:
            return []
        handles, count = (kind * most)(), ctypes.c_uint(most)
        ask(of, profile, handles, ctypes.byref(count))
        return [handles[place] for place in range(min(count.value, most))]

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """None for what this card does not have."""
        try:
            return ask()
        except self._nvml.NVMLError as error:
            if error.value in self._passed:
                return None
            raise
