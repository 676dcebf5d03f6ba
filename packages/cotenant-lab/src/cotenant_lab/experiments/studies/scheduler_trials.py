"""Our eBPF objects and schedulers on the kernel that runs: run inside a guest, one JSON object on standard output.

Whether an object loads is the kernel's verifier's to say, and whether a scheduler does what its page says is seen by
running it. Each object is loaded; each scheduler, for the machine and for one cgroup, is attached and has three cases.
*Claim*: what it is for, as one figure. *Bound*: services, batch and unlisted tasks that never sleep, more than there
are CPUs; how long each kind waited for a CPU at most. *Ejected*: the same without its bound; the kernel's watchdog must
end it, and the fair class, or the parent, then runs who starved. Names of schedulers as arguments: only these.
Limits: two CPUs, of one core (site/kernel_guest.py); one run a case; under `exclusive` one CPU is the services'.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.ebpf import sched_ext
from cotenant.drivers.ebpf.runqueue import RunQueue
from cotenant.drivers.ebpf.smt import CoreSharing
from cotenant.drivers.ebpf.stalls import StallTracer
from cotenant.drivers.ebpf.sub_scheduler import SubSchedulers
from cotenant.drivers.ebpf.zone_scheduler import ZoneSchedulers
from cotenant.drivers.proc.topology import read_topology
from cotenant.model.errors import CotenantError, Permanent
from cotenant.model.zones.apart import ApartRule
from cotenant.model.zones.setting import ZoneMode
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.policy.zone.apart import apart_table
from cotenant_lab.experiments.site.task_group import TaskGroup, end, preempted

TREE = Path("/sys/fs/cgroup")
ROOT, SUB = "root", "sub"
CLAIM, BOUND, EJECTED = "claim", "bound", "ejected"
CPUS, OWN = (0, 1), 1  # OWN: of services under `exclusive`
SETTLE_S, CLAIM_S, BOUND_S = 0.2, 0.8, 2.5
WITHIN_S = 20.0
NEVER_MS = 60_000
_WAITED = re.compile(r"failed to run for ([0-9.]+)s")
FIGURES = {
    ZoneMode.LATENCY: "wake-up delay of a service, median ms",
    ZoneMode.THROUGHPUT: "turn of batch, ms",
    ZoneMode.WEIGHTED: "CPU time at weights 900 : 100",
    ZoneMode.EXCLUSIVE: "looks at batch on the services' CPU",
    ZoneMode.SIBLINGS: "time of services beside batch",
    ZoneMode.APART: "time beside the other party",
}


@dataclass(frozen=True, slots=True)
class TrialGroups:
    """Of one scheduler. `other`: without a row; the scheduler's own tree ends at their parent."""

    service: TaskGroup
    batch: TaskGroup
    other: TaskGroup


def measure(modes: Sequence[ZoneMode]) -> dict[str, object]:
    """All that was tried: "" in place of a reason where something loaded."""
    (TREE / "cgroup.subtree_control").write_text("+cpu")
    return {
        "probes": {name: _refused(load) for name, load in PROBES.items()},
        "schedulers": [_trial(back_end, mode) for back_end in (ROOT, SUB) for mode in modes],
    }


def _refused(load: Callable[[], object]) -> str:
    try:
        load()
    except CotenantError as error:
        return str(error)
    return ""


def _load_stalls() -> None:
    with StallTracer(str(TREE), 2, long_us=50_000) as probe:
        probe.read()


def _load_run_queue() -> None:
    with RunQueue(str(TREE), 2) as probe:
        probe.read()


def _load_smt() -> None:
    with CoreSharing({0: 1, 1: 0}) as probe:
        probe.read()


PROBES: dict[str, Callable[[], None]] = {"runqueue": _load_run_queue, "stalls": _load_stalls, "smt": _load_smt}


