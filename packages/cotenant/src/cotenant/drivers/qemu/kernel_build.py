"""A small kernel for guests with another tick than Debian's, built from Debian's source and kept.

The timer's frequency is a choice at a kernel's build, and Debian's kernels have 250 ticks a second. The newest
linux-source of trixie-backports, with no option but what a zone's guest needs (`OPTIONS`): virtio, cgroups, sched_ext,
overlay and network built in, so that no module is loaded. Built once, about 25 minutes of CPU time, and kept with its
checksum beside the fetched ones.
Limits: amd64; needs a compiler and what Debian's kernels are built with, and 5 GB below TMPDIR meanwhile; another
compiler and other options than Debian's own kernels, so compare built ones with one another.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from cotenant.drivers.qemu.kernel import NAME, SUITE, backports
from cotenant.drivers.qemu.packages import GuestUnavailable, Kernel, command, folder_of, keep, kept
from cotenant.model.errors import InvalidInput

TICKS = (100, 250, 300, 1000)
LONGEST_BUILD_S = 4 * 3600
_TOOLS = (
    *(("gcc", "gcc"), ("make", "make"), ("flex", "flex"), ("bison", "bison"), ("bc", "bc")),
    *(("pahole", "dwarves"), ("xz", "xz-utils"), ("strip", "binutils")),
)
HEADER = Path("/usr/include/gelf.h")  # of libelf-dev
_NAMES = """
    64BIT SMP HYPERVISOR_GUEST PARAVIRT KVM_GUEST PVH X86_X2APIC ACPI PCI PCI_MSI PCI_MMCONFIG
    PREEMPT PREEMPT_DYNAMIC SCHED_CLASS_EXT EXT_SUB_SCHED EXT_GROUP_SCHED NO_HZ_IDLE HIGH_RES_TIMERS POSIX_TIMERS
    BPF_SYSCALL BPF_JIT BPF_JIT_ALWAYS_ON DEBUG_KERNEL DEBUG_INFO_DWARF5 DEBUG_INFO_BTF DEBUG_FS SCHEDSTATS PERF_EVENTS
    KALLSYMS KALLSYMS_ALL TASKSTATS TASK_DELAY_ACCT UNWINDER_FRAME_POINTER
    CGROUPS CGROUP_SCHED FAIR_GROUP_SCHED CFS_BANDWIDTH MEMCG CGROUP_PIDS CGROUP_FREEZER CPUSETS CGROUP_CPUACCT
    CGROUP_BPF BLOCK BLK_CGROUP PSI NAMESPACES UTS_NS IPC_NS PID_NS NET_NS USER_NS SYSVIPC
    BLK_DEV_INITRD RD_GZIP BINFMT_ELF BINFMT_SCRIPT MULTIUSER PRINTK BUG FUTEX EPOLL SIGNALFD TIMERFD EVENTFD
    INOTIFY_USER AIO ADVISE_SYSCALLS MEMBARRIER RSEQ FHANDLE FILE_LOCKING SHMEM TMPFS MEMFD_CREATE DEVTMPFS PROC_FS
    SYSFS FUSE_FS VIRTIO_FS MISC_FILESYSTEMS OVERLAY_FS
    NET INET UNIX PACKET NETDEVICES NET_CORE VIRTIO_MENU VIRTIO_PCI VIRTIO_NET VIRTIO_CONSOLE
    TTY UNIX98_PTYS SERIAL_8250 SERIAL_8250_CONSOLE CC_OPTIMIZE_FOR_PERFORMANCE
"""
OPTIONS = tuple(_NAMES.split())


def built_kernel(hz: int) -> Kernel | None:
    """The kept one with so many ticks a second; None where none was built, or its file was changed."""
    return kept(_folder(hz))


def build_kernel(hz: int) -> Kernel:
    """The kept one, or one that is built now. Raises `GuestUnavailable` with what it needs or what failed,
    `InvalidInput`.
    """
    folder = _folder(hz)
    found = kept(folder)
    if found is None:
        _build(folder, hz)
        found = kept(folder)
    if found is None:
        raise GuestUnavailable(f"no whole kernel in {folder}")
    return found


def configuration(hz: int) -> str:
    """What the build's configuration must have; all else is off, or follows."""
    lines = [f"CONFIG_{name}=y" for name in (*OPTIONS, f"HZ_{hz}")]
    return "\n".join((*lines, f"CONFIG_HZ={hz}", "CONFIG_NR_CPUS=16", 'CONFIG_LOCALVERSION="-cotenant"', ""))


def left_out(asked: str, config: str) -> list[str]:
    """The lines of `asked` that a written configuration does not have: what this source does not know, or what they
    depend on is missing.
    """
    written = set(config.splitlines())
    return [line for line in asked.splitlines() if line and line not in written]


def lacking(header: Path = HEADER) -> list[str]:
    """The packages that a build needs and this machine lacks."""
    lacks = [package for program, package in _TOOLS if shutil.which(program) is None]
    return lacks if header.exists() else [*lacks, "libelf-dev"]


def _folder(hz: int) -> Path:
    if hz not in TICKS:
        raise InvalidInput("--hz", hz, f"one of {', '.join(map(str, TICKS))}")
    return folder_of(f"{NAME}-hz{hz}")


def _build(folder: Path, hz: int) -> None:
    if lacks := lacking():
        raise GuestUnavailable(f"a kernel is built with packages that are not installed: {', '.join(lacks)}")
    with tempfile.TemporaryDirectory(prefix="cotenant-kernel-") as name:
        place = Path(name)
        source, made = _source(place), place / "made"
        made.mkdir()
        asked = configuration(hz)
        (place / "asked").write_text(asked)
        making = ("make", "-C", str(source), f"O={made}")
        _run(*making, f"KCONFIG_ALLCONFIG={place / 'asked'}", "allnoconfig")
        if missing := left_out(asked, (made / ".config").read_text()):
            raise GuestUnavailable(f"this source's configuration does not take {', '.join(missing)}")
        _run(*making, f"-j{len(os.sched_getaffinity(0))}", "vmlinux")
        _run("strip", "--strip-debug", str(made / "vmlinux"))
        release = (made / "include/config/kernel.release").read_text().strip()
        keep(folder / release, {"vmlinux": (made / "vmlinux").read_bytes()})


def _source(place: Path) -> Path:
    """The unpacked source of the suite's newest kernel."""
    options = backports(place)
    told = command("apt-cache", *options, "show", f"linux-source/{SUITE}")
    found = re.search(r"^Depends: .*?(linux-source-[0-9.]+)", told, re.MULTILINE)
    if found is None:
        raise GuestUnavailable(f"{SUITE} has no linux-source")
    _run("apt-get", *options, "download", found[1], cwd=place)
    (package,) = place.glob("*.deb")
    _run("dpkg-deb", "-x", str(package), str(place / "package"))
    (packed,) = (place / "package/usr/src").glob("*.tar.xz")
    _run("tar", "-C", str(place), "-xf", str(packed))
    return place / found[1]


def _run(*words: str, cwd: Path | None = None) -> None:
    """A step that may take long. Raises `GuestUnavailable` with its last words."""
    try:
        done = subprocess.run(
            words, cwd=cwd, capture_output=True, text=True, errors="replace", timeout=LONGEST_BUILD_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GuestUnavailable(f"{words[0]}: {error}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-400:]
        raise GuestUnavailable(f"{' '.join(words[:3])}: {said}")
