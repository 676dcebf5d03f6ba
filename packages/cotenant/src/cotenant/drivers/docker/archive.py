"""A saved image (`docker save`, `podman save`) as a root folder and how its program is started.

An image's archive comes from others, and its reader is root: layers are merged as names first, so that no link of one
layer is a way out for another, and only then written, into an empty folder, with every parent a folder that was made
here. What an image says of itself is checked: the configuration's digest where its name is one, and each layer against
the configuration's `diff_ids`. Devices and sockets are left out; owners and modes are kept.
Limits: docker-archive (manifest.json), one image an archive; layers plain or gzip; sizes as `ImageLimits`.

Source: image specification of Docker 1.2 and OCI 1.1 (layers, whiteouts, configuration).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from cotenant.model.errors import InvalidInput

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAX_DOCUMENT = 4 << 20  # of manifest and configuration


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """Most bytes of all files of an image once unpacked, of a layer, which may have files that a later one removes,
    files, and layers.
    """

    bytes: int = 2 << 30
    layer_bytes: int = 4 << 30
    files: int = 200_000
    layers: int = 128


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """How an image's program is started. `user`: as written, `USER[:GROUP]`, names or numbers; "": root;
    `size_bytes`: of all files of its root.
    """

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    workdir: str = "/"
    user: str = ""
    digest: str = ""
    size_bytes: int = 0


@dataclass(slots=True)
class _Node:
    """A file of the merged image: where its content is."""

    info: tarfile.TarInfo
    layer: int
    children: dict[str, _Node] = field(default_factory=dict)


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal. Raises `InvalidInput` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidInput(str(path), str(path), "a readable file", error.strerror or "unreadable") from error


def unpack_image(path: Path, target: Path, limits: ImageLimits | None = None) -> ImageConfig:
    """Write the image's root into `target`, which is made, and return how it starts. Raises `InvalidInput`; then
    `target` is removed.
    """
    try:
        with tarfile.open(path, "r:*") as archive:
            name, config, layers = _documents(archive, path)
            _check_count("layers", len(layers), (limits or ImageLimits()).layers, path)
            target.mkdir(parents=True)
            try:
                size_bytes = _unpack(archive, layers, config, target, limits or ImageLimits(), path)
            except BaseException:
                shutil.rmtree(target, ignore_errors=True)
                raise
            return _config(name, config, archive, path, size_bytes)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise InvalidInput(
            str(path), str(error) or type(error).__name__, "an image saved by docker or podman"
        ) from error


def _documents(archive: tarfile.TarFile, path: Path) -> tuple[str, dict[str, object], list[str]]:
    manifest = _json(archive, "manifest.json", path)
    if not isinstance(manifest, list) or len(manifest) != 1 or not isinstance(manifest[0], dict):
        raise InvalidInput(str(path), "manifest.json", "the manifest of one image", "save one image an archive")
    name, layers = manifest[0].get("Config"), manifest[0].get("Layers")
    if not isinstance(name, str) or not isinstance(layers, list) or not all(isinstance(at, str) for at in layers):
        raise InvalidInput(str(path), "manifest.json", "a configuration and layers")
    config = _json(archive, name, path)
    if not isinstance(config, dict):
        raise InvalidInput(str(path), name, "a JSON object")
    return name, config, layers


def _json(archive: tarfile.TarFile, name: str, path: Path) -> object:
    try:
        return json.loads(_document(archive, name, path))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(str(path), name, "JSON") from error


def _document(archive: tarfile.TarFile, name: str, path: Path) -> bytes:
    with _member(archive, name, path) as file:
        data = file.read(_MAX_DOCUMENT + 1)
    if len(data) > _MAX_DOCUMENT:
        raise InvalidInput(str(path), name, f"at most {_MAX_DOCUMENT} bytes")
    told = name.rpartition("/")[2].removesuffix(".json")
    if _DIGEST.fullmatch(told) and hashlib.sha256(data).hexdigest() != told:
        raise InvalidInput(str(path), name, "a file whose SHA-256 is its name")
    return data


@contextmanager
def _member(archive: tarfile.TarFile, name: str, path: Path) -> Iterator[IO[bytes]]:
    """One file of the archive; links within the archive are followed, as older docker wrote them."""
    try:
        file = archive.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        raise InvalidInput(str(path), name, "a file of the archive")
    with file:
        yield file


@contextmanager
def _layer(archive: tarfile.TarFile, name: str, path: Path) -> Iterator[IO[bytes]]:
    with _member(archive, name, path) as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as plain:
            yield plain  # type: ignore[misc]


def _unpack(
    archive: tarfile.TarFile,
    layers: list[str],
    config: dict[str, object],
    target: Path,
    limits: ImageLimits,
    path: Path,
) -> int:
    rootfs = config.get("rootfs")
    told = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(told, list) or len(told) != len(layers):
        raise InvalidInput(str(path), "rootfs.diff_ids", f"the digests of {len(layers)} layers")
    root = _Node(tarfile.TarInfo("."), -1)
    root.info.type, root.info.mode = tarfile.DIRTYPE, 0o755
    for number, (name, digest) in enumerate(zip(layers, told, strict=True)):
        with _layer(archive, name, path) as file:
            found = f"sha256:{hashlib.file_digest(_Bounded(file, limits.layer_bytes, path), 'sha256').hexdigest()}"
            if found != digest:
                raise InvalidInput(str(path), name, f"a layer with the digest {digest}", f"it is {found}")
            file.seek(0)
            with tarfile.open(fileobj=file, mode="r:") as layer:
                _merge(root, layer, number, limits, path)
    size_bytes = _total(root, limits, path)
    _make_folders(root, target)
    for number, name in enumerate(layers):
        with _layer(archive, name, path) as file, tarfile.open(fileobj=file, mode="r:") as layer:
            _write(root, layer, number, target, path)
    _finish(root, target)
    return size_bytes


class _Bounded:
    """A reader that refuses more than a number of bytes, for `hashlib.file_digest`."""

    def __init__(self, file: IO[bytes], most: int, path: Path) -> None:
        self._file, self._left, self._path = file, most, path

    def readinto(self, buffer: bytearray) -> int:
        """As of a file."""
        data = self._file.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise InvalidInput(str(self._path), "a layer", "layers within the limit of an image")
        buffer[: len(data)] = data
        return len(data)

    def readable(self) -> bool:
        """As of a file."""
        return True


def _parts(name: str, path: Path) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise InvalidInput(str(path), name, "names inside the image's root")
    return parts


def _merge(root: _Node, layer: tarfile.TarFile, number: int, limits: ImageLimits, path: Path) -> None:
    for count, info in enumerate(layer, start=1):
        _check_count("files of a layer", count, limits.files, path)
        parts = _parts(info.name, path)
        if not parts:
            if info.isdir():
                root.info.mode, root.info.uid, root.info.gid = info.mode, info.uid, info.gid
            continue
        parent, last = _parent(root, parts, number), parts[-1]
        if last == _OPAQUE:
            parent.children = {name: node for name, node in parent.children.items() if node.layer == number}
        elif last.startswith(_WHITEOUT):
            parent.children.pop(last.removeprefix(_WHITEOUT), None)
        elif info.isdir() or info.isreg() or info.islnk() or info.issym():
            before = parent.children.get(last)
            kept = before.children if before is not None and info.isdir() else {}
            parent.children[last] = _Node(info, number, kept)


def _parent(root: _Node, parts: list[str], number: int) -> _Node:
    """The folder above; what is no folder there is replaced by one, as a layer's own entry would."""
    node = root
    for name in parts[:-1]:
        below = node.children.get(name)
        if below is None or not below.info.isdir():
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            below = node.children[name] = _Node(info, number)
        node = below
    return node