def _trial(back_end: str, mode: ZoneMode) -> dict[str, object]:
    """One scheduler: why it is refused, else its cases."""
    told: dict[str, object] = {"scheduler": mode.value, "back_end": back_end, "refused": ""}
    home = TREE if back_end == ROOT else TREE / f"zone-{mode.value}"
    home.mkdir(exist_ok=True)
    (home / "cgroup.subtree_control").write_text("+cpu")
    groups = TrialGroups(*(TaskGroup(home / name, set(CPUS)) for name in ("service", "batch", "other")))
    try:
        with _loaded(back_end, mode, home, 1000) as zone:
            _put(zone, groups)
            zone.attach(mode)
            told[CLAIM] = CLAIMS[mode](zone, groups)
            told[BOUND] = _longest_waits(groups)
            if not zone.verify():
                raise Permanent(f"{mode.value} ended: {zone.maps.last_exit()}")
            zone.remove()
        with _loaded(back_end, mode, home, NEVER_MS) as zone:
            _put(zone, groups)
            zone.attach(mode)
            told[EJECTED] = _ejected(zone, groups)
            zone.remove()
    except CotenantError as error:
        told["refused"] = str(error)
    return told


def _loaded(back_end: str, mode: ZoneMode, home: Path, starved_ms: int) -> ZoneSchedulers:
    rules = apart_table([ApartRule(("one", "other"))], read_topology(), {})
    if back_end == ROOT:
        return ZoneSchedulers(
            "trial", [mode], starved_ms=starved_ms, own_cpus=(OWN,), siblings={0: 1, 1: 0}, apart=rules
        )
    number = home.stat().st_ino
    return SubSchedulers(
        "trial", number, [mode], starved_ms=starved_ms, own_cpus=(OWN,), siblings={0: 1, 1: 0}, apart=rules
    )


def _put(zone: ZoneSchedulers, groups: TrialGroups) -> None:
    zone.maps.put(groups.service.id, ZoneRow(ZoneClass.SERVICE))
    zone.maps.put(groups.batch.id, ZoneRow(ZoneClass.BATCH))


