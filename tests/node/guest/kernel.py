"""A packaged Linux kernel for the guest, from this machine's own apt sources, kept between runs.

Problem: the guest needs a kernel with cgroup v2 and nothing else on it; building one takes too long, and package versions vanish from the archive.
Choice: the newest `linux-image-cloud` that apt offers, resolved through its meta-package; of it only the kernel, unpacked, and the modules that the
guest loads are kept, with their checksums, under the cache folder. A kept kernel is used again without asking apt. Limits: amd64 and Debian's
package names; the signature is apt's to check.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import re
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

META = "linux-image-cloud-amd64"
MODULES = ("virtio_pci", "virtio_blk", "fuse", "virtiofs")
SUMS = "SHA256SUMS"


class Unavailable(Exception):
    """The guest cannot be had here, and why."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """`image` boots; `modules` in the order in which they are to be loaded."""

    version: str
    image: Path
    modules: tuple[Path, ...]


def kernel() -> Kernel:
    """The kept one, or one that is fetched now. Raises `Unavailable`."""
    base = (
        os.environ.get("COTENANT_CACHE")
        or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "cotenant"
    )
    folder = Path(base, "guest")
    kept = _kept(folder)
    if kept is None:
        _fetch(folder)
        kept = _kept(folder)
    if kept is None:
        raise Unavailable(f"no whole kernel in {folder}")
    return kept


def _kept(folder: Path) -> Kernel | None:
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


def _fetch(folder: Path) -> None:
    package = _newest()
    with tempfile.TemporaryDirectory() as place:
        _run("apt-get", "-q", "download", package, cwd=place)
        (deb,) = Path(place).glob("*.deb")
        unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(deb)], check=True, capture_output=True).stdout
    files: dict[str, bytes] = {}
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as tar:
        for member in tar:
            name = os.path.basename(member.name)
            if member.isfile() and (name.startswith("vmlinuz-") or name.endswith(".ko")):
                file = tar.extractfile(member)
                assert file is not None
                found[name.removesuffix(".ko").replace("-", "_") if name.endswith(".ko") else "vmlinuz"] = file.read()
    if "vmlinuz" not in found:
        raise Unavailable(f"{package} has no kernel in it")
    files["vmlinux"] = _unpacked(found["vmlinuz"])
    for name in _in_order(found):
        files[f"{name}.ko"] = found[name]
    target = folder / package.removeprefix("linux-image-")
    target.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (target / name).write_bytes(data)
    (target / SUMS).write_text("".join(f"{_sum(data)}  {name}\n" for name, data in files.items()))


def _newest() -> str:
    """The package that the meta-package stands for."""
    depends = re.search(r"^Depends: .*?(linux-image-[^ ,]+)", _run("apt-cache", "show", META), re.MULTILINE)
    if depends is None:
        raise Unavailable(f"apt knows no {META} (apt-get update?)")
    return depends[1]


def _run(*command: str, cwd: str | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {(done.stderr.strip() or done.stdout.strip())[-200:]}")
    return done.stdout


def _unpacked(image: bytes) -> bytes:
    """The ELF within a bzImage: booting it skips the unpacking, which an emulated CPU takes a second for."""
    at = image.find(b"\xfd7zXZ\x00")
    while at >= 0:
        try:
            kernel = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(image[at:])
        except lzma.LZMAError:
            kernel = b""
        if kernel.startswith(b"\x7fELF"):
            return kernel
        at = image.find(b"\xfd7zXZ\x00", at + 1)
    return image


def _in_order(found: dict[str, bytes]) -> list[str]:
    """The modules wanted, each after those that it needs. What is not there is built in."""
    order: list[str] = []

    def add(name: str) -> None:
        if name in order or name not in found:
            return
        depends = re.search(rb"\0depends=([^\0]*)\0", found[name])
        for needed in depends[1].decode().split(",") if depends is not None else ():
            add(needed.replace("-", "_"))
        order.append(name)

    for name in MODULES:
        add(name)
    return order
