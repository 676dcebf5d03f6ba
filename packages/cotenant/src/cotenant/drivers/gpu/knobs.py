"""Power limit and clock lock of NVIDIA cards as knobs, through NVML; the port of all knobs of a card.

A limit of the power is a value that NVML tells, so it is put back exactly. A lock of clocks is not: NVML sets and
resets it, and tells nobody what stands. So what is locked is kept in a file of this boot, written before the lock and
removed after it, a restore removes the lock, and whoever names a card to the keeper says that nobody else locks its
clocks. A card that fell off its bus is gone. Time-slices and MIG instances have drivers of their own, behind the same
port.
Limits: a lock that another process sets or removes is not noticed; both limits end with the driver (`nvidia-smi -pm`
keeps it loaded) and at a reset of the card; MIG instances have no limits of their own.

Source: NVML API reference, nvmlDeviceSetPowerManagementLimit, nvmlDeviceSetGpuLockedClocks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cotenant.drivers.gpu.knobs_apart import CardPort
from cotenant.drivers.gpu.nvml_cards import NvmlCards
from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import UNLIMITED, Knob, KnobScope, KnobTarget
from cotenant.model.machine.knob_values import canonical, parse_clocks

LOCKS = Path("/run/cotenant/gpu-clocks")  # of this boot, as a lock is


class GpuKnobs:
    """Implements engine/node/interfaces.KnobPort and KnobIdentity for `KnobScope.GPU`. `library`: pynvml or a
    substitute; None = import it at first use. `locks`: folder with a file for each card with a lock. `slices`,
    `instances`: the ports of `Knob.GPU_TIMESLICE` and `Knob.GPU_MIG`, where there are any.
    """

    def __init__(
        self,
        library: Any = None,
        locks: Path = LOCKS,
        *,
        cards: NvmlCards | None = None,
        slices: CardPort | None = None,
        instances: CardPort | None = None,
    ) -> None:
        self._cards = cards if cards is not None else NvmlCards(library)
        self._locks = locks
        self._others = {
            knob: port for knob, port in ((Knob.GPU_TIMESLICE, slices), (Knob.GPU_MIG, instances)) if port is not None
        }

    def close(self) -> None:
        """End the use of NVML; it is started again when needed."""
        self._cards.close()

    def supported(self, knob: Knob) -> Gap | None:
        """Whether there are cards at all: a single one may still not have it."""
        if knob.scope is not KnobScope.GPU:
            return Gap(str(knob), "a driver of its own")
        if knob in self._others:
            return self._others[knob].supported(knob)
        return self._cards.lacking(knob)

    def read(self, target: KnobTarget) -> str:
        """The limit that stands; of clocks, what was locked here."""
        if target.knob in self._others:
            return self._others[target.knob].read(target)
        handle = self._handle(target)
        if target.knob is Knob.GPU_CLOCKS:
            return self._locked(target)
        nvml = self._cards.library()
        try:
            return str(int(nvml.nvmlDeviceGetPowerManagementLimit(handle)))
        except nvml.NVMLError as error:
            raise self._cards.error(target, "", error) from error

    def raw(self, target: KnobTarget) -> str:
        """The same; of MIG instances, where each is."""
        return self._others[target.knob].raw(target) if target.knob in self._others else self.read(target)

    def write(self, target: KnobTarget, value: str) -> None:
        """Set it. Raises `InvalidInput` for what the card does not allow, with what it does."""
        if target.knob in self._others:
            self._others[target.knob].write(target, value)
            return
        value = canonical(target.knob, value)
        nvml, handle = self._cards.library(), self._handle(target)
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
            raise self._cards.error(target, value, error, lambda: self._allowed(target)) from error

    def restore(self, target: KnobTarget, raw: str) -> None:
        """As `write`."""
        if target.knob in self._others:
            self._others[target.knob].restore(target, raw)
            return
        self.write(target, raw)

    def identity(self, target: KnobTarget) -> str:
        """The card's UUID, which no other has. Raises `Vanished`."""
        self._cards.handle(target)
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
        if target.knob not in (Knob.GPU_POWER, Knob.GPU_CLOCKS):
            raise Unsupported(str(target.knob), "a driver of its own")
        return self._cards.handle(target)

    def _allowed(self, target: KnobTarget) -> str:
        if target.knob is Knob.GPU_POWER:
            nvml = self._cards.library()
            try:
                handle = nvml.nvmlDeviceGetHandleByUUID(target.group.encode())
                low, high = nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)
            except nvml.NVMLError:
                return "a limit that the card allows"
            return f"{low} to {high} milliwatts, as the card allows"
        return "clocks that the card supports (nvidia-smi -q -d SUPPORTED_CLOCKS)"