def _wake_ups(zone: ZoneSchedulers, groups: TrialGroups) -> float:
    with groups.batch.burning(4):
        delays = groups.service.delays_ms(5, 60)
    return delays[len(delays) // 2]


def _turns(zone: ZoneSchedulers, groups: TrialGroups) -> float:
    with groups.batch.burning(4) as pids:
        time.sleep(SETTLE_S)
        used, turns = groups.batch.used_us(), sum(map(preempted, pids))
        time.sleep(CLAIM_S)
        return (groups.batch.used_us() - used) / 1e3 / max(1, sum(map(preempted, pids)) - turns)


def _shares(zone: ZoneSchedulers, groups: TrialGroups) -> float:
    zone.maps.put(groups.service.id, ZoneRow(ZoneClass.SERVICE, weight=900))
    zone.maps.put(groups.batch.id, ZoneRow(ZoneClass.BATCH, weight=100))
    with groups.service.burning(2), groups.batch.burning(2):
        time.sleep(SETTLE_S)
        service, batch = groups.service.used_us(), groups.batch.used_us()
        time.sleep(2 * CLAIM_S)
        return (groups.service.used_us() - service) / max(1, groups.batch.used_us() - batch)


def _looks(zone: ZoneSchedulers, groups: TrialGroups) -> float:
    with groups.batch.burning(2) as pids:
        time.sleep(SETTLE_S)
        seen = 0
        for _ in range(20):
            time.sleep(0.02)
            seen += sum(_cpu_of(pid) == OWN for pid in pids)
        return float(seen)


def _cpu_of(pid: int) -> int:
    """The CPU that a process ran on last (proc_pid_stat(5), field 39)."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[36])


def _beside(zone: ZoneSchedulers, groups: TrialGroups) -> float:
    with CoreSharing({0: 1, 1: 0}) as cores, groups.batch.burning(2), groups.service.burning(1):
        cores.put(groups.service.id, ZoneClass.SERVICE)
        cores.put(groups.batch.id, ZoneClass.BATCH)
        time.sleep(SETTLE_S)
        before = cores.read()
        time.sleep(CLAIM_S)
        found = cores.read().since(before)
    if not found.service_ns:
        raise Permanent("the one party did not run")
    return found.beside_ns / found.service_ns


def _parties(zone: ZoneSchedulers, groups: TrialGroups) -> float:
    zone.maps.put(groups.service.id, ZoneRow(ZoneClass.BATCH, party="one"))
    zone.maps.put(groups.batch.id, ZoneRow(ZoneClass.BATCH, party="other"))
    found = _beside(zone, groups)
    zone.maps.put(groups.service.id, ZoneRow(ZoneClass.SERVICE, party="one"))
    return found


CLAIMS: dict[ZoneMode, Callable[[ZoneSchedulers, TrialGroups], float]] = {
    ZoneMode.LATENCY: _wake_ups,
    ZoneMode.THROUGHPUT: _turns,
    ZoneMode.WEIGHTED: _shares,
    ZoneMode.EXCLUSIVE: _looks,
    ZoneMode.SIBLINGS: _beside,
    ZoneMode.APART: _parties,
}


def _longest_waits(groups: TrialGroups) -> dict[str, float]:
    """Seconds, by kind of task: two a CPU that are unlisted, one of each other kind."""
    until = memoryview(mmap.mmap(-1, 8)).cast("d")  # shared with the tasks, which start late beside the first ones
    with ExitStack() as stack:
        of = {
            "service": [stack.enter_context(_watching(groups.service, until)) for _ in CPUS],
            "batch": [stack.enter_context(_watching(groups.batch, until)) for _ in CPUS],
            "unlisted": [stack.enter_context(_watching(groups.other, until)) for _ in 2 * CPUS],
        }
        for readings in of.values():
            for reading in readings:
                os.read(reading, 1)
        until[0] = time.perf_counter() + BOUND_S
        return {kind: max(_told(reading) for reading in readings) for kind, readings in of.items()}


@contextmanager
def _watching(group: TaskGroup, until: memoryview[float]) -> Iterator[int]:
    """A task that never sleeps and writes the longest time in which it did not run to the descriptor. `until`: 0 while
    that is not decided.
    """
    reading, writing = os.pipe()

    def body() -> None:
        os.write(writing, b" ")  # it has begun: entering a group takes long beside the others
        longest, before = 0.0, time.perf_counter()
        while not until[0] or before < until[0]:
            now = time.perf_counter()
            longest, before = max(longest, now - before), now
        os.write(writing, f"{longest:.4f}".encode())

    pid = group.start(body)
    os.close(writing)
    try:
        yield reading
    finally:
        end(pid)


def _told(reading: int) -> float:
    with open(reading) as lines:
        return float(lines.read())


def _ejected(zone: ZoneSchedulers, groups: TrialGroups) -> dict[str, object]:
    """After how many seconds of waiting the kernel ended it, in its own words, and the CPU seconds of who starved in
    the next half second.
    """
    with groups.other.burning(2 * len(CPUS)), groups.batch.burning(1):
        start = time.perf_counter()
        while zone.verify() and time.perf_counter() - start < WITHIN_S:
            time.sleep(0.02)
        used = groups.batch.used_us()
        time.sleep(0.5)
        got_s = (groups.batch.used_us() - used) / 1e6
    found = zone.maps.last_exit()
    waited = None if found is None or not found.ejected else _WAITED.search(found.message)
    return {
        "after_s": None if waited is None else float(waited[1]),
        "reason": "" if found is None else found.reason,
        "message": "" if found is None else found.message,
        "starved_then_s": got_s,
        "left": sched_ext.read_state().name,
    }


if __name__ == "__main__":
    json.dump(measure([ZoneMode(name) for name in sys.argv[1:]] or list(ZoneMode)), sys.stdout)
