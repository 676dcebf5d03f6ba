"""Kernels for guests with other ticks than packaged ones have, built once from Debian's kernel source and kept.

How often a kernel's timer ticks is fixed when it is built, and every packaged kernel of Debian has 250 ticks a second.
The smallest configuration that runs a zone (`kernel_config.py`), this machine's compiler. What is needed is looked for
before anything is fetched. Kernels that are asked for together are built one after the other in one tree, so they are
of one source; a tree whose build was interrupted is kept, and the next call goes on where it ended.
Limits: amd64, a Debian machine; `ROOM_BYTES` of disk while it is built. A tick is compiled into most files, so the
second kernel of a tree saves the source and the build's own tools, and little else.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.qemu.kernel_config import TICKS, fragment, left_out
from cotenant.drivers.qemu.kernel_source import LONGEST_S, fetched
from cotenant.drivers.qemu.packages import GuestUnavailable, Kernel, command, folder_of, keep, kept
from cotenant.model.errors import InvalidInput

NAME, TREE = "zone-guest-hz", "zone-guest-build"
ROOM_BYTES = 6 << 30  # 1.8 GB of source, the objects and an image with debugging information
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
_VERSION = re.compile(r"\d+\.\d+")
_READY = "ready"  # of a tree whose source is whole: the source's folder and the pahole, a line each


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


def built_kernel(hz: int, version: str = "") -> Kernel | None:
    """The kept one of this version of Linux, "": of the newest; None where none was built."""
    return kept(_folder(hz, version))


def _folder(hz: int, version: str) -> Path:
    return folder_of(f"{NAME}{hz}-{version}" if version else f"{NAME}{hz}")


def built_ticks() -> tuple[int, ...]:
    """Ticks a second of the kernels that were built."""
    return tuple(hz for hz in TICKS if any(folder_of(f"{NAME}{hz}").glob("*/SHA256SUMS")))


def zone_kernels_with(
    ticks: Sequence[int], jobs: int, say: Callable[[str], None], version: str = ""
) -> tuple[Kernel, ...]:
    """A kernel for each of these ticks a second, kept or built now, all that are built now in one tree. `version`: of
    Linux (6.12), "": the newest source. Raises `GuestUnavailable`, `InvalidInput`.
    """
    if version and not _VERSION.fullmatch(version):
        raise InvalidInput("linux", version, "a version whose source Debian has, as in 6.12")
    for hz in ticks:
        if hz not in TICKS:
            raise InvalidInput("hz", hz, " or ".join(map(str, TICKS)))
    if jobs < 1:
        raise InvalidInput("jobs", jobs, "1 or more")
    if wanted := [hz for hz in dict.fromkeys(ticks) if built_kernel(hz, version) is None]:
        _build_all(wanted, jobs, say, version)
    found = tuple(built_kernel(hz, version) for hz in ticks)
    if None in found:
        raise GuestUnavailable(f"no whole kernel in {_folder(ticks[found.index(None)], version)}")
    return tuple(kernel for kernel in found if kernel is not None)


def _build_all(ticks: Sequence[int], jobs: int, say: Callable[[str], None], version: str) -> None:
    if lacking := missing_packages():
        raise GuestUnavailable(f"building a kernel needs {', '.join(lacking)} (apt-get install)")
    tree = folder_of(f"{TREE}-{version}" if version else TREE)
    tree.mkdir(parents=True, exist_ok=True)
    with _alone(tree):
        source, pahole = _source(tree, say, version)
        for hz in ticks:
            _build(hz, version, source, tree / "objects", pahole, jobs, say)
        shutil.rmtree(tree)


@contextmanager
def _alone(tree: Path) -> Iterator[None]:
    with (tree.parent / f".{TREE}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise GuestUnavailable(f"another command builds a kernel in {tree}") from error
        yield


def _source(tree: Path, say: Callable[[str], None], version: str) -> tuple[Path, str]:
    """The source of a tree and its pahole, fetched where an earlier build did not leave them."""
    ready = tree / _READY
    if ready.exists():
        kept, kept_pahole = ready.read_text().splitlines()
        say(f"goes on with {Path(kept).name} in {tree}")
        return Path(kept), kept_pahole
    shutil.rmtree(tree)
    tree.mkdir()
    free = shutil.disk_usage(tree).free
    if free < ROOM_BYTES:
        raise GuestUnavailable(
            f"building a kernel needs {ROOM_BYTES >> 30} GiB of disk in {tree.parent}, which has {free >> 30} GiB: set "
            "COTENANT_CACHE to a folder with more"
        )
    source, pahole = fetched(tree, say, version)
    ready.write_text(f"{source}\n{pahole}\n")
    return source, pahole


def _build(
    hz: int, version: str, source: Path, objects: Path, pahole: str, jobs: int, say: Callable[[str], None]
) -> None:
    objects.mkdir(exist_ok=True)
    wanted = fragment(hz, version)
    (objects / "fragment").write_text(wanted)
    configuring, *steps = build_plan(hz, source, objects, pahole, jobs)
    _run(configuring, say)
    if lost := left_out(wanted, (objects / ".config").read_text()):
        raise GuestUnavailable(f"{source.name} does not take {', '.join(lost)}: this version of Cotenant is too old")
    for step in steps:
        _run(step, say)
    release = (objects / "include" / "config" / "kernel.release").read_text().strip()
    keep(_folder(hz, version) / release, {"vmlinux": (objects / "image").read_bytes()})


def _run(step: BuildStep, say: Callable[[str], None]) -> None:
    say(step.says)
    command(*step.words, timeout_s=LONGEST_S)


def default_jobs() -> int:
    """As many as this process may use CPUs."""
    return len(os.sched_getaffinity(0))
