"""Debian's kernel source, fetched by apt and unpacked, and the pahole to build it with.

The source package of the suite that packaged kernels come from, so that apt verifies it. Type information of a kernel
(BTF) is written by pahole; where this machine's is older than the source asks for, Debian 13's is taken with its own
libraries.
Limits: amd64, a Debian machine.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from cotenant.drivers.qemu.kernel import SUITE, configure_apt, debian_mirror
from cotenant.drivers.qemu.kernel_archive import SUITES
from cotenant.drivers.qemu.packages import GuestUnavailable, command

SOURCE = "linux-source"
LONGEST_S = 6 * 3600
_PAHOLE_SUITE, _OLDEST_PAHOLE = "trixie", 126
_PAHOLE = ("pahole", "libbpf1", "libc6", "libdw1t64", "libelf1t64", "zlib1g", "libzstd1", "liblzma5", "libbz2-1.0")
_LOADER = "usr/lib64/ld-linux-x86-64.so.2"


def fetched(place: Path, say: Callable[[str], None], version: str = "") -> tuple[Path, str]:
    """The source of this version of Linux (6.12), else the newest, unpacked, and the pahole to use. Raises
    `GuestUnavailable`.
    """
    old = pahole_version() < _OLDEST_PAHOLE
    suites = dict.fromkeys((*(SUITES if version else (SUITE,)), *((_PAHOLE_SUITE,) if old else ())))
    options = configure_apt(place, debian_mirror(), tuple(suites))
    command("apt-get", *options, "update", timeout_s=LONGEST_S)
    package = f"{SOURCE}-{version}" if version else _newest(options)
    if package not in command("apt-cache", *options, "pkgnames", SOURCE).split():
        raise GuestUnavailable(f"{', '.join(suites)} have no {package}")
    say(f"fetches and unpacks {package} (170 MB, 1.8 GB unpacked)")
    command("apt-get", *options, "download", package, cwd=str(place), timeout_s=LONGEST_S)
    (deb,) = place.glob(f"{SOURCE}-*.deb")
    command("dpkg-deb", "-x", str(deb), str(place / "package"))
    archives = sorted((place / "package" / "usr" / "src").glob("*.tar.xz"))
    if not archives:
        raise GuestUnavailable(f"{package} has no source in it")
    command("tar", "-xf", str(archives[0]), "-C", str(place), timeout_s=LONGEST_S)
    source = place / archives[0].name.removesuffix(".tar.xz")
    return source, _newer_pahole(place, options) if old else "pahole"


def _newest(options: tuple[str, ...]) -> str:
    """The package that the meta-package stands for."""
    shown = command("apt-cache", *options, "show", f"{SOURCE}/{SUITE}")
    depends = re.search(rf"^Depends: ({SOURCE}-[0-9.]+)", shown, re.MULTILINE)
    if depends is None:
        raise GuestUnavailable(f"{SUITE} has no {SOURCE}")
    return depends[1]


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
