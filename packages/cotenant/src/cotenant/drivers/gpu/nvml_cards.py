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

from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, KnobTarget, Vanished

NEEDS = "an NVIDIA GPU with its driver, and nvidia-ml-py"


def started(given: Any, what: str, retry_after_s: float = 1.0) -> Any:
    """NVML, started: `given`, or pynvml where that is None. `what`: what needs it. Raises `Unsupported` without library
    or driver, `Transient` where it does not start.
    """
    try:
        nvml = given if given is not None else importlib.import_module("pynvml")
    except ImportError as error:
        raise Unsupported(what, NEEDS) from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if error.value in (nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_DRIVER_NOT_LOADED):
            raise Unsupported(what, NEEDS) from error
        raise Transient(f"NVML does not start: {error}", retry_after_s=retry_after_s) from error
    return nvml


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
                self._nvml = started(self._given, "limits of GPUs")
            return self._nvml

    def lacking(self, knob: Knob) -> Gap | None:
        """What is missing for a knob of any card; a driver that does not start now is there."""
        try:
            self.library()
        except Unsupported as error:
            return Gap(str(knob), error.needs)
        except Transient:
            return None
        return None

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
