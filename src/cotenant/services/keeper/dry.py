"""A keeper that turns nothing: what `--dry-run` uses, and who wants to see what would be done.

Problem: "what would it do to my machine" must be answered by the same code that would do it. Choice: the same engine and the same rounds, over ports
that read the real knobs and lay what is written over them; the audit trail tells it as it would be. Limits: the kernel's own refusals and
roundings do not show, and the machine does not react.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.engine.node_ports import KnobIdentity, KnobPort
from cotenant.model.counters import Gap
from cotenant.model.knob import Knob, Lease, Target


class DryKnobs:
    """Meets `KnobPort` over another: reads go through until something was written."""

    def __init__(self, port: KnobPort) -> None:
        self._port = port
        self._laid: dict[Target, str] = {}

    def supported(self, knob: Knob) -> Gap | None:
        """As the machine has it."""
        return self._port.supported(knob)

    def read(self, target: Target) -> str:
        """What would stand."""
        stands = self._port.read(target)  # also where a value is laid over it: the group may be gone
        return self._laid.get(target, stands)

    def raw(self, target: Target) -> str:
        """As it really stands, or a mark of what would."""
        raw = self._port.raw(target)
        return f"would be {self._laid[target]}" if target in self._laid else raw

    def write(self, target: Target, value: str) -> None:
        """Lay the value over."""
        self._port.raw(target)
        self._laid[target] = value

    def restore(self, target: Target, raw: str) -> None:
        """Take it off."""
        self._laid.pop(target, None)

    def identity(self, target: Target) -> str:
        """As the port has it."""
        return self._port.identity(target) if isinstance(self._port, KnobIdentity) else ""


class NoMemory:
    """A state file's stand-in where nothing is turned: there is nothing to put back after a crash."""

    def keep(self, leases: Sequence[Lease], *, durable: bool) -> None:
        """Nothing."""

    def drop(self, targets: Sequence[Target]) -> None:
        """Nothing."""

    def settle(self) -> bool:
        """Always."""
        return True
