"""Power limit and clock lock of NVIDIA cards as knobs, through NVML.

A limit of the power is a value that NVML tells, so it is put back exactly. A lock of clocks is not: NVML sets and
resets it, and tells nobody what stands. So what is locked is kept in a file of this boot, written before the lock and
removed after it, a restore removes the lock, and whoever names a card to the keeper says that nobody else locks its
clocks. NVML is started at first use and asked for each card by its UUID; a card that fell off its bus is gone.
Limits: a lock that another process sets or removes is not noticed; both limits end with the driver (`nvidia-smi -pm`
keeps it loaded) and at a reset of the card; MIG instances have no limits of their own.

Source: NVML API reference, nvmlDeviceSetPowerManagementLimit, nvmlDeviceSetGpuLockedClocks.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from cotenant.drivers.gpu.nvml import NEEDS
from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import UNLIMITED, Knob, KnobScope, KnobTarget, Vanished
from cotenant.model.machine.knob_values import canonical, parse_clocks

LOCKS = Path("/run/cotenant/gpu-clocks")  # of this boot, as a lock is


class GpuKnobs:
    """Implements engine/node/interfaces.KnobPort and KnobIdentity for `KnobScope.GPU`. `library`: pynvml or a
    substitute; None = import it at first use. `locks`: folder with a file for each card with a lock.
    """

    def __init__(self, library: Any = None, locks: Path = LOCKS) -> None:
        self._given = library
        self._nvml: Any = None
        self._locks = locks

    def close(self) -> None:
        """End the use of NVML; it is started again when needed."""
        if self._nvml is not None:
            nvml, self._nvml = self._nvml, None
            nvml.nvmlShutdown()

    def supported(self, knob: Knob) -> Gap | None:
        """Whether there are cards at all: a single one may still not have it."""
        if knob.scope is not KnobScope.GPU:
            return Gap(str(knob), "a driver of its own")
        try:
            self._library()
        except Unsupported as error:
            return Gap(str(knob), error.needs)
        except Transient:
            return None
        return None

    def read(self, target: KnobTarget) -> str:
        """The limit that stands; of clocks, what was locked here."""
        handle = self._handle(target)
        if target.knob is Knob.GPU_CLOCKS:
            return self._locked(target)
        nvml = self._library()
        try:
            return str(int(nvml.nvmlDeviceGetPowerManagementLimit(handle)))
        except nvml.NVMLError as error:
            raise self._error(target, "", error) from error

    def raw(self, target: KnobTarget) -> str:
        """The same."""
        return self.read(target)

    def write(self, target: KnobTarget, value: str) -> None:
        """Set it. Raises `InvalidInput` for what the card does not allow, with what it does."""
        value = canonical(target.knob, value)
        nvml, handle = self._library(), self._handle(target)
        try:
            if target.knob is Knob.GPU_POWER:
                nvml.nvmlDeviceSetPowerManagementLimit(handle, int(value))
                return
            clocks = parse_clocks(value)
            if clocks is None:
                nvml.nvmlDeviceResetGpuLockedClocks(handle)
                self._note(target, "")
                return
            before = self._locked(target)
            self._note(target, value)
            try:
                nvml.nvmlDeviceSetGpuLockedClocks(handle, *clocks)
            except nvml.NVMLError:
                self._note(target, "" if before == UNLIMITED else before)
                raise
        except nvml.NVMLError as error:
            raise self._error(target, value, error) from error

    def restore(self, target: KnobTarget, raw: str) -> None:
        """As `write`."""
        self.write(target, raw)

    def identity(self, target: KnobTarget) -> str:
        """The card's UUID, which no other has. Raises `Vanished`."""
        self._handle(target)
        return target.group

    def _locked(self, target: KnobTarget) -> str:
        try:
            return canonical(Knob.GPU_CLOCKS, (self._locks / target.group).read_text(encoding="ascii"))
        except FileNotFoundError:
            return UNLIMITED
        except (OSError, ValueError, InvalidInput) as error:
            raise Permanent(f"{target}: {self._locks / target.group} cannot be read: {error}") from error

    def _note(self, target: KnobTarget, value: str) -> None:
        """Keep what is locked; "" for no lock."""
        file = self._locks / target.group
        try:
            if not value:
                file.unlink(missing_ok=True)
                return
            self._locks.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = file.with_suffix(".new")
            new.write_text(value, encoding="ascii")
            new.replace(file)
        except OSError as error:
            raise Transient(f"{target}: {file}: {error.strerror}") from error

    def _handle(self, target: KnobTarget) -> Any:
        if target.knob.scope is not KnobScope.GPU:
            raise Unsupported(str(target.knob), "a driver of its own")
        nvml = self._library()
        try:
            return nvml.nvmlDeviceGetHandleByUUID(target.group.encode())
        except nvml.NVMLError as error:
            raise self._error(target, "", error) from error

    def _library(self) -> Any:
        if self._nvml is not None:
            return self._nvml
        try:
            nvml = self._given if self._given is not None else importlib.import_module("pynvml")
        except ImportError as error:
            raise Unsupported("limits of GPUs", NEEDS) from error
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_DRIVER_NOT_LOADED):
                raise Unsupported("limits of GPUs", NEEDS) from error
            raise Transient(f"NVML does not start: {error}") from error
        self._nvml = nvml
        return nvml

    def _error(self, target: KnobTarget, value: str, error: Any) -> Exception:
        nvml = self._library()
        match error.value:
            case nvml.NVML_ERROR_NOT_FOUND | nvml.NVML_ERROR_GPU_IS_LOST:
                return Vanished(f"{target}: {error}")
            case nvml.NVML_ERROR_NOT_SUPPORTED | nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                return Unsupported(str(target), f"a card and driver with such a limit ({error})")
            case nvml.NVML_ERROR_NO_PERMISSION:
                return Permanent(
                    f"{target} may not be written: root with CAP_SYS_ADMIN sets limits of a card ({error})"
                )
            case nvml.NVML_ERROR_INVALID_ARGUMENT:
                return InvalidInput(str(target), value, self._allowed(target))
        return Transient(f"{target}: {error}")

    def _allowed(self, target: KnobTarget) -> str:
        if target.knob is Knob.GPU_POWER:
            nvml = self._library()
            try:
                handle = nvml.nvmlDeviceGetHandleByUUID(target.group.encode())
                low, high = nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)
            except nvml.NVMLError:
                return "a limit that the card allows"
            return f"{low} to {high} milliwatts, as the card allows"
        return "clocks that the card supports (nvidia-smi -q -d SUPPORTED_CLOCKS)"
