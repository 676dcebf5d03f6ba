"""A kernel for guests with another tick than packaged ones have, built once from Debian's kernel source and kept.

How often a kernel's timer ticks is fixed when it is built, and every packaged kernel of Debian has 250 ticks a second.
The source package of the suite that packaged kernels come from, so that apt verifies it; the smallest configuration
that runs a zone (`kernel_config.py`); this machine's compiler. Where its pahole is older than the source asks for,
Debian 13's is taken with its own libraries. What is needed is looked for before anything is fetched.
Limits: amd64, a Debian machine; some 15 minutes of two quiet CPUs, `ROOM_BYTES` of disk while it is built.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.qemu.kernel import SUITE, configure_apt, debian_mirror
from cotenant.drivers.qemu.kernel_config import TICKS, fragment, left_out
from cotenant.drivers.qemu.packages import GuestUnavailable, Kernel, command, folder_of, keep, kept
from cotenant.model.errors import InvalidInput

SOURCE = "linux-source"
NAME = "zone-guest-hz"
ROOM_BYTES = 6 << 30  # 1.8 GB of source, the objects and an image with debugging information
LONGEST_S = 6 * 3600
_PAHOLE_SUITE, _OLDEST_PAHOLE = "trixie", 126
_PAHOLE = ("pahole", "libbpf1", "libc6", "libdw1t64", "libelf1t64", "zlib1g", "libzstd1", "liblzma5", "libbz2-1.0")
_LOADER = "usr/lib64/ld-linux-x86-64.so.2"
_TOOLS = {
    "gcc": "gcc",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "xz": "xz-utils",
    "strip": "binutils",
    "dpkg-deb": "dpkg",
}
_HEADERS = {"libelf.h": "libelf-dev", "openssl/ssl.h": "libssl-dev"}


@dataclass(frozen=True, slots=True)
class BuildStep:
    """One command of the build. `says`: what it does, for the user."""

    says: str
    words: tuple[str, ...]


def build_plan(hz: int, source: Path, objects: Path, pahole: str, jobs: int) -> tuple[BuildStep, ...]:
    """How a kernel is made from an unpacked source. `objects`: the folder for what is built, with the fragment."""
    make = ("make", "-s", "-C", str(source), f"O={objects}", f"PAHOLE={pahole}")
    return (
        BuildStep("configures", (*make, f"KCONFIG_ALLCONFIG={objects / 'fragment'}", "allnoconfig")),
        BuildStep(f"builds with {hz} ticks a second", (*make, f"-j{jobs}", "vmlinux")),
        BuildStep(
            "removes debugging information", ("strip", "-g", "-o", str(objects / "image"), str(objects / "vmlinux"))
        ),
    )


def missing_packages(
    find: Callable[[str], str | None] = shutil.which, headers: Sequence[Path] = (Path("/usr/include"),)
) -> tuple[str, ...]:
    """Debian's packages that a build needs and this machine lacks."""
    found = [package for tool, package in _TOOLS.items() if find(tool) is None]
    found += [
        package for name, package in _HEADERS.items() if not any((path / name).exists() for path in _here(headers))
    ]
    return tuple(found)


def _here(headers: Sequence[Path]) -> list[Path]:
    return [place for path in headers for place in (path, path / "x86_64-linux-gnu")]


def built_kernel(hz: int) -> Kernel | None:
    """The kept one; None where none was built."""
    return kept(folder_of(f"{NAME}{hz}"))


def built_ticks() -> tuple[int, ...]:
    """Ticks a second of the kernels that were built."""
    return tuple(hz for hz in TICKS if any(folder_of(f"{NAME}{hz}").glob("*/SHA256SUMS")))


def zone_kernel_with(hz: int, jobs: int, say: Callable[[str], None]) -> Kernel:
    """The kept kernel with so many ticks a second, or one that is built now. Raises `GuestUnavailable`,
    `InvalidInput`.
    """
    if hz not in TICKS:
        raise InvalidInput("hz", hz, " or ".join(map(str, TICKS)))
    if jobs < 1:
        raise InvalidInput("jobs", jobs, "1 or more")
    found = built_kernel(hz)
    if found is not None:
        return found
    if lacking := missing_packages():
        raise GuestUnavailable(f"building a kernel needs {', '.join(lacking)} (apt-get install)")
    folder = folder_of(f"{NAME}{hz}")
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < ROOM_BYTES:
        raise GuestUnavailable(
            f"building a kernel needs {ROOM_BYTES >> 30} GiB of disk in {folder}, which has {free >> 30} GiB: set "
            "COTENANT_CACHE to a folder with more"
        )
    with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as name:
        _build(hz, Path(name), folder, jobs, say)
    found = built_kernel(hz)
    if found is None:
        raise GuestUnavailable(f"no whole kernel in {folder}")
    return found


