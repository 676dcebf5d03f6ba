"""A guest that runs tests of this repository on a kernel whose controllers are all on cgroup v2.

This host may have its controllers on v1, and what v2 does must be seen on a kernel. QEMU's own emulation (TCG), so that
no hardware help is needed; the host's root is the guest's, read-only through virtiofs, so that the same Python and the
same tests run there; pytest reports each case as a line on the second serial port. Virtual time counts instructions
(-icount): a busy host makes the guest slower and not its clocks uneven.
Limits: amd64, Debian's QEMU and virtiofsd; the guest writes nothing but its own /run.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.waiting import eventually, patience
from tests.node.guest.kernel import kernel
from tests.node.guest.systemd_boot import BOOT, UNITS, check
from tools.tree import python_path

from cotenant.drivers.qemu.archive import archive
from cotenant.drivers.qemu.kernel import zone_kernel
from cotenant.drivers.qemu.kernel_archive import archive_kernels
from cotenant.drivers.qemu.packages import GuestUnavailable, Kernel

INSIDE = "COTENANT_IN_GUEST"  # set where tests run in the guest
RESULTS = "/dev/ttyS1"
ZONE_LINUX = "COTENANT_TEST_ZONE_LINUX"
MEMORY_MIB = 768
DISK_BYTES = 64 << 20
MAX_SILENT_S = 600
POLL_S = 0.5
VIRTIOFSD = "/usr/lib/qemu/virtiofsd"
ROOT = Path(__file__).parents[3]

_START = """#!/busybox sh
/busybox mkdir -p /proc /sys /dev /host
/busybox mount -t proc proc /proc
/busybox mount -t devtmpfs dev /dev
for module in {modules}; do /busybox insmod /$module || echo "no $module"; done
/busybox mount -t virtiofs -o ro host /host || echo "no root"
/busybox mount -t proc proc /host/proc
/busybox mount -t sysfs sys /host/sys
/busybox mount -t devtmpfs dev /host/dev
/busybox mount -t tmpfs tmpfs /host/run
/busybox mkdir /host/run/tmp /host/run/lock
/busybox cp /cases /order /host/run/
/busybox stty -F /dev/ttyS1 raw 2>/dev/null
/busybox echo "started" > /dev/ttyS1
"""

_PLAIN = """
/busybox mount -t cgroup2 cgroup2 /host/sys/fs/cgroup
/busybox mount -t bpf bpf /host/sys/fs/bpf
/busybox chroot /host /bin/sh /run/order
/busybox echo "ended" > /dev/ttyS1
/busybox sync
/busybox poweroff -f
"""


_RUN = """cd {root} && exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run/tmp \\
  COTENANT_CACHE=/run/cache {inside}=1 \\
  PYTHONPATH={sources}:{root} PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 \\
  {python} -m pytest -p no:cacheprovider -q --color=no @/run/cases
