"""The kernels that schedulers are tried on, by their versions: kept, fetched from Debian's archive, or built here.

Debian has a package of most series since 6.12, but its 6.12 is built without sched_ext, so that one is built from its
source. What cannot be had stands in the table with the reason; the others are tried all the same.
Limits: as of drivers/qemu/kernel_archive.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cotenant.drivers.qemu.kernel_archive import SERIES, archive_kernels, has_sched_ext, kept_archive_kernel
from cotenant.drivers.qemu.kernel_build import built_kernel
from cotenant.drivers.qemu.packages import GuestUnavailable, Kernel

ALL = "all"
HZ = 250  # of packaged kernels, and of those that are built in their place


def kernels_of(versions: Sequence[str], say: Callable[[str], None]) -> dict[str, Kernel | str]:
    """The kernel of each version (6.18, 7.2.11), or why there is none; `all`: of each series that the archive has.
    Raises `InvalidInput`.
    """
    found: dict[str, Kernel | str] = {}
    for version in dict.fromkeys(SERIES if ALL in versions else versions):
        kept = built_kernel(HZ, version) or kept_archive_kernel(version)
        found[version] = "" if kept is None else kept
    if wanted := [version for version, kernel in found.items() if not kernel]:
        say(f"fetches the kernels of Linux {', '.join(wanted)} from Debian's archive")
        try:
            found.update(archive_kernels(wanted))
        except GuestUnavailable as error:
            found.update(dict.fromkeys(wanted, str(error)))
    return {version: _with_sched_ext(version, kernel) for version, kernel in found.items()}


def _with_sched_ext(version: str, kernel: Kernel | str) -> Kernel | str:
    if isinstance(kernel, str) or has_sched_ext(kernel):
        return kernel
    return (
        f"Debian's {kernel.version} is built without sched_ext (CONFIG_SCHED_CLASS_EXT): "
        f"`cotenant zone kernel --linux {version} --hz {HZ}` builds one from its source"
    )
