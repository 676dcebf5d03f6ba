"""The ports of a dry-run keeper, which writes no knob.

"what would it do to my machine" must be answered by the same code that would do it. The same engine and the same
rounds, over ports that read the real knobs and overlay what is written; the audit trail records what would happen.
Limits: the kernel's own refusals and rounding do not show, and the machine does not react. An overlaid value ends with
its group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cotenant.engine.node.interfaces import KnobIdentity, KnobPort
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, KnobLease, KnobTarget, Vanished


class DryRunKnobs:
    """A `KnobPort` over another: reads go through until something was written."""

    def __init__(self, port: KnobPort) -> None:
        self._port = port
        self._overlay: dict[KnobTarget, tuple[str, str]] = {}  # with the identity of its group

    def supported(self, knob: Knob) -> Gap | None:
        """As the wrapped port."""
        return self._port.supported(knob)

    def read(self, target: KnobTarget) -> str:
        """The value that would be set."""
        with self._existing(target):
            value = self._port.read(target)
        return self._overlay[target][1] if target in self._overlay else value

    def raw(self, target: KnobTarget) -> str:
        """The real raw value, or a placeholder for the overlaid one."""
        with self._existing(target):
            raw = self._port.raw(target)
        return f"would be {self._overlay[target][1]}" if target in self._overlay else raw

    def write(self, target: KnobTarget, value: str) -> None:
        """Overlay the value."""
        self._port.raw(target)
        self._overlay[target] = (self.identity(target), value)

    def restore(self, target: KnobTarget, raw: str) -> None:
        """Remove the overlay."""
        self._overlay.pop(target, None)

    def identity(self, target: KnobTarget) -> str:
        """As the wrapped port."""
        with self._existing(target):
            return self._identity(target)

    def _identity(self, target: KnobTarget) -> str:
        return self._port.identity(target) if isinstance(self._port, KnobIdentity) else ""

    @contextmanager
    def _existing(self, target: KnobTarget) -> Iterator[None]:
        """Drop the overlay of a group that is gone or was recreated."""
        try:
            if target in self._overlay and self._overlay[target][0] != self._identity(target):
                del self._overlay[target]
            yield
        except Vanished:
            self._overlay.pop(target, None)
            raise


class NoStateFile:
    """The lease store of a dry run: nothing is written, so nothing has to be restored after a crash."""

    def keep(self, leases: Sequence[KnobLease], *, durable: bool) -> None:
        """Does nothing."""

    def drop(self, targets: Sequence[KnobTarget]) -> None:
        """Does nothing."""

    def flush(self) -> bool:
        """Always True."""
        return True
