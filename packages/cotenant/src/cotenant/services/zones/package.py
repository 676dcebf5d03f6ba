"""A zone as one file: its definition, the images of its pods, its kernel, and the sum of each.

A zone is shipped to machines that have none of its files, and what arrives must be what was packed: a tar whose first
member lists every other with its SHA-256 sum (package_manifest.py), with a signature over the list where a key is
given. Paths within the definition become those within the package. The schedulers themselves are the receiving host's
(its package ships them with their sums); the definition says which.
Limits: volumes and paths of the host are named, not packed.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import msgspec

from cotenant.drivers.docker.archive import digest_of
from cotenant.drivers.signatures.ed25519 import Signer, TrustedKeys
from cotenant.model.document import parse
from cotenant.model.errors import InvalidInput
from cotenant.services.zones.package_manifest import (
    EXPECTED,
    MANIFEST,
    MAX_MANIFEST,
    MAX_SIGNATURE,
    SIGNATURE,
    ZONE,
    Packed,
    manifest_text,
    read_list,
    signed_text,
)
from cotenant.services.zones.vm_images import beside, checked
from cotenant.services.zones.zone_files import definition_of, read_text

SUFFIX = ".zone.tar"
_PIECE = 1 << 20


def pack(file: Path, target: Path, signer: Signer | None = None) -> Packed:
    """Write the package of a zone's file, signed where a `signer` is given. Raises `InvalidInput`; an existing target
    is not replaced.
    """
    text = read_text(file)
    definition = definition_of(text, str(file))
    document: Any = parse(text, str(file))
    source = str(file.absolute())
    if "apiVersion" in document:
        raise InvalidInput(str(file), "a ControlZone", "a plain zone's file", "a cluster's nodes pull their images")
    members: dict[str, Path] = {}
    for pod, written in zip(definition.pods, document.get("pods") or (), strict=True):
        archive = checked(beside(pod.image.archive, source), pod.image.sha256, f"pods.{pod.name}.image.archive")
        name = _member_of(archive, "images", members)
        written["image"] = {"archive": name, "sha256": digest_of(archive)}
    kernel = definition.vm.kernel if definition.vm is not None else None
    if kernel is not None and kernel.file:
        image = checked(beside(kernel.file, source), kernel.sha256, "vm.kernel.file")
        name = _member_of(image, "kernel", members)
        document["vm"]["kernel"] |= {"file": name, "sha256": digest_of(image)}
    written_text = msgspec.yaml.encode(document)
    definition_of(written_text, ZONE)  # what is packed can be read
    return _write(target, definition.zone, written_text, members, signer)


def unpack(package: Path, folder: Path) -> Path:
    """Check a package and put its files into a new folder; the path of its zone's file. Raises `InvalidInput`; then
    the folder is removed.
    """
    if folder.exists():
        raise InvalidInput(str(folder), str(folder), "a folder that does not exist yet")
    with _opened(package) as tar:
        packed = _listed(tar, package)
        folder.mkdir(parents=True)
        try:
            for name in packed.files:
                place = folder / name
                place.parent.mkdir(exist_ok=True)
                with place.open("xb") as out:
                    _copy(tar, name, packed, package, out)
            (folder / MANIFEST).write_bytes(packed.text)
            if packed.signature:
                (folder / SIGNATURE).write_text(f"{packed.signature}\n")
            zone = definition_of(read_text(folder / ZONE), str(folder / ZONE)).zone
            if zone != packed.zone:
                raise InvalidInput(f"{package}: {ZONE}", zone, f"the zone {packed.zone}, which the package names")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return folder / ZONE


def read_manifest(package: Path) -> Packed:
    """What a package says that it has, unchecked. Raises `InvalidInput`."""
    with _opened(package) as tar:
        return _listed(tar, package)


def verified(package: Path, keys: TrustedKeys) -> tuple[Packed, str]:
    """What a package has, and whose key signed it, once every sum was compared. Raises `InvalidInput`."""
    with _opened(package) as tar:
        packed = _listed(tar, package)
        name = packed.signer(keys, str(package))
        for member in packed.files:
            _copy(tar, member, packed, package, None)
        return packed, name


def definition_file(file: Path, packages: Path) -> Path:
    """The definition that `file` is, or, where it is a package, the one that was unpacked of it below `packages`. A
    package that was unpacked already is not unpacked again. Raises `InvalidInput`.
    """
    if not _is_tar(file):
        return file
    folder = packages / f"{read_manifest(file).zone}-{digest_of(file)[:12]}"
    return folder / ZONE if (folder / ZONE).is_file() else unpack(file, folder)


def _is_tar(file: Path) -> bool:
    """Whether the file is a tar; one that cannot be read is none."""
    try:
        with file.open("rb") as opened:
            return opened.read(262)[257:] == b"ustar"
    except OSError:
        return False


def _member_of(path: Path, folder: str, members: dict[str, Path]) -> str:
    """The name in the package; one file that several pods name is packed once."""
    for name, known in members.items():
        if known == path:
            return name
    name, number = f"{folder}/{path.name}", 1
    while name in members:
        number += 1
        name = f"{folder}/{number}-{path.name}"
    members[name] = path
    return name


def _write(target: Path, zone: str, text: bytes, members: dict[str, Path], signer: Signer | None) -> Packed:
    beside_target = target.with_name(f".{target.name}.making")
    files = {ZONE: (hashlib.sha256(text).hexdigest(), len(text))}
    files |= {name: (digest_of(path), path.stat().st_size) for name, path in members.items()}
    listed = manifest_text(zone, files)
    signature = "" if signer is None else signer.sign(signed_text(listed))
    made = {MANIFEST: listed, **({SIGNATURE: f"{signature}\n".encode()} if signature else {}), ZONE: text}
    try:
        with tarfile.open(beside_target, "w") as tar:
            for name, content in made.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(_plain(info), BytesIO(content))
            for name, path in members.items():
                tar.add(path, name, recursive=False, filter=_plain)
        try:
            target.hardlink_to(beside_target)
        except FileExistsError:
            raise InvalidInput(str(target), str(target), "a file that does not exist yet") from None
    finally:
        beside_target.unlink(missing_ok=True)
    return Packed(zone, files, listed, signature)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without this host's users and times, so that equal files give equal packages."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o644
    return info


@contextmanager
def _opened(package: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(package, "r:") as tar:
            yield tar
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InvalidInput(str(package), str(error), EXPECTED) from error


def _listed(tar: tarfile.TarFile, package: Path) -> Packed:
    info = tar.next()
    if info is None or info.name != MANIFEST or not info.isreg() or info.size > MAX_MANIFEST:
        raise InvalidInput(str(package), "its first member", EXPECTED)
    text = _content(tar, info).read()
    second = tar.next()
    signature = b""
    if second is not None and second.name == SIGNATURE:
        if not second.isreg() or second.size > MAX_SIGNATURE:
            raise InvalidInput(f"{package}: {SIGNATURE}", f"{second.size} bytes", EXPECTED)
        signature = _content(tar, second).read()
    return read_list(text, signature, str(package))


def _copy(tar: tarfile.TarFile, name: str, packed: Packed, package: Path, out: IO[bytes] | None) -> None:
    """Compare a member with the list, and write it where there is an `out`."""
    digest, size = packed.files[name]
    try:
        info = tar.getmember(name)
    except KeyError:
        info = None
    if info is None or not info.isreg() or info.size != size:
        raise InvalidInput(f"{package}: {name}", "missing or of another size", f"a file of {size} bytes")
    file, found = _content(tar, info), hashlib.sha256()
    while piece := file.read(_PIECE):
        found.update(piece)
        if out is not None:
            out.write(piece)
    if found.hexdigest() != digest:
        raise InvalidInput(f"{package}: {name}", found.hexdigest(), f"a file with the SHA-256 sum {digest}")


def _content(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    file = tar.extractfile(info)
    assert file is not None
    return file
