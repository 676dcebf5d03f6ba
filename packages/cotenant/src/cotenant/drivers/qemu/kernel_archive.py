"""Kernels of Debian's archive by their version, for trying what runs on which kernel.

A node's kernel is its distribution's, from Linux 6.12 on, while zones in virtual machines take the newest one
(`kernel.py`). Backports keep the last kernel of each series that they had, so a series is found by the beginning of its
version and its newest package taken; what is fetched is kept as other kernels are. Debian builds some without sched_ext
(6.12): that is seen in the image, and said with what to do.
Limits: amd64, the cloud kernels, a Debian machine. Modules are kept where they are in the same package, so network and
overlay file systems of a series may be missing.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from cotenant.drivers.qemu.kernel import MODULES, configure_apt, debian_mirror, unpacked_image
from cotenant.drivers.qemu.modules import in_order, module_name, unpacked_module
from cotenant.drivers.qemu.packages import GuestUnavailable, Kernel, command, folder_of, keep, kept
from cotenant.model.errors import InvalidInput

SUITES = ("trixie-backports", "bookworm-backports", "trixie", "sid")
SERIES = ("6.12", "6.16", "6.17", "6.18", "6.19", "7.0", "7.1", "7.2", "7.3")  # of those suites, with sched_ext's 6.12
NAME = "zone-guest-linux"
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")
_PACKAGE = re.compile(r"linux-(?:image|binary)-((\d+)\.(\d+)\.(\d+)\+deb\d+(?:\.\d+)?-cloud-amd64)")
_OPERATIONS = b"\0sched_ext_ops\0"  # in the type information of a kernel that has it


def archive_kernels(versions: Sequence[str]) -> dict[str, Kernel]:
    """The kernel of each version (6.18, or 7.2.11 exactly), kept or fetched now. Raises `GuestUnavailable`,
    `InvalidInput`.
    """
    found = {version: kept_archive_kernel(version) for version in versions}
    if wanted := [version for version, kernel in found.items() if kernel is None]:
        _fetch(wanted)
        found.update({version: kept_archive_kernel(version) for version in wanted})
    kernels = {version: kernel for version, kernel in found.items() if kernel is not None}
    if absent := found.keys() - kernels.keys():
        raise GuestUnavailable(f"no whole kernel of Linux {', '.join(sorted(absent))} was kept")
    return kernels


def kept_archive_kernel(version: str) -> Kernel | None:
    """The kept one; None where none was fetched. Raises `InvalidInput`."""
    if not _VERSION.fullmatch(version):
        raise InvalidInput("linux", version, "the beginning of a version, as in 6.18 or 7.2.13")
    return kept(folder_of(f"{NAME}-{version}"))


def has_sched_ext(kernel: Kernel) -> bool:
    """Whether the image's type information has sched_ext's operations: it was built with CONFIG_SCHED_CLASS_EXT."""
    return _OPERATIONS in kernel.image.read_bytes()


def newest_of(version: str, packages: Iterable[str]) -> tuple[str, str] | None:
    """Of the names of packages the one with the newest kernel of this version: its name and the kernel's whole
    version; None where there is none.
    """
    matches = [found for found in map(_PACKAGE.fullmatch, packages) if found is not None and _is_of(found[1], version)]
    if not matches:
        return None
    # a series has its image in linux-binary, or in linux-image; where both are, linux-image is empty
    newest = max(matches, key=lambda found: (*map(int, found.groups()[1:]), found[0].startswith("linux-binary")))
    return newest[0], newest[1]


def _is_of(whole: str, version: str) -> bool:
    return re.match(rf"{re.escape(version)}(?![0-9])", whole) is not None


def _fetch(versions: Sequence[str]) -> None:
    if shutil.which("zstd") is None:
        raise GuestUnavailable("zstd is not installed")
    mirror = debian_mirror()
    with tempfile.TemporaryDirectory() as name:
        options = configure_apt(Path(name), mirror, SUITES)
        try:
            command("apt-get", *options, "-o", "APT::Update::Error-Mode=any", "update", timeout_s=600)
        except GuestUnavailable as error:
            raise GuestUnavailable(
                f"no kernel of Linux {', '.join(versions)} is kept, and Debian's archive cannot be read: {error}"
            ) from error
        packages = command("apt-cache", *options, "pkgnames", "linux-").split()
        for version in versions:
            found = newest_of(version, packages)
            if found is None:
                raise GuestUnavailable(f"{', '.join(SUITES)} have no cloud kernel of Linux {version}")
            _keep(version, *found, Path(name) / version, options)


def _keep(version: str, package: str, whole: str, place: Path, options: Sequence[str]) -> None:
    place.mkdir()
    command("apt-get", *options, "download", package, cwd=str(place), timeout_s=1800)
    (deb,) = place.glob("*.deb")
    command("dpkg-deb", "-x", str(deb), str(place / "unpacked"))
    images = sorted((place / "unpacked").rglob("vmlinuz*"))
    if not images:
        raise GuestUnavailable(f"{package} has no kernel in it")
    packed = {module_name(path.name): path for path in (place / "unpacked").rglob("*.ko*") if module_name(path.name)}

    def load(module: str) -> bytes | None:
        path = packed.get(module)
        return None if path is None else unpacked_module(path.name, path.read_bytes())

    modules = {f"{module}.ko": data for module, data in in_order(load, MODULES).items()}
    keep(folder_of(f"{NAME}-{version}") / whole, {"vmlinux": unpacked_image(images[0].read_bytes()), **modules})
