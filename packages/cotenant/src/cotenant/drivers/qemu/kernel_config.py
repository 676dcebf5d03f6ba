"""The configuration of a kernel that is built for guests: what a zone needs, and nothing else.

A distribution's configuration takes an hour to build, most of it drivers. What is not named here is off (allnoconfig);
all is built in, so that no module is loaded. Two such kernels of one source differ in their ticks only.
Limits: amd64 under QEMU. Since Linux 7 amd64 has the preemption models full and lazy only.
"""

from __future__ import annotations

_PROCESSOR = """64BIT SMP SCHED_SMT SCHED_MC PCI PCI_MSI ACPI X86_X2APIC HYPERVISOR_GUEST PARAVIRT KVM_GUEST PVH
HPET_TIMER HIGH_RES_TIMERS NO_HZ_FULL CPU_ISOLATION SCHED_HRTICK PREEMPT_DYNAMIC"""
_PROCESSES = """MULTIUSER BINFMT_ELF BINFMT_SCRIPT FHANDLE SYSVIPC POSIX_MQUEUE POSIX_TIMERS FUTEX EPOLL EVENTFD
SIGNALFD TIMERFD AIO MEMBARRIER RSEQ ADVISE_SYSCALLS SECCOMP SECCOMP_FILTER BUG ELF_CORE SHMEM TRANSPARENT_HUGEPAGE
INOTIFY_USER FILE_LOCKING NAMESPACES UTS_NS IPC_NS USER_NS PID_NS NET_NS"""
_FILES_AND_DEVICES = """PRINTK PRINTK_TIME TTY SERIAL_8250 SERIAL_8250_CONSOLE UNIX98_PTYS BLK_DEV_INITRD BLOCK PROC_FS
PROC_PAGE_MONITOR SYSFS TMPFS TMPFS_XATTR DEVTMPFS DEBUG_FS OVERLAY_FS FUSE_FS VIRTIO_FS VIRTIO_MENU VIRTIO_PCI
VIRTIO_CONSOLE NET UNIX INET PACKET NETDEVICES NET_CORE VIRTIO_NET"""
_GROUPS = """CGROUPS CGROUP_SCHED FAIR_GROUP_SCHED CFS_BANDWIDTH EXT_GROUP_SCHED CPUSETS MEMCG BLK_CGROUP CGROUP_PIDS
CGROUP_FREEZER CGROUP_DEVICE CGROUP_CPUACCT CGROUP_PERF CGROUP_BPF PSI TASKSTATS TASK_DELAY_ACCT SCHEDSTATS"""
_SCHEDULERS = """KALLSYMS KALLSYMS_ALL DEBUG_KERNEL PERF_EVENTS BPF_SYSCALL BPF_JIT BPF_JIT_ALWAYS_ON FTRACE KPROBES
KPROBE_EVENTS BPF_EVENTS DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT DEBUG_INFO_BTF SCHED_CLASS_EXT"""
OPTIONS = " ".join((_PROCESSOR, _PROCESSES, _FILES_AND_DEVICES, _GROUPS, _SCHEDULERS)).split()
MAX_CPUS = 64
TICKS = (100, 250, 300, 1000)


def fragment(hz: int, version: str = "") -> str:
    """What differs from a kernel with nothing in it, as a file of options. `version`: of the source, "": the newest."""
    # the model lazy came with 6.13, the file that says which one runs needs no option since 6.15
    own = ("PREEMPT", "SCHED_DEBUG") if version == "6.12" else ("PREEMPT_LAZY",)
    values = [f"CONFIG_{name}=y" for name in (*OPTIONS, *own, f"HZ_{hz}")]
    return "\n".join((*values, f"CONFIG_NR_CPUS={MAX_CPUS}", f'CONFIG_LOCALVERSION="-cotenant-{hz}"', ""))


def left_out(wanted: str, configured: str) -> tuple[str, ...]:
    """Lines of a fragment that a configuration does not have: the source does not know them, or they need others."""
    has = set(configured.splitlines())
    return tuple(line for line in wanted.splitlines() if line and line not in has)
