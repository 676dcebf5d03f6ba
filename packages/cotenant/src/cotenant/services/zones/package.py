"""A zone as one file: its definition, the images of its pods, its kernel, and the sum of each.

A zone is shipped to machines that have none of its files, and what arrives must be what was packed: a tar whose first
member lists every other with its SHA-256 sum. Paths within the definition become those within the package. The
schedulers themselves are the receiving host's (its package ships them with their sums); the definition says which.
Limits: volumes and paths of the host are named, not packed; no signature: who trusts a package compares its own sum.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from cotenant.drivers.docker.archive import digest_of
from cotenant.model.document import parse
from cotenant.model.errors import InvalidInput
from cotenant.services.zones.vm_images import beside, checked
from cotenant.services.zones.zone_files import definition_of, read_text

MANIFEST, ZONE = "manifest.json", "zone.yaml"
VERSION = 1
SUFFIX = ".zone.tar"
_MAX_MANIFEST = 1 << 20
_MAX_FILES = 64
_MAX_BYTES = 16 << 30


@dataclass(frozen=True, slots=True)
class Packed:
    """What a package has: its zone, and each file with its sum and size."""

    zone: str
    files: dict[str, tuple[str, int]]


def pack(file: Path, target: Path) -> Packed:
    """Write the package of a zone's file. Raises `InvalidInput`; an existing target is not replaced."""
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
    return _write(target, definition.zone, written_text, members)


def unpack(package: Path, folder: Path) -> Path:
    """Check a package and put its files into a new folder; the path of its zone's file. Raises `InvalidInput`; then
    the folder is removed.
    """
    if folder.exists():
        raise InvalidInput(str(folder), str(folder), "a folder that does not exist yet")
    with _opened(package) as tar:
        packed = _manifest(tar, package)
        folder.mkdir(parents=True)
        try:
            for name, (digest, size) in packed.files.items():
                place = folder / name
                place.parent.mkdir(exist_ok=True)
                _extract(tar, name, place, size, package)
                if (found := digest_of(place)) != digest:
                    raise InvalidInput(f"{package}: {name}", found, f"a file with the SHA-256 sum {digest}")
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
        return _manifest(tar, package)


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


def _write(target: Path, zone: str, text: bytes, members: dict[str, Path]) -> Packed:
    beside_target = target.with_name(f".{target.name}.making")
    scratch = target.with_name(f".{target.name}.{ZONE}")
    scratch.write_bytes(text)
    try:
        all_files = {ZONE: scratch, **members}
        files = {name: (digest_of(path), path.stat().st_size) for name, path in all_files.items()}
        manifest = {
            "version": VERSION,
            "zone": zone,
            "files": {name: {"sha256": digest, "bytes": size} for name, (digest, size) in files.items()},
        }
        with tarfile.open(beside_target, "w") as tar:
            scratch.with_suffix(".json").write_text(json.dumps(manifest, indent=1))
            for name, path in {MANIFEST: scratch.with_suffix(".json"), **all_files}.items():
                tar.add(path, name, recursive=False, filter=_plain)
        try:
            target.hardlink_to(beside_target)
        except FileExistsError:
            raise InvalidInput(str(target), str(target), "a file that does not exist yet") from None
    finally:
        for path in (beside_target, scratch, scratch.with_suffix(".json")):
            path.unlink(missing_ok=True)
    return Packed(zone, files)


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
        raise InvalidInput(str(package), str(error), "a zone's package, as `cotenant zone pack` writes it") from error


class _FileEntry(msgspec.Struct, forbid_unknown_fields=True):
    sha256: str
    bytes: int


class _Manifest(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    zone: str
    files: dict[str, _FileEntry]


def _manifest(tar: tarfile.TarFile, package: Path) -> Packed:
    expected = "a zone's package, as `cotenant zone pack` writes it"
    try:
        info = tar.next()
        if info is None or info.name != MANIFEST or not info.isreg() or info.size > _MAX_MANIFEST:
            raise InvalidInput(str(package), "its first member", expected)
        file = tar.extractfile(info)
        assert file is not None
        manifest = msgspec.json.decode(file.read(), type=_Manifest)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{package}: {MANIFEST}", str(error), expected) from error
    if manifest.version != VERSION:
        raise InvalidInput(f"{package}: version", manifest.version, f"{VERSION}")
    files = {name: (found.sha256, found.bytes) for name, found in manifest.files.items()}
    if ZONE not in files or len(files) > _MAX_FILES or sum(size for _, size in files.values()) > _MAX_BYTES:
        raise InvalidInput(f"{package}: {MANIFEST}", len(files), f"{ZONE} and at most {_MAX_FILES} files")
    for name in files:
        folder, _, last = name.rpartition("/")
        if folder not in ("", "images", "kernel") or last in ("", ".", "..") or (not folder and last != ZONE):
            raise InvalidInput(f"{package}: {MANIFEST}", name, f"{ZONE} and files in images and kernel")
    return Packed(manifest.zone, files)


def _extract(tar: tarfile.TarFile, name: str, place: Path, size: int, package: Path) -> None:
    try:
        info = tar.getmember(name)
    except KeyError:
        info = None
    if info is None or not info.isreg() or info.size != size:
        raise InvalidInput(f"{package}: {name}", "missing or of another size", f"a file of {size} bytes")
    file = tar.extractfile(info)
    assert file is not None
    with place.open("xb") as out:
        shutil.copyfileobj(file, out, 1 << 20)
