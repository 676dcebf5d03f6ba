"""How long services and batch ran on the two threads of a core at once, counted by a program at the context switch.

Whether a scheduler keeps them apart must be seen by something else than that scheduler. The classes of groups are put
in; the counters are read as often as wanted.
Limits: as of bpf/smt.bpf.c.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

from cotenant.drivers.ebpf.digests import check_digest
from cotenant.drivers.ebpf.libbpf import LoadedObject, objects_folder
from cotenant.model.errors import InvalidInput
from cotenant.model.zones.setting import MAX_CPUS
from cotenant.model.zones.table import ZoneClass

SIBLINGS = struct.Struct(f"={MAX_CPUS}H")
CORE = struct.Struct("=QQQQIIII")  # struct core, padded
_KEY = struct.Struct("=Q")
_INDEX = struct.Struct("=I")


@dataclass(frozen=True, slots=True)
class SharedCores:
    """CPU time since the program was loaded, in ns, summed over cores. `service_ns`: a service ran on one thread of a
    core at least; `beside_ns`: batch ran on its other thread meanwhile; `batch_ns`: of batch, threads added up.
    """

    service_ns: int
    beside_ns: int
    batch_ns: int

    def since(self, before: SharedCores) -> SharedCores:
        """What came on top of an earlier reading."""
        return SharedCores(
            self.service_ns - before.service_ns, self.beside_ns - before.beside_ns, self.batch_ns - before.batch_ns
        )


class CoreSharing:
    """The loaded program; a context manager that unloads it. `siblings`: the other thread of each CPU's core. Raises
    `Unsupported` with what is missing.
    """

    def __init__(self, siblings: Mapping[int, int]) -> None:
        if any(not 0 <= cpu < MAX_CPUS for cpu in siblings):
            raise InvalidInput("siblings", max(siblings), f"CPUs below {MAX_CPUS}")
        self._lower = sorted({min(pair) for pair in siblings.items()})
        path = objects_folder() / "smt.bpf.o"
        check_digest(path)
        constants = SIBLINGS.pack(*(siblings.get(cpu, cpu) for cpu in range(MAX_CPUS)))
        self._loaded = LoadedObject(path, lambda loaded: loaded.set_variables(".rodata", constants))
        self._classes = self._loaded.table("smt_classes", _KEY.size, _INDEX.size)
        self._cores = self._loaded.table("smt_cores", _INDEX.size, CORE.size)

    def put(self, cgroup: int, zone_class: ZoneClass) -> None:
        """The class of a group (its id: the inode of its folder)."""
        self._classes.put(_KEY.pack(cgroup), _INDEX.pack(zone_class))

    def read(self) -> SharedCores:
        """The counters; of a core they end with its last switch."""
        service_ns = beside_ns = batch_ns = 0
        for cpu in self._lower:
            value = self._cores.get(_INDEX.pack(cpu)) or bytes(CORE.size)
            _, service, beside, batch, *_ = CORE.unpack(value)
            service_ns, beside_ns, batch_ns = service_ns + service, beside_ns + beside, batch_ns + batch
        return SharedCores(service_ns, beside_ns, batch_ns)

    def close(self) -> None:
        """Unload. Idempotent."""
        self._loaded.close()

    def __enter__(self) -> CoreSharing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
