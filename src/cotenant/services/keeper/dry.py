"""A keeper that turns nothing: what `--dry-run` uses, and who wants to see what would be done.

Problem: "what would it do to my machine" must be answered by the same code that would do it. Choice: the same engine and the same rounds, over ports
that read the real knobs and lay what is written over them; the audit trail tells it as it would be. Limits: the kernel's own refusals and
roundings do not show, and the machine does not react. What was laid over a group ends with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cotenant.engine.node.ports import KnobIdentity, KnobPort
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, Lease, Target, Vanished


class DryKnobs:
    """Meets `KnobPort` over another: reads go through until something was written."""

    def __init__(self, port: KnobPort) -> None:
        self._port = port
        self._laid: dict[Target, tuple[str, str]] = {}  # with the identity of its group

    def supported(self, knob: Knob) -> Gap | None:
        """As the machine has it."""
        return self._port.supported(knob)

    def read(self, target: Target) -> str:
        """What would stand."""
        with self._while_there(target):
            stands = self._port.read(target)
        return self._laid[target][1] if target in self._laid else stands

    def raw(self, target: Target) -> str:
        """As it really stands, or a mark of what would."""
        with self._while_there(target):
            raw = self._port.raw(target)
        return f"would be {self._laid[target][1]}" if target in self._laid else raw

    def write(self, target: Target, value: str) -> None:
        """Lay the value over."""
        self._port.raw(target)
        self._laid[target] = (self.identity(target), value)

    def restore(self, target: Target, raw: str) -> None:
        """Take it off."""
        self._laid.pop(target, None)

    def identity(self, target: Target) -> str:
        """As the port has it."""
        with self._while_there(target):
            return self._identity(target)

    def _identity(self, target: Target) -> str:
        return self._port.identity(target) if isinstance(self._port, KnobIdentity) else ""

    @contextmanager
    def _while_there(self, target: Target) -> Iterator[None]:
        """Forget what was laid over a group that is gone, or was made anew."""
        try:
            if target in self._laid and self._laid[target][0] != self._identity(target):
                del self._laid[target]
            yield
        except Vanished:
            self._laid.pop(target, None)
            raise


class NoMemory:
    """A state file's stand-in where nothing is turned: there is nothing to put back after a crash."""

    def keep(self, leases: Sequence[Lease], *, durable: bool) -> None:
        """Nothing."""

    def drop(self, targets: Sequence[Target]) -> None:
        """Nothing."""

    def settle(self) -> bool:
        """Always."""
        return True