def _build(hz: int, place: Path, folder: Path, jobs: int, say: Callable[[str], None]) -> None:
    source, pahole = fetched(place, say)
    objects = place / "objects"
    objects.mkdir()
    (objects / "fragment").write_text(fragment(hz))
    configuring, *steps = build_plan(hz, source, objects, pahole, jobs)
    _run(configuring, say)
    if lost := left_out(fragment(hz), (objects / ".config").read_text()):
        raise GuestUnavailable(f"{source.name} does not take {', '.join(lost)}: this version of Cotenant is too old")
    for step in steps:
        _run(step, say)
    version = (objects / "include" / "config" / "kernel.release").read_text().strip()
    keep(folder / version, {"vmlinux": (objects / "image").read_bytes()})


def fetched(place: Path, say: Callable[[str], None]) -> tuple[Path, str]:
    """The newest source, unpacked, and the pahole to use. Raises `GuestUnavailable`."""
    old = pahole_version() < _OLDEST_PAHOLE
    options = configure_apt(place, debian_mirror(), (SUITE, _PAHOLE_SUITE) if old else (SUITE,))
    command("apt-get", *options, "update")
    shown = command("apt-cache", *options, "show", f"{SOURCE}/{SUITE}")
    depends = re.search(rf"^Depends: ({SOURCE}-[0-9.]+)", shown, re.MULTILINE)
    if depends is None:
        raise GuestUnavailable(f"{SUITE} has no {SOURCE}")
    say(f"fetches and unpacks {depends[1]} (170 MB, 1.8 GB unpacked)")
    command("apt-get", *options, "download", depends[1], cwd=str(place), timeout_s=LONGEST_S)
    (deb,) = place.glob(f"{SOURCE}-*.deb")
    command("dpkg-deb", "-x", str(deb), str(place / "package"))
    archives = sorted((place / "package" / "usr" / "src").glob("*.tar.xz"))
    if not archives:
        raise GuestUnavailable(f"{depends[1]} has no source in it")
    command("tar", "-xf", str(archives[0]), "-C", str(place), timeout_s=LONGEST_S)
    source = place / archives[0].name.removesuffix(".tar.xz")
    return source, _newer_pahole(place, options) if old else "pahole"


def _newer_pahole(place: Path, options: tuple[str, ...]) -> str:
    """Debian 13's, run by its own loader, since it needs a newer C library than Debian 12 has."""
    debs, root = place / "pahole", place / "pahole" / "root"
    debs.mkdir()
    names = [f"{name}/{_PAHOLE_SUITE}" for name in _PAHOLE]
    command("apt-get", *options, "download", *names, cwd=str(debs), timeout_s=LONGEST_S)
    for deb in sorted(debs.glob("*.deb")):
        command("dpkg-deb", "-x", str(deb), str(root))
    script = debs / "run"
    libraries = root / "usr/lib/x86_64-linux-gnu"
    script.write_text(f'#!/bin/sh\nexec "{root / _LOADER}" --library-path "{libraries}" "{root}/usr/bin/pahole" "$@"\n')
    script.chmod(0o755)
    return str(script)


def pahole_version() -> int:
    """As the kernel counts it: 126 for 1.26; 0 without one."""
    try:
        told = subprocess.run(["pahole", "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return 0
    found = re.match(r"v(\d+)\.(\d+)", told)
    return 0 if found is None else int(found[1]) * 100 + int(found[2])


def _run(step: BuildStep, say: Callable[[str], None]) -> None:
    say(step.says)
    command(*step.words, timeout_s=LONGEST_S)


def default_jobs() -> int:
    """As many as this process may use CPUs."""
    return len(os.sched_getaffinity(0))
