"""Nkeys: Ed25519 keys as NATS writes them. The seed stays with its owner; the server knows the public key."""

from __future__ import annotations

import base64
import binascii
import os
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any

from cotenant.drivers.http.private_files import write_private
from cotenant.model.errors import InvalidInput, Unsupported


class KeyKind(StrEnum):
    """Whose a key is; its public form begins with U, A or O."""

    USER = "user"
    ACCOUNT = "account"
    OPERATOR = "operator"


def public_key(seed: str) -> str:
    """The public key (U..., A..., O...) of a seed. Raises `InvalidInput`."""
    key: bytes = _pair(seed).public_key
    return key.decode()


def signature(seed: str, data: bytes) -> bytes:
    """By a seed. Raises `InvalidInput`."""
    found: bytes = _pair(seed).sign(data)
    return found


def is_signed_by(public: str, data: bytes, signed: bytes) -> bool:
    """Whether the owner of a public key (U...) signed the data. Raises `InvalidInput` for what is no public key."""
    _library()
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    check_public_key("public key", public)
    raw = base64.b32decode(public + "=" * (-len(public) % 8))
    try:
        VerifyKey(raw[1:33]).verify(data, signed)
    except (BadSignatureError, ValueError):  # the second: of another length
        return False
    return True


def check_public_key(field: str, public: str) -> None:
    """Raises `InvalidInput` for what is no user's public key; a slip of a letter is noticed by the checksum."""
    nkeys = _library()
    expected = "an nkey's public key (U... of 56 letters)"
    try:
        raw = base64.b32decode(public + "=" * (-len(public) % 8))
    except (binascii.Error, ValueError):
        raise InvalidInput(field, public[:60], expected) from None
    if len(raw) != 35 or raw[0] != nkeys.PREFIX_BYTE_USER:
        raise InvalidInput(field, public[:60], expected)
    if nkeys.crc16(bytearray(raw[:33])) != int.from_bytes(raw[33:], "little"):
        raise InvalidInput(field, public[:60], expected, "its checksum is wrong")


def made_seed(kind: KeyKind = KeyKind.USER) -> str:
    """A new one."""
    nkeys = _library()
    prefixes = {
        KeyKind.USER: nkeys.PREFIX_BYTE_USER,
        KeyKind.ACCOUNT: nkeys.PREFIX_BYTE_ACCOUNT,
        KeyKind.OPERATOR: nkeys.PREFIX_BYTE_OPERATOR,
    }
    seed: str = nkeys.encode_seed(os.urandom(32), prefixes[kind]).decode()
    return seed


def kept_seed(path: Path, kind: KeyKind = KeyKind.USER) -> str:
    """The seed of this file; made, readable by its owner only, where there is none."""
    if path.exists():
        return read_seed(path)
    seed = made_seed(kind)
    write_private(path, seed + "\n")
    return seed


def _pair(seed: str) -> Any:
    nkeys = _library()
    try:
        return nkeys.from_seed(bytearray(seed.encode()))
    except Exception as error:  # the library raises several, binascii's among them
        raise InvalidInput(
            "--key", "a seed", "the file of an nkey's seed (SU...)", "cotenant fleet keys makes them"
        ) from error


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
