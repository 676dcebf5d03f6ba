"""What a zone's package says that it has: a list of its files with their SHA-256 sums, and a signature over the list.

The list is the first member, the signature, where there is one, the second; each file follows from the list by its sum,
so whoever signs the list signs the package. Both are kept beside the files when a package is unpacked, so that who
starts the zone later can still tell who signed what.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cotenant.drivers.signatures.ed25519 import TrustedKeys
from cotenant.model.errors import InvalidInput
from cotenant.services.zones.pods import NAME

MANIFEST, SIGNATURE, ZONE = "manifest.json", "manifest.sig", "zone.yaml"
VERSION = 1
MAX_MANIFEST = 1 << 20
MAX_SIGNATURE = 1 << 10
MAX_FILES = 64
MAX_BYTES = 16 << 30
EXPECTED = "a zone's package, as `cotenant zone pack` writes it"
_PURPOSE = b"cotenant zone package\n"  # a signature of anything else by the same key is none of a package


@dataclass(frozen=True, slots=True)
class Packed:
    """What a package has: its zone, and each file with its sum and size. `text`: the list as it is written;
    `signature`: over it, "" for none.
    """

    zone: str
    files: dict[str, tuple[str, int]]
    text: bytes
    signature: str = ""

    def signer(self, keys: TrustedKeys, where: str) -> str:
        """Whose key signed it. Raises `InvalidInput`; `where` names the package."""
        if not self.signature:
            raise InvalidInput(where, "no signature", f"one by a key of {keys.place}", "cotenant zone pack --sign KEY")
        name = keys.signer_of(signed_text(self.text), self.signature)
        if name is None:
            names = ", ".join(name for name, _ in keys.keys)
            raise InvalidInput(f"{where}: signature", "of another key or text", f"by a key of {keys.place}: {names}")
        return name


class _FileEntry(msgspec.Struct, forbid_unknown_fields=True):
    sha256: str
    bytes: int


class _Manifest(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    zone: str
    files: dict[str, _FileEntry]


def signed_text(manifest: bytes) -> bytes:
    """What is signed of a package."""
    return _PURPOSE + manifest


def manifest_text(zone: str, files: Mapping[str, tuple[str, int]]) -> bytes:
    """The list as it is written."""
    entries = {name: {"sha256": digest, "bytes": size} for name, (digest, size) in files.items()}
    return json.dumps({"version": VERSION, "zone": zone, "files": entries}, indent=1).encode()


def read_list(text: bytes, signature: bytes, where: str) -> Packed:
    """What a list says. `where`: the package, for errors. Raises `InvalidInput`."""
    try:
        manifest = msgspec.json.decode(text, type=_Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{where}: {MANIFEST}", str(error), EXPECTED) from error
    if manifest.version != VERSION:
        raise InvalidInput(f"{where}: version", manifest.version, f"{VERSION}")
    if not NAME.fullmatch(manifest.zone):  # part of a path where the package is unpacked
        raise InvalidInput(f"{where}: zone", manifest.zone, "1 to 40 of a-z, 0-9 and -")
    files = {name: (found.sha256, found.bytes) for name, found in manifest.files.items()}
    if ZONE not in files or len(files) > MAX_FILES or sum(size for _, size in files.values()) > MAX_BYTES:
        raise InvalidInput(f"{where}: {MANIFEST}", len(files), f"{ZONE} and at most {MAX_FILES} files")
    for name, (_, size) in files.items():
        folder, _, last = name.rpartition("/")
        is_file = last not in ("", ".", "..") and "\0" not in last and (folder or last == ZONE)
        if folder not in ("", "images", "kernel") or not is_file:
            raise InvalidInput(f"{where}: {MANIFEST}", name, f"{ZONE} and files in images and kernel")
        if size < 0:
            raise InvalidInput(f"{where}: {MANIFEST}", size, f"the bytes of {name}, 0 or more")
    return Packed(manifest.zone, files, text, signature.decode("ascii", "replace").strip())


def unpacked_list(folder: Path) -> Packed | None:
    """What the package had that was unpacked into this folder; None where none was. Raises `InvalidInput`."""
    try:
        text = _bounded(folder / MANIFEST, MAX_MANIFEST)
    except FileNotFoundError:
        return None
    try:
        signature = _bounded(folder / SIGNATURE, MAX_SIGNATURE)
    except FileNotFoundError:
        signature = b""
    return read_list(text, signature, str(folder))


def _bounded(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            text = file.read(most + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InvalidInput(str(path), error.strerror or "unreadable", EXPECTED) from error
    if len(text) > most:
        raise InvalidInput(str(path), "too large", f"at most {most} bytes")
    return text
