"""A packaged Linux kernel for the guest, from this machine's own apt sources, kept between runs.

The guest needs a kernel with cgroup v2 and nothing else on it; building one takes too long, and package versions vanish
from the archive. The newest `linux-image-cloud` that apt offers, resolved through its meta-package; of it only the
kernel, unpacked, and the modules that the guest loads are kept, with their checksums, under the cache folder. A kept
kernel is used again without asking apt.
Limits: amd64 and Debian's package names; the signature is apt's to check.
"""

from __future__ import annotations

import io
import lzma
import os
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

from cotenant.drivers.qemu.modules import in_order
from cotenant.drivers.qemu.packages import META, GuestUnavailable, Kernel, command, keep, kept_or_fetched

MODULES = ("virtio_pci", "virtio_blk", "fuse", "virtiofs")


def kernel() -> Kernel:
    """The kept one, or one that is fetched now. Raises `GuestUnavailable`."""
    return kept_or_fetched("guest", _fetch)


def _fetch(folder: Path) -> None:
    package = _newest()
    with tempfile.TemporaryDirectory() as place:
        command("apt-get", "-q", "download", package, cwd=place)
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
        raise GuestUnavailable(f"{package} has no kernel in it")
    files["vmlinux"] = _unpacked(found["vmlinuz"])
    files |= {f"{name}.ko": data for name, data in in_order(found.get, MODULES).items()}
    keep(folder / package.removeprefix("linux-image-"), files)


def _newest() -> str:
    """The package that the meta-package stands for."""
    depends = re.search(r"^Depends: .*?(linux-image-[^ ,]+)", command("apt-cache", "show", META), re.MULTILINE)
    if depends is None:
        raise GuestUnavailable(f"apt knows no {META} (apt-get update?)")
    return depends[1]


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
