"""The GPUs of this machine in each sample, read apart, so that a driver that hangs stops nothing but its own reading.

While it does not answer a sample has no GPUs and a gap that says so; the agent goes on with everything else, and reads
them again once the driver returns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cotenant.drivers.gpu.apart import PATIENCE_S, ReadApart
from cotenant.drivers.gpu.nvml import GpuReader
from cotenant.model.errors import Transient
from cotenant.model.machine.counters import Gap, GpuCounters, NodeSample

FIRST_S = 10.0  # that a driver may take to start: without persistence it initialises the cards


class LiveGpus:
    """The GPUs of a reader; `collect` and `gaps` make a drivers/cgroup/sensor.SampleCollector. Close it."""

    def __init__(self, reader: GpuReader, patience_s: float = PATIENCE_S) -> None:
        self._reader = reader
        self._apart = ReadApart(self._read, "the GPU driver", patience_s)
        self._gaps: tuple[Gap, ...] = ()

    def read(self, patience_s: float | None = None) -> tuple[GpuCounters, ...]:
        """All GPUs. Raises as the reader's `read`, and `Transient` where the driver has not answered yet."""
        found, self._gaps = self._apart.take(patience_s)
        return found

    @property
    def is_asked(self) -> bool:
        """Whether a reading is under way."""
        return self._apart.is_asked

    def collect(self, sample: NodeSample) -> NodeSample:
        """The sample with the GPUs. Raises as `read` does."""
        return replace(sample, gpus=self.read())

    def gaps(self) -> tuple[Gap, ...]:
        """As of the last reading."""
        return self._gaps

    def close(self) -> None:
        """Shut the driver's library down, where no call is stuck in it."""
        if not self._apart.is_asked:
            self._reader.close()

    def _read(self) -> tuple[tuple[GpuCounters, ...], tuple[Gap, ...]]:
        return self._reader.read(), self._reader.gaps()


def live_gpus(library: Any = None, first_s: float = FIRST_S) -> LiveGpus:
    """GPUs whose first reading succeeded, or is still under way after `first_s`. Raises as `GpuReader.read`, without
    retrying.
    """
    gpus = LiveGpus(GpuReader(library))
    try:
        gpus.read(first_s)
    except Transient:
        if not gpus.is_asked:
            gpus.close()
            raise
    except BaseException:
        gpus.close()
        raise
    return gpus
