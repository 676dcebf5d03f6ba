"""NVML as the knobs of cards use it: started at first use, a card by its UUID, and its errors in our words.

Several cards are asked at the same time by threads of their own, so that the library is started once, whoever comes
first.

Source: NVML API reference, nvmlReturn_t.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from threading import Lock
from typing import Any

from cotenant.drivers.gpu.nvml import NEEDS
from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.machine.knob import KnobTarget, Vanished


class NvmlCards:
    """The library, and cards by UUID. `library`: pynvml or a substitute; None = import it at first use."""

    def __init__(self, library: Any = None) -> None:
        self._given = library
        self._nvml: Any = None
        self._starting = Lock()

    def close(self) -> None:
        """End the use of NVML; it is started again when needed."""
        if self._nvml is not None:
            nvml, self._nvml = self._nvml, None
            nvml.nvmlShutdown()

    def library(self) -> Any:
        """NVML. Raises `Unsupported` without library or driver, `Transient` where it does not start."""
        with self._starting:
            if self._nvml is None:
                self._nvml = self._started()
            return self._nvml

    def handle(self, target: KnobTarget) -> Any:
        """The card of a target. Raises as `error` says."""
        nvml = self.library()
        try:
            return nvml.nvmlDeviceGetHandleByUUID(target.group.encode())
        except nvml.NVMLError as error:
            raise self.error(target, "", error) from error

    def error(self, target: KnobTarget, value: str, error: Any, allowed: Callable[[], str] = lambda: "") -> Exception:
        """An error of NVML in our words. `allowed`: what is, where the value was not."""
        nvml = self.library()
        match error.value:
            case nvml.NVML_ERROR_NOT_FOUND | nvml.NVML_ERROR_GPU_IS_LOST:
                return Vanished(f"{target}: {error}")
            case nvml.NVML_ERROR_NOT_SUPPORTED | nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                return Unsupported(str(target), f"a card and driver with such a limit ({error})")
            case nvml.NVML_ERROR_NO_PERMISSION:
                return Permanent(
                    f"{target} may not be written: root with CAP_SYS_ADMIN sets limits of a card ({error})"
                )
            case nvml.NVML_ERROR_INVALID_ARGUMENT if allowed():
                return InvalidInput(str(target), value, allowed())
        return Transient(f"{target}: {error}")

    def _started(self) -> Any:
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
        return nvml