def _walk(node: _Node, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], _Node]]:
    waiting = [(at, node)]
    while waiting:
        place, found = waiting.pop()
        yield place, found
        waiting += [((*place, name), child) for name, child in found.children.items()]


def _total(root: _Node, limits: ImageLimits, path: Path) -> int:
    """The bytes of all files. Raises `InvalidInput` beyond the limits."""
    nodes = [node for _, node in _walk(root)]
    _check_count("files", len(nodes), limits.files, path)
    total = sum(node.info.size for node in nodes if node.info.isreg())
    if total > limits.bytes:
        raise InvalidInput(str(path), f"{total} bytes unpacked", f"at most {limits.bytes}")
    return total


def _check_count(what: str, number: int, most: int, path: Path) -> None:
    if number > most:
        raise InvalidInput(str(path), f"{number} {what}", f"at most {most}")


def _make_folders(root: _Node, target: Path) -> None:
    for place, node in _walk(root):
        if place and node.info.isdir():
            target.joinpath(*place).mkdir()


def _write(root: _Node, layer: tarfile.TarFile, number: int, target: Path, path: Path) -> None:
    """The files of one layer that are in the merged image, in the layer's order, so that a hard link's file is there
    before it.
    """
    for info in layer:
        parts = _parts(info.name, path)
        node = root
        for name in parts:
            below = node.children.get(name)
            if below is None:
                break
            node = below
        else:
            if parts and node.layer == number and node.info.offset == info.offset and not info.isdir():
                _write_one(root, layer, info, target.joinpath(*parts), target, path)


def _write_one(
    root: _Node, layer: tarfile.TarFile, info: tarfile.TarInfo, place: Path, target: Path, path: Path
) -> None:
    if info.issym():
        place.symlink_to(info.linkname)
    elif info.islnk():
        source = target.joinpath(*_parts(info.linkname, path))
        # every folder on the way was made here; the file itself may be a link, which is linked and not followed
        if _folder_made(root, _parts(info.linkname, path)) and os.path.lexists(source):
            os.link(source, place, follow_symlinks=False)
            return
        raise InvalidInput(str(path), f"{info.name} -> {info.linkname}", "a hard link to a file of the image")
    else:
        file = layer.extractfile(info)
        assert file is not None
        with place.open("xb") as out:
            shutil.copyfileobj(file, out, 1 << 20)
    os.chown(place, info.uid, info.gid, follow_symlinks=False)
    if not info.issym():
        place.chmod(info.mode & 0o7777)
        os.utime(place, (info.mtime, info.mtime))


def _folder_made(root: _Node, parts: list[str]) -> bool:
    node = root
    for name in parts[:-1]:
        below = node.children.get(name)
        if below is None or not below.info.isdir():
            return False
        node = below
    return True


def _finish(root: _Node, target: Path) -> None:
    """Owners and modes of folders, after what is in them was written."""
    for place, node in _walk(root):
        if node.info.isdir():
            folder = target.joinpath(*place)
            os.chown(folder, node.info.uid, node.info.gid)
            folder.chmod(node.info.mode & 0o7777)


def _config(name: str, config: dict[str, object], archive: tarfile.TarFile, path: Path, size_bytes: int) -> ImageConfig:
    digest = f"sha256:{hashlib.sha256(_document(archive, name, path)).hexdigest()}"
    said = config.get("config")
    started = said if isinstance(said, dict) else {}

    def words(key: str) -> tuple[str, ...]:
        value = started.get(key) or ()
        if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
            raise InvalidInput(str(path), key, "a list of text")
        return tuple(value)

    return ImageConfig(
        words("Entrypoint"),
        words("Cmd"),
        words("Env"),
        str(started.get("WorkingDir") or "/"),
        str(started.get("User") or ""),
        digest,
        size_bytes,
    )
