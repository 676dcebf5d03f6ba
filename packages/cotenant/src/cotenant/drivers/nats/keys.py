"""Nkeys: Ed25519 keys as NATS writes them. The seed stays with its owner; the server knows the public key."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

from cotenant.drivers.http.private_files import write_private
from cotenant.model.errors import InvalidInput, Unsupported


def public_key(seed: str) -> str:
    """The public key (U...) of a user's seed. Raises `InvalidInput`."""
    nkeys = _library()
    try:
        key: bytes = nkeys.from_seed(bytearray(seed.encode())).public_key
    except Exception as error:  # the library raises several, binascii's among them
        raise InvalidInput(
            "--key", "a seed", "the file of an nkey's seed (SU...)", "cotenant fleet keys makes them"
        ) from error
    return key.decode()


def kept_seed(path: Path) -> str:
    """The seed of this file; made, readable by its owner only, where there is none."""
    if path.exists():
        return read_seed(path)
    nkeys = _library()
    seed: str = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER).decode()
    write_private(path, seed + "\n")
    return seed


def read_seed(path: Path) -> str:
    """The seed in a file. Raises `InvalidInput`."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("--key", str(path), "the file of an nkey's seed", str(error)) from error


def _library() -> ModuleType:
    try:
        import nkeys
    except ImportError as error:
        raise Unsupported("keys of the fleet", "nkeys: pip install 'cotenant[fleet]'") from error
    return nkeys
