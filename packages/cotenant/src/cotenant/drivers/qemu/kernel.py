"""A packaged Linux kernel with sched_ext for guests, from Debian's backports.

Kernel schedulers need a kernel newer than most machines', and kernels of backports are replaced every few weeks. The
newest kernel of trixie-backports, resolved through its meta-package (the cloud one unless another is named), with apt's
files in a temporary folder: this machine's sources and lists stay as they are, and its keyring verifies the packages.
Of its modules those that a guest loads are kept: network and overlay file systems, and what else is not built in.
Limits: amd64, a Debian machine, and zstd to unpack the image.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from cotenant.drivers.qemu.modules import in_order, module_name, unpacked_module
from cotenant.drivers.qemu.packages import META, GuestUnavailable, Kernel, command, folder_of, keep, kept
from cotenant.model.errors import InvalidInput

SUITE = "trixie-backports"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_ZSTD = b"\x28\xb5\x2f\xfd"


NAME = "zone-guest"
MODULES = ("virtio_pci", "virtio_console", "fuse", "virtiofs", "virtio_net", "overlay")
_PACKAGE = re.compile(r"linux-image-[a-z0-9]+(-[a-z0-9]+)*")


def zone_kernel(package: str = META) -> Kernel:
    """The kept kernel of this meta-package, or one that is fetched now. Raises `GuestUnavailable`, `InvalidInput`."""
    found = kept_kernel(package)
    if found is None:
        _fetch(_folder(package), package)
        found = kept_kernel(package)
    if found is None:
        raise GuestUnavailable(f"no whole kernel of {package} was kept")
    return found


def kept_kernel(package: str = META) -> Kernel | None:
    """The kept one; None where none was fetched, its files were changed, or it was kept without modules, as before
    zones had networks.
    """
    found = kept(_folder(package))
    return found if found is not None and found.modules else None


def _folder(package: str) -> Path:
    if not _PACKAGE.fullmatch(package):
        raise InvalidInput("package", package, "a kernel's meta-package, as in linux-image-cloud-amd64")
    return folder_of(NAME if package == META else f"{NAME}-{package.removeprefix('linux-image-')}")


def _fetch(folder: Path, package: str) -> None:
    if shutil.which("zstd") is None:
        raise GuestUnavailable("zstd is not installed")
    mirror = debian_mirror()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        options = configure_apt(place, mirror)
        command("apt-get", *options, "update")
        found = re.search(
            r"^Depends: .*?linux-image-([0-9][^ ,]*)",
            command("apt-cache", *options, "show", f"{package}/{SUITE}"),
            re.MULTILINE,
        )
        if found is None:
            raise GuestUnavailable(f"{SUITE} has no {package}")
        command("apt-get", *options, "download", f"linux-binary-{found[1]}", f"linux-modules-{found[1]}", cwd=name)
        for deb in place.glob("*.deb"):
            command("dpkg-deb", "-x", str(deb), str(place / "unpacked"))
        images = sorted((place / "unpacked").rglob("vmlinuz*"))
        if not images:
            raise GuestUnavailable(f"linux-binary-{found[1]} has no kernel in it")
        packed = {
            module_name(path.name): path for path in (place / "unpacked").rglob("*.ko*") if module_name(path.name)
        }

        def load(module: str) -> bytes | None:
            path = packed.get(module)
            return None if path is None else unpacked_module(path.name, path.read_bytes())

        modules = {f"{module}.ko": data for module, data in in_order(load, MODULES).items()}
        keep(folder / found[1], {"vmlinux": unpacked_image(images[0].read_bytes()), **modules})


def debian_mirror() -> str:
    """Where this machine's apt has Debian from. Raises `GuestUnavailable`."""
    if not Path(KEYRING).exists():
        raise GuestUnavailable("Debian's archive keyring is not installed")
    mirrors = command("apt-get", "indextargets", "--format", "$(SITE) $(REPO_URI)", "Created-By: Packages").splitlines()
    debian = [line.split()[1] for line in mirrors if "security" not in line and len(line.split()) == 2]
    if not debian:
        raise GuestUnavailable("apt has no Debian mirror")
    return debian[0]


def configure_apt(place: Path, mirror: str, suites: tuple[str, ...] = (SUITE,)) -> tuple[str, ...]:
    """Options of apt's commands that use files in this folder only, and these suites."""
    for name in (
        "lists/partial",
        "cache/archives/partial",
        "etc/apt.conf.d",
        "etc/sources.list.d",
        "etc/preferences.d",
    ):
        (place / name).mkdir(parents=True)
    (place / "etc/sources.list.d/zones.sources").write_text(
        f"Types: deb\nURIs: {mirror}\nSuites: {' '.join(suites)}\nComponents: main\nSigned-By: {KEYRING}\n"
    )
    (place / "apt.conf").write_text(
        f'Dir::Etc "{place}/etc";\nDir::State::Lists "{place}/lists";\nDir::Cache "{place}/cache";\n'
        f'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "{place}/etc/sources.list.d";\n'
        'Acquire::Languages "none";\nAPT::Sandbox::User "root";\n'
    )
    return ("-q", "-c", str(place / "apt.conf"))


def unpacked_image(image: bytes) -> bytes:
    """The ELF within a bzImage, which boots without being unpacked by an emulated CPU."""
    at = image.find(_ZSTD)
    while at >= 0:
        done = subprocess.run(["zstd", "-dc"], input=image[at:], capture_output=True, check=False)
        if done.stdout.startswith(b"\x7fELF"):
            return done.stdout
        at = image.find(_ZSTD, at + 1)
    return image
