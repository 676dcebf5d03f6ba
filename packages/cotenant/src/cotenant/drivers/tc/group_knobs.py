"""Rate, delay and loss of a group's network as knobs: of the network namespace that its processes are in.

They act on what leaves the namespace, on all of its devices, so on everything else in it too: the other containers of a
pod. A group in the host's own network has no such knobs. What a container receives is not limited.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from cotenant.drivers.tc.shaping import NamespaceShaping, TrafficShape
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import UNLIMITED, Knob, KnobScope, KnobTarget, Vanished
from cotenant.model.machine.knob_values import canonical, parse_rate


class Shaping(Protocol):
    """As `NamespaceShaping`."""

    def read(self, namespace: str) -> TrafficShape:
        """What stands."""
        ...

    def write(self, namespace: str, shape: TrafficShape) -> None:
        """Set it."""
        ...


class GroupNetworkKnobs:
    """Implements engine/node/interfaces.KnobPort for `KnobScope.NETWORK`. `process_of`: some process of a group, or
    None.

    `identity_of`: names the namespace of a process, whatever its number; 0 is this host's.
    """

    def __init__(
        self,
        process_of: Callable[[str], int | None],
        shaping: Shaping | None = None,
        identity_of: Callable[[int], str] | None = None,
    ) -> None:
        self._process_of = process_of
        self._shaping: Shaping = shaping if shaping is not None else NamespaceShaping()
        self._identity_of = identity_of if identity_of is not None else _namespace_of

    def supported(self, knob: Knob) -> Gap | None:
        """None: whether the kernel has a discipline shows when it is installed."""
        return None if knob.scope is KnobScope.NETWORK else Gap(str(knob), "a driver of its own")

    def read(self, target: KnobTarget) -> str:
        """The value that stands."""
        return _value(target.knob, self._shaping.read(self._namespace(target)))

    def raw(self, target: KnobTarget) -> str:
        """The same: nobody else's discipline is ever replaced."""
        return self.read(target)

    def write(self, target: KnobTarget, value: str) -> None:
        """Set one of the three, the others stay."""
        namespace = self._namespace(target)
        self._shaping.write(namespace, _with(target, value, self._shaping.read(namespace)))

    def restore(self, target: KnobTarget, raw: str) -> None:
        """As `write`."""
        self.write(target, raw)

    def identity(self, target: KnobTarget) -> str:
        """Of the network namespace."""
        return self._identity_of(self._process(target))

    def _process(self, target: KnobTarget) -> int:
        if target.knob.scope is not KnobScope.NETWORK:
            raise Unsupported(str(target.knob), "a driver of its own")
        pid = self._process_of(target.group)
        if pid is None:
            raise Vanished(f"/{target.group} has no process")
        return pid

    def _namespace(self, target: KnobTarget) -> str:
        pid = self._process(target)
        if self._identity_of(pid) == self._identity_of(0):
            raise Permanent(f"/{target.group} shares the host's network, which is not limited")
        return f"/proc/{pid}/ns/net"


def _namespace_of(pid: int) -> str:
    try:
        return str(os.stat(f"/proc/{pid or 'self'}/ns/net").st_ino)
    except OSError as error:
        raise Vanished(f"process {pid}: {error.strerror}") from error


def _value(knob: Knob, shape: TrafficShape) -> str:
    match knob:
        case Knob.NETWORK_RATE:
            return UNLIMITED if shape.rate_bits is None else str(shape.rate_bits)
        case Knob.NETWORK_DELAY:
            return str(shape.delay_us)
    return str(shape.loss_ppm)


def _with(target: KnobTarget, value: str, shape: TrafficShape) -> TrafficShape:
    if canonical(target.knob, value) != value:
        raise InvalidInput(str(target), value, "a value in canonical form")
    match target.knob:
        case Knob.NETWORK_RATE:
            return replace(shape, rate_bits=parse_rate(value))
        case Knob.NETWORK_DELAY:
            return replace(shape, delay_us=int(value))
    return replace(shape, loss_ppm=int(value))
