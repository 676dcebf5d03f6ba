"""Kernels from distribution packages, kept with their checksums.

A zone in a VM and the tests' guests need a kernel that the machine does not run, and package versions vanish from the
archive. What was unpacked is kept under the cache folder with SHA-256 sums, and used again only while they hold.
Limits: amd64; the package's signature is apt's to check.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cotenant.model.errors import CotenantError

META = "linux-image-cloud-amd64"
SUMS = "SHA256SUMS"


class GuestUnavailable(CotenantError):
    """The kernel or the guest cannot be had here, and why."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """`image` boots; `modules` in the order in which they are to be loaded."""

    version: str
    image: Path
    modules: tuple[Path, ...]


def folder_of(name: str) -> Path:
    """The cache's folder of kernels of this name."""
    base = (
        os.environ.get("COTENANT_CACHE")
        or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "cotenant"
    )
    return Path(base, name)


def kept_or_fetched(name: str, fetch: Callable[[Path], None]) -> Kernel:
    """The kernel in the cache's folder of this name; `fetch` fills the folder where there is none. Raises
    `GuestUnavailable`.
    """
    folder = folder_of(name)
    found = kept(folder)
    if found is None:
        fetch(folder)
        found = kept(folder)
    if found is None:
        raise GuestUnavailable(f"no whole kernel in {folder}")
    return found


def kept(folder: Path) -> Kernel | None:
    """The newest kernel whose files are as they were when they were unpacked."""
    for version in sorted((path for path in folder.glob("*") if (path / SUMS).exists()), reverse=True):
        lines = [line.split("  ") for line in (version / SUMS).read_text().splitlines()]
        if all((version / name).exists() and _sum((version / name).read_bytes()) == told for told, name in lines):
            names = [name for _, name in lines]
            modules = tuple(version / name for name in names if name.endswith(".ko"))
            return Kernel(version.name, version / names[0], modules)
    return None


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def keep(target: Path, files: dict[str, bytes]) -> None:
    """Store a kernel (the first file) and its modules with their checksums."""
    target.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (target / name).write_bytes(data)
    (target / SUMS).write_text("".join(f"{_sum(data)}  {name}\n" for name, data in files.items()))


def command(*words: str, cwd: str | None = None, timeout_s: float = 120) -> str:
    """What a command prints. Raises `GuestUnavailable` where it fails."""
    try:
        done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GuestUnavailable(f"{' '.join(words)}: {error}") from error
    if done.returncode:
        raise GuestUnavailable(f"{' '.join(words)}: {(done.stderr.strip() or done.stdout.strip())[-200:]}")
    return done.stdout
