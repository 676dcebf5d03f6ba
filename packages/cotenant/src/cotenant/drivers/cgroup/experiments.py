"""The cgroups that an experiment creates, in every hierarchy of this machine, and their removal on every exit path.

Nothing may be left behind: not after an error, not after SIGTERM, not after kill -9. Everything is below one top group
whose name contains our process id; leaving the `with` block kills what is inside and removes it; `remove_leftovers`
does the same for the top groups of experiments that no longer run. A child enters its group before it executes the
measured program, so no CPU time is counted elsewhere. Two experiments at once would measure each other, so a second one
waits for the first and then refuses.
Limits: needs root; groups of others are never touched.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout, detect
from cotenant.drivers.cgroup.tree import Groups
from cotenant.model.errors import CotenantError, Permanent, Unsupported
from cotenant.model.machine.counters import GroupCounters
from cotenant.model.machine.knob import Knob, KnobTarget, Vanished

PREFIX = "cotenant-experiment-"
# Above other work on this machine, for all arms equally, so that a neighbour's build disturbs them less.
_TOP_WEIGHT = "10000"
_ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1" || exit 97; shift; done; shift; exec "$@"'
_TIMEOUT_S = 5.0
_RATION_TIMEOUT_S = 1.0
REALTIME_US = 500_000  # of each second, for all groups of an experiment
_LOCK = "/run/cotenant-experiment.lock"


class ExperimentCgroups:
    """All groups of one experiment; a context manager. `top` is the path of their parent."""

    def __init__(self, layout: CgroupLayout | None = None, top: str = "", wait_s: float = 60.0) -> None:
        self.layout = layout or detect()
        self.top = top or f"{PREFIX}{os.getpid()}"
        self._wait_s = wait_s
        self._open = ExitStack()

    def __enter__(self) -> ExperimentCgroups:
        if reason := missing_requirement(self.layout):
            raise reason
        try:
            self._open.enter_context(_only_one(self._wait_s))
            self._groups = self._open.enter_context(Groups(self.layout))
            remove_leftovers(self._groups)
            self._open.callback(remove, self._groups, self.top)
            self.knobs = self._open.enter_context(CgroupKnobs(self.layout))
            self._reader = self._open.enter_context(CgroupReader(self.layout))
            self._groups.make(self.top)
            self.knobs.write(KnobTarget(self.top, Knob.CPU_WEIGHT), _TOP_WEIGHT)
        except CotenantError:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def path(self, name: str) -> str:
        """The full path of one of our groups; "" is the top one."""
        return f"{self.top}/{name}".rstrip("/")

    def make(self, name: str, cpus: str) -> str:
        """Create a group below the top one, bound to `cpus` (a list as "0-3,8"). Returns its full path."""
        self._groups.make(self.path(name))
        self.knobs.write(KnobTarget(self.path(name), Knob.CPUSET_CPUS), cpus)
        return self.path(name)

    def allow_realtime(self, name: str, ration_us: int) -> None:
        """Allow a group's processes real-time priority for `ration_us` of each second, where the kernel limits that by
        group (v1).

        Elsewhere nothing is needed. All groups together may have `REALTIME_US`, and those below one group what that one
        has.
        """
        parts = name.split("/")
        above = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
        tree = self.layout.by_controller["cpu"]
        for group, microseconds in (("", REALTIME_US), *((entry, ration_us) for entry in above)):
            ration = Path(tree.path, self.path(group), "cpu.rt_runtime_us")
            if ration.exists() and not _accepts(ration, microseconds):
                return  # reported by the process that fails to get the priority

    def exists(self, name: str) -> bool:
        """Whether one of our groups exists."""
        return self._groups.exists(self.path(name))

    def enter(self, name: str, command: Sequence[str]) -> list[str]:
        """The command that enters a group in every tree and then becomes `command`."""
        folders = (Path(tree.path, self.path(name)) for tree in self.layout.hierarchies)
        files = [str(folder / "cgroup.procs") for folder in folders if folder.is_dir()]
        return ["/bin/sh", "-c", _ENTER, "sh", *files, "--", *command]

    def counters(self, name: str) -> GroupCounters:
        """A group's counters now. Raises `Vanished`."""
        found = self._reader.read((self.path(name),))
        if not found:
            raise Vanished(f"/{self.path(name)}: no such group")
        return found[0]

    def cpu_us(self, name: str) -> int:
        """CPU time that a group has used, microseconds. Raises `Unsupported` where no tree counts it."""
        used = self.counters(name).cpu_us
        if used is None:
            raise Unsupported("measuring a group's CPU time", "the cpuacct controller or cgroup v2")
        return used


def _accepts(ration: Path, microseconds: int) -> bool:
    """Whether the kernel accepted it. The rations of just removed groups count for some milliseconds more, so a
    refusal is retried.
    """
    until = monotonic() + _RATION_TIMEOUT_S
    while True:
        try:
            ration.write_text(str(microseconds))
            return True
        except OSError:
            if monotonic() >= until:
                return False
        sleep(0.01)


@contextmanager
def _only_one(wait_s: float) -> Iterator[None]:
    """Hold the machine's lock of experiments. Raises `Permanent` where another process still has it after `wait_s`."""
    try:
        fd = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Permanent(f"{_LOCK}: {error.strerror}") from error
    try:
        until = monotonic() + wait_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() >= until:
                    pid = os.pread(fd, 32, 0).decode(errors="replace").strip()
                    raise Permanent(
                        f"another experiment runs here (process {pid}), and two would measure each other: wait for "
                        "its end"
                    ) from None
                sleep(0.1)
        os.truncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def missing_requirement(layout: CgroupLayout) -> Unsupported | None:
    """Why this process cannot create groups here; None where it can."""
    feature = "an experiment on real cgroups"
    if os.geteuid() != 0:
        return Unsupported(feature, "root: sudo cotenant node experiment ...")
    for wanted in ("cpu", "cpuset"):
        if wanted not in layout.by_controller:
            return Unsupported(feature, f"the {wanted} controller, of cgroup v1 or v2")
    if not os.access(layout.by_controller["cpu"].path, os.W_OK):
        return Unsupported(feature, f"{layout.by_controller['cpu'].path} mounted for writing")
    if len(os.sched_getaffinity(0)) < 2:
        return Unsupported(feature, "two CPUs: one for the measured load, one for the measurement")
    return None


def remove_leftovers(groups: Groups) -> list[str]:
    """Remove the top groups of experiments whose process has exited. Returns their names."""
    # All trees: an experiment that was killed while it removed its groups left them in some only.
    names = {folder.name for tree in groups.layout.hierarchies for folder in Path(tree.path).glob(f"{PREFIX}*")}
    over = [name for name in sorted(names) if not _is_alive(name.removeprefix(PREFIX))]
    for name in over:
        remove(groups, name)
    return over


def remove(groups: Groups, path: str) -> None:
    """Kill all that runs in a group and below it, and remove it from every tree. Raises `Permanent` where that
    takes more than 5 s.
    """
    groups.kill(path)
    try:
        groups.remove(path, _TIMEOUT_S)
    except CotenantError as error:
        raise Permanent(f"{error}; the next experiment retries the removal") from error


def _is_alive(owner: str) -> bool:
    """Whether the process of that id exists and may be an experiment: process ids are reused."""
    try:
        command = Path(f"/proc/{int(owner)}/cmdline").read_bytes()
    except (OSError, ValueError):
        return False
    return b"cotenant" in command or b"pytest" in command or b"python" in command
