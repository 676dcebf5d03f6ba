"""What a replica suffers, one number a window: latency where something reports it, else its wait for a CPU, else
stalls.

A replica's latency is known to a trace process, to a file, or to nobody, and a ratio needs a number that doubles when
things are twice as bad. The p99 of an objective's replica from `cotenant traces`; the p99 that a service appends to a
file as lines of JSON; time per CPU time (1 + wait / use) of its group from schedstat; time over time not stalled from
PSI.
Limits: the trace process's figure is of four to six seconds, so its windows overlap unless they are as long; a group
that uses no CPU gives no signal.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import monotonic_ns
from typing import Protocol

import msgspec

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.schedstat import RunDelayReader
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.counters import GroupCounters

_MIN_CPU_US = 1000
NAN = float("nan")


class ProfiledSignal(Protocol):
    """One number since the last read."""

    name: str  # as the object's status has it
    objective: float | None
    settle_s: float
    window_s: float

    def read(self) -> float:
        """NaN where nothing was measured."""
        ...


class RunDelay:
    """Time per CPU time of a group's tasks."""

    name, settle_s, window_s = "runDelay", 0.5, 1.0
    objective: float | None = None

    def __init__(self, reader: CgroupReader, delays: RunDelayReader, group: str) -> None:
        self._reader, self._delays, self._group = reader, delays, group
        self._last: tuple[int, int] | None = None
        self.read()

    def read(self) -> float:
        """See `ProfiledSignal`."""
        used_us = _counters(self._reader, self._group).cpu_us
        waited_us = self._delays.read((self._group,), monotonic_ns() // 1000).get(self._group)
        before, self._last = self._last, None
        if used_us is None or waited_us is None:
            return NAN
        self._last = (used_us, waited_us)
        if before is None or used_us - before[0] < _MIN_CPU_US:
            return NAN
        return 1.0 + max(0, waited_us - before[1]) / (used_us - before[0])


class StallSignal:
    """Time over time without a CPU stall (PSI of the group)."""

    name, settle_s, window_s = "pressure", 0.5, 1.0
    objective: float | None = None

    def __init__(self, reader: CgroupReader, group: str) -> None:
        self._reader, self._group = reader, group
        self._last: tuple[int, int] | None = None
        self.read()

    def read(self) -> float:
        """See `ProfiledSignal`."""
        stall = _counters(self._reader, self._group).pressure.cpu
        before, self._last = self._last, None
        if stall is None:
            return NAN
        self._last = (monotonic_ns() // 1000, stall.some_us)
        if before is None or self._last[0] <= before[0]:
            return NAN
        share = (self._last[1] - before[1]) / (self._last[0] - before[0])
        return 1.0 / max(0.001, 1.0 - share)


class LatencyFile:
    """Lines of JSON with `p99_us`, as a service appends them; milliseconds, the median of the window's lines."""

    name, settle_s, window_s = "latency", 1.0, 1.0

    def __init__(self, path: Path, objective_ms: float | None) -> None:
        self.objective = objective_ms
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise InvalidInput("--latency-file", str(path), "a file that can be read", error.strerror or "") from None
        self._file.seek(0, 2)
        self._rest = b""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self) -> float:
        """See `ProfiledSignal`. Raises `InvalidInput` for a line that is no such JSON."""
        lines = (self._rest + self._file.read()).split(b"\n")
        self._rest = lines.pop()
        try:
            found = [float(msgspec.json.decode(line)["p99_us"]) / 1000.0 for line in lines if line.strip()]
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            raise InvalidInput("--latency-file", "a line", 'JSON with "p99_us"') from None
        return median(found) if found else NAN


class ReplicaReading(Protocol):
    """What is read of one replica."""

    @property
    def pod(self) -> str:
        """NAMESPACE/NAME."""
        ...

    @property
    def p99_ms(self) -> float | None:
        """None where no request was seen."""
        ...


class ObjectiveFigures(Protocol):
    """What is read of an objective."""

    @property
    def below_ms(self) -> float | None:
        """The latency that it asks for."""
        ...

    @property
    def replicas(self) -> Sequence[ReplicaReading]:
        """Each with its own figures."""
        ...

    @property
    def worst_replica(self) -> ReplicaReading | None:
        """Of those with requests."""
        ...


class AsksObjectives(Protocol):
    """A client of the trace process."""

    def objective(self, namespace: str, name: str) -> ObjectiveFigures:
        """One objective with its replicas, as of now."""
        ...


class ObjectiveSignal:
    """The p99 of one replica of a ServiceObjective, from the trace process; milliseconds."""

    name, settle_s, window_s = "latency", 9.0, 3.0

    def __init__(self, client: AsksObjectives, objective: str, pod: str) -> None:
        """`pod` as NAMESPACE/NAME; empty: the worst replica."""
        namespace, slash, name = objective.partition("/")
        if not (namespace and slash and name):
            raise InvalidInput("--objective", objective, "NAMESPACE/NAME")
        self._client, self._namespace, self._name, self._pod = client, namespace, name, pod
        self.objective = client.objective(namespace, name).below_ms

    def read(self) -> float:
        """See `ProfiledSignal`."""
        view = self._client.objective(self._namespace, self._name)
        if self._pod:
            row = next((replica for replica in view.replicas if replica.pod == self._pod), None)
        else:
            row = view.worst_replica
        return NAN if row is None or row.p99_ms is None else row.p99_ms


def _counters(reader: CgroupReader, group: str) -> GroupCounters:
    found = reader.read((group,))
    if not found:
        raise Permanent(f"/{group}: the replica's group is gone")
    return found[0]