"""


@dataclass(frozen=True, slots=True)
class GuestKind:
    """A kernel and the clock of its guest. `icount`: QEMU's option; `max_silent_cpu_s`: the guest is stopped when
    QEMU has used that much CPU time without a word from it; `spare_cpus`: beside the one that runs, for cases that
    bring them online; `systemd`: it is the first process.
    """

    kernel: Callable[[], Kernel]
    icount: str
    max_silent_cpu_s: int
    spare_cpus: int = 0
    systemd: bool = False


V2 = GuestKind(kernel, "shift=3,sleep=on", 240)  # with -icount, Linux 6.1 does not get beyond starting a second CPU


def _zones_kernel() -> Kernel:
    """The newest, or the one of this version of Linux."""
    version = os.environ.get(ZONE_LINUX, "")
    return archive_kernels([version])[version] if version else zone_kernel()


# without sleep, idle time costs nothing, and figures are the same in each run
ZONES = GuestKind(_zones_kernel, "shift=2,sleep=off", 240, spare_cpus=1)
# an agent runs beside the cases of these two
KUBELET = GuestKind(kernel, "shift=3,sleep=on", 600)
SYSTEMD = GuestKind(kernel, "shift=3,sleep=on", 600, systemd=True)


@dataclass(frozen=True, slots=True)
class Case:
    """How one case went in the guest."""

    outcome: str  # "passed", "failed", "skipped"
    said: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """All that a guest told."""

    cases: dict[str, Case]
    console: str
    kernel: str
    seconds: float


def run(cases: list[str], kind: GuestKind = V2) -> Run:
    """Boot a guest of this kind, run these cases (pytest's node ids, below the repository's root), power off.
    Raises `GuestUnavailable` where no guest can be had.
    """
    qemu, busybox = shutil.which("qemu-system-x86_64"), shutil.which("busybox")
    for needed, name in (
        (qemu, "qemu-system-x86"),
        (busybox, "busybox-static"),
        (os.path.exists(VIRTIOFSD), "virtiofsd (qemu-system-common)"),
    ):
        if not needed:
            raise GuestUnavailable(f"{name} is not installed")
    if kind.systemd:
        check()
    if os.geteuid() != 0:
        raise GuestUnavailable("virtiofsd needs root")
    program = Path(str(busybox)).read_bytes()
    # the loader that a dynamic program names stands right after its headers
    if b"/ld-linux" in program[:4096]:
        raise GuestUnavailable("busybox is not static: install busybox-static")
    chosen = kind.kernel()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cotenant-guest-") as name:
        folder = Path(name)
        init = _START.format(modules=" ".join(path.name for path in chosen.modules)) + (
            BOOT if kind.systemd else _PLAIN
        )
        order = _RUN.format(
            inside=INSIDE,
            root=shlex.quote(str(ROOT)),
            sources=shlex.quote(python_path()),
            python=shlex.quote(sys.executable),
        )
        files = {
            "init": (init.encode(), 0o755),
            "busybox": (program, 0o755),
            "order": (order.encode(), 0o644),
            "cases": ("\n".join(cases).encode(), 0o644),
        }
        if kind.systemd:
            files.update({name: (text.encode(), 0o644) for name, text in UNITS.items()})
        files.update({path.name: (path.read_bytes(), 0o644) for path in chosen.modules})
        (folder / "initrd").write_bytes(archive(files))
        with (folder / "disk").open("wb") as disk:
            disk.truncate(DISK_BYTES)
        _boot(str(qemu), folder, chosen.image, kind)
        console = (folder / "console").read_text(errors="replace")
        told = (folder / "results").read_text(errors="replace")
    return Run(read_results(told), console, chosen.version, time.monotonic() - started)


def _boot(qemu: str, folder: Path, image: Path, kind: GuestKind) -> None:
    socket, memory = folder / "fs.sock", f"{MEMORY_MIB}M"
    log = (folder / "log").open("wb")
    share = subprocess.Popen(
        [
            VIRTIOFSD,
            f"--socket-path={socket}",
            "-o",
            "source=/",
            "-o",
            "sandbox=chroot",
            "-o",
            "cache=always",
            "--thread-pool-size=1",
        ],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
    guest = None
    try:
        eventually("virtiofsd listens or has ended", lambda: socket.exists() or share.poll() is not None, 60)
        if not socket.exists():
            raise GuestUnavailable(f"virtiofsd: {(folder / 'log').read_text(errors='replace')[-300:]}")
        guest = subprocess.Popen(
            [
                qemu,
                *("-machine", "q35,memory-backend=mem", "-accel", "tcg,thread=single", "-cpu", "max"),
                *("-icount", kind.icount, "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"),
                *(
                    "-m",
                    memory,
                    "-object",
                    f"memory-backend-memfd,id=mem,size={memory},share=on",
                    "-smp",
                    str(1 + kind.spare_cpus),
                ),
                *("-display", "none", "-nodefaults", "-no-reboot", "-monitor", "none"),
                *("-serial", f"file:{folder / 'console'}", "-serial", f"file:{folder / 'results'}"),
                *("-chardev", f"socket,id=fs,path={socket}", "-device", "vhost-user-fs-pci,chardev=fs,tag=host"),
                *(
                    "-drive",
                    f"file={folder / 'disk'},format=raw,if=none,id=disk",
                    "-device",
                    "virtio-blk-pci,drive=disk",
                ),
                *("-kernel", str(image), "-initrd", str(folder / "initrd")),
                *(
                    "-append",
                    "console=ttyS0 rdinit=/init panic=-1 quiet nokaslr mitigations=off psi=1 cgroup_no_v1=all "
                    "maxcpus=1",
                ),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        if why := _await_end(guest, (folder / "console", folder / "results"), kind.max_silent_cpu_s):
            # what it told until now stands; the cases that it did not come to say so
            with (folder / "console").open("a") as console:
                console.write(f"\nstopped: {why}\n")
    finally:
        for process in (guest, share):
            if process is not None:
                process.kill()
                process.wait()
        log.close()
        if guest is not None and guest.returncode not in (0, -9):
            with (folder / "console").open("a") as console:
                console.write((folder / "log").read_text(errors="replace"))


def _await_end(guest: subprocess.Popen[bytes], told: tuple[Path, ...], max_silent_cpu_s: int) -> str:
    """Why the guest is to be stopped; "" where it ended by itself. A guest that computes makes progress however busy
    the host is, so its own CPU time counts; one that neither computes nor says a word for `MAX_SILENT_S` hangs.
    """
    said, since_s, since_cpu_s = 0, time.monotonic(), 0.0
    while True:
        try:
            guest.wait(POLL_S)
            return ""
        except subprocess.TimeoutExpired:
            pass
        used_s = _cpu_s(guest.pid)
        now_said = sum(path.stat().st_size for path in told if path.exists())
        if now_said != said:
            said, since_s, since_cpu_s = now_said, time.monotonic(), used_s
        if used_s - since_cpu_s > max_silent_cpu_s:
            return f"not a word in {max_silent_cpu_s} s of its CPU time"
        if time.monotonic() - since_s > patience(MAX_SILENT_S):
            return f"not a word in {MAX_SILENT_S} s"


def _cpu_s(pid: int) -> float:
    """CPU seconds that a process has used, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_results(told: str) -> dict[str, Case]:
    """The cases in lines of JSON; what a broken line said is lost, and its case with it."""
    found: dict[str, Case] = {}
    for line in told.splitlines():
        if line.startswith("{"):
            try:
                said = json.loads(line)
                found[said["id"]] = Case(said["outcome"], said["said"])
            except (ValueError, KeyError, TypeError):
                continue
    return found
