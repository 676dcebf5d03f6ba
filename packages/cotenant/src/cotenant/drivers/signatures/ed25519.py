"""Ed25519 signatures with keys as `openssl genpkey -algorithm ed25519` writes them.

Who ships a file signs it with a private key, and whoever is to believe it has the public keys of those that it trusts,
a file each in one folder. A signature names no key: the few that there are, are tried.
Limits: no expiry and no chain; a key is withdrawn by removing its file, which is read at the start.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.model.errors import InvalidInput

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_KEYS = "*.pem"
_MAX_KEYS = 64


class Signer:
    """Signs with one private key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def of_file(cls, path: Path, field: str) -> Signer:
        """Read the key. `field`: named in errors. Raises `InvalidInput`."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        expected = "a private Ed25519 key as PEM without a password"
        hint = "openssl genpkey -algorithm ed25519 makes one"
        try:
            key = load_pem_private_key(_read(path, field), None)
        except (ValueError, TypeError):
            raise InvalidInput(field, str(path), expected, hint) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidInput(field, str(path), expected, hint)
        return cls(key)

    def sign(self, text: bytes) -> str:
        """The signature over a text, as base64."""
        return base64.b64encode(self._key.sign(text)).decode("ascii")


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """Public keys by the names of their files. `place`: where they are from, for errors."""

    place: str
    keys: tuple[tuple[str, Ed25519PublicKey], ...]

    @classmethod
    def of_folder(cls, folder: Path, field: str) -> TrustedKeys:
        """Read each *.pem of a folder. `field`: named in errors. Raises `InvalidInput`, also for a folder without
        one.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        expected = "public Ed25519 keys as PEM"
        hint = "openssl pkey -in KEY -pubout -out NAME.pem writes one"
        files = sorted(folder.glob(_KEYS))
        if not files or len(files) > _MAX_KEYS:
            raise InvalidInput(field, str(folder), f"a folder with 1 to {_MAX_KEYS} {_KEYS} files, {expected}", hint)
        found = []
        for path in files:
            try:
                key = load_pem_public_key(_read(path, field))
            except ValueError:
                raise InvalidInput(field, str(path), expected, hint) from None
            if not isinstance(key, Ed25519PublicKey):
                raise InvalidInput(field, str(path), expected, hint)
            found.append((path.stem, key))
        return cls(str(folder), tuple(found))

    def signer_of(self, text: bytes, signature: str) -> str | None:
        """The name of the key that signed this text; None where none of them did."""
        from cryptography.exceptions import InvalidSignature

        try:
            signed = base64.b64decode(signature, validate=True)
        except (binascii.Error, ValueError):
            return None
        for name, key in self.keys:
            try:
                key.verify(signed, text)
            except InvalidSignature:
                continue
            return name
        return None


def _read(path: Path, field: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(field, str(path), "a file that can be read", error.strerror or "") from None
