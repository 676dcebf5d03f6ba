"""Limits of MPS clients as knobs: the share of a card's threads, and of its memory.

Both hold for clients that start from then on: NVIDIA changes nothing for one that runs. So they are for offline work
that is to be started beside a service, under a daemon of its own, since every client of the server gets them. A group
is `default` (servers to come), a server's process id, or, of threads, `all`: both at once, since a daemon keeps its
server for as long as it runs, and nobody knows which one the next client meets. Of memory a group has the device's
number or UUID behind a slash.
Limits: NVIDIA has no command to remove a limit of memory, so it is held only where one stood before, which is put back;
the daemon shows some limits above 1 GiB in whole GiB, rounded down, and what it shows is what is put back.

Source: as mps.py.
"""

from __future__ import annotations

import re

from cotenant.drivers.gpu.mps import MpsControl
from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import ALL_SERVERS, Knob, KnobScope, KnobTarget, Vanished
from cotenant.model.machine.knob_values import canonical

DEFAULT = "default"
_MEMORY = re.compile(r"(\d{1,12})\s*([MG])B?", re.ASCII | re.IGNORECASE)
_PERCENT = re.compile(r"(\d{1,3})(?:\.\d+)?", re.ASCII)


class MpsKnobs:
    """Implements engine/node/interfaces.KnobPort and KnobIdentity for `KnobScope.MPS`."""

    def __init__(self, control: MpsControl | None = None) -> None:
        self._control = control if control is not None else MpsControl()

    def supported(self, knob: Knob) -> Gap | None:
        """None where the daemon runs."""
        if knob.scope is not KnobScope.MPS:
            return Gap(str(knob), "a driver of its own")
        try:
            self._control.ask("get_server_list")
        except Unsupported as error:
            return Gap(str(knob), error.needs)
        except CotenantError:
            return None
        return None

    def read(self, target: KnobTarget) -> str:
        """What clients that start now get; of all servers, the most that one of them gives."""
        if target.group == ALL_SERVERS:
            return str(max(int(self.read(one)) for one in self._each(target)))
        said = self._ask(target, "get")
        if target.knob is Knob.MPS_THREADS:
            percent = _PERCENT.fullmatch(said)
            if percent is None:
                raise Permanent(f"{target}: the MPS control daemon said {said!r}")
            return percent.group(1)
        memory = _MEMORY.fullmatch(said)
        if memory is None or int(memory.group(1)) == 0:
            needs = f"a limit that stands already (the daemon says {said!r}): NVIDIA has no command to remove one"
            raise Unsupported(str(target), needs)
        return str(int(memory.group(1)) << (10 if memory.group(2).upper() == "G" else 0))

    def raw(self, target: KnobTarget) -> str:
        """The same; of all servers, what each has, as `default=100 4711=50`."""
        if target.group != ALL_SERVERS:
            return self.read(target)
        return " ".join(f"{one.group}={self.read(one)}" for one in self._each(target))

    def write(self, target: KnobTarget, value: str) -> None:
        """Set it for clients to come."""
        value = canonical(target.knob, value)
        if target.group == ALL_SERVERS:
            for one in self._each(target):
                self.write(one, value)
            return
        self._ask(target, "set", value if target.knob is Knob.MPS_THREADS else f"{value}M")

    def restore(self, target: KnobTarget, raw: str) -> None:
        """As `write`; of all servers, of each that still runs. One that came since gets what those to come had."""
        try:
            if target.group != ALL_SERVERS:
                self.write(target, raw)
                return
            before = {group: value for group, _, value in (part.partition("=") for part in raw.split())}
            for one in self._each(target):
                self.write(one, before.get(one.group, before.get(DEFAULT, "")))
        except InvalidInput as error:
            raise InvalidInput(f"raw value of {target}", raw, "what raw() returned for this knob") from error

    def identity(self, target: KnobTarget) -> str:
        """Of the daemon, and of the server. Raises `Vanished` where either is gone: what was set went with it."""
        server = _server(target)
        try:
            daemon = self._control.identity
            if server in (DEFAULT, ALL_SERVERS) or server in self._control.servers():
                return f"{daemon}/{server}"
        except Unsupported as error:
            raise Vanished(f"{target}: {error}") from error
        raise Vanished(f"{target}: no such MPS server")

    def _each(self, target: KnobTarget) -> list[KnobTarget]:
        """The same knob of servers to come, and of each server that runs. Raises `Unsupported` without a daemon."""
        return [KnobTarget(group, target.knob) for group in (DEFAULT, *self._control.servers())]

    def _ask(self, target: KnobTarget, verb: str, value: str = "") -> str:
        if target.knob.scope is not KnobScope.MPS:
            raise Unsupported(str(target.knob), "a driver of its own")
        server, _, device = target.group.partition("/")
        what = "active_thread_percentage" if target.knob is Knob.MPS_THREADS else "device_pinned_mem_limit"
        words = [f"{verb}_default_{what}"] if server == DEFAULT else [f"{verb}_{what}", server]
        if server != DEFAULT and server not in self._control.servers():
            raise Vanished(f"{target}: no such MPS server")
        return self._control.ask(" ".join([*words, *([device] if device else []), *([value] if value else [])]))


def _server(target: KnobTarget) -> str:
    return target.group.partition("/")[0]
