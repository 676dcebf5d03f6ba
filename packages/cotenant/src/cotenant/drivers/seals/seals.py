"""Signing and checking seals: Ed25519, with a key that only the scheduler has, and a certificate that everybody may
read.

Every node's agent has to check what a scheduler gave, and a secret that every node has is none. A key pair: agents have
the certificate. The certificate's `notBefore` says since when pods are sealed: pods created before it, or within
`GRACE_S` after it (replicas that are being replaced bind without a seal), are checked by what they are entitled to. A
pod's creation time is written by the API server. A certificate's DNS names are the names of the schedulers
(`spec.schedulerName`) that state class and quota of every pod that they bind: of theirs, what nobody stated does not
count. One without names, made by hand or before there were statements, makes no such promise.

Several certificates, in a file or in `BUNDLE_FILE` beside it, serve a change of keys, schedulers of other names with
the same key, and other installations. Of one key, the certificate that was the last when a pod was created says whose
pods are stated; keys add up, unless one of them has no names, which may be any scheduler's.
Limits: files are read at the start; a certificate's end is not looked at; checks are kept, so that a pod is checked
once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cotenant.model.cluster.seal import SEAL, SEALED, SealStanding, Values, sealed_text, settled_text
from cotenant.model.errors import InvalidInput

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.x509 import Certificate

GRACE_S = 600.0
KEY_FILE, CERTIFICATE_FILE = "tls.key", "tls.crt"
BUNDLE_FILE = "bundle.crt"  # further certificates, beside the first
MAX_KEPT = 16384
_EXPECTED = "a certificate of an Ed25519 key, as PEM"


class Sealer:
    """Signs what the scheduler gives."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def of_file(cls, path: Path) -> Sealer:
        """Read the key. Raises `InvalidInput`."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(_read(path), None)
        except (ValueError, TypeError) as error:
            raise InvalidInput("seal key", str(path), "an Ed25519 key as PEM, without a password", str(error)) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidInput("seal key", str(path), "an Ed25519 key as PEM", "it is of another kind")
        return cls(key)

    def seal(self, uid: str, node: str, annotations: Mapping[str, str]) -> str:
        """The value of `SEAL`."""
        return self.sign(sealed_text(uid, node, annotations))

    def statement(self, uid: str, node: str, values: Values) -> str:
        """The value of `SETTLED`."""
        text = json.dumps(dict(values), separators=(",", ":"), sort_keys=True)
        return f"{text} {self.sign(settled_text(uid, node, values))}"

    def sign(self, text: bytes) -> str:
        """The signature over a text, as base64."""
        return base64.b64encode(self._key.sign(text)).decode("ascii")


@dataclass(frozen=True, slots=True)
class Certified:
    """What one certificate says."""

    key: Ed25519PublicKey
    since_s: float = 0.0  # Unix time since when pods are sealed
    schedulers: frozenset[str] = frozenset()  # names of those that state class and quota of every pod


class Seals:
    """Says how far a pod's holdings are believed. Without certificates everything is to be checked."""

    def __init__(self, certificates: Iterable[Certified] = ()) -> None:
        by_key: dict[bytes, list[Certified]] = {}
        for certified in sorted(certificates, key=lambda certified: certified.since_s):
            by_key.setdefault(certified.key.public_bytes_raw(), []).append(certified)
        self._by_key = tuple(map(tuple, by_key.values()))  # the oldest in front
        self._since_s = min((of_key[0].since_s for of_key in self._by_key), default=0.0)
        self._known: dict[bytes, bool] = {}  # by digest: what is refused may be long

    @classmethod
    def of_files(cls, *paths: Path) -> Seals:
        """Read the certificates. Raises `InvalidInput`."""
        return cls([certified for path in paths for certified in cls._in_file(path)])

    @staticmethod
    def _in_file(path: Path) -> list[Certified]:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.x509 import load_pem_x509_certificates

        try:
            found = load_pem_x509_certificates(_read(path))
            keys = tuple(certificate.public_key() for certificate in found)
        except ValueError as error:
            raise InvalidInput("seal certificate", str(path), _EXPECTED, str(error)) from None
        of_kind = tuple(key for key in keys if isinstance(key, Ed25519PublicKey))
        if not of_kind or len(of_kind) < len(keys):
            raise InvalidInput("seal certificate", str(path), _EXPECTED, "its key is of another kind")
        return [
            Certified(key, certificate.not_valid_before_utc.timestamp() + GRACE_S, _names(certificate))
            for key, certificate in zip(of_kind, found, strict=True)
        ]

    @property
    def checks(self) -> bool:
        """Whether there is a certificate."""
        return bool(self._by_key)

    def standing(self, uid: str, node: str, created_s: float, annotations: Mapping[str, str]) -> SealStanding:
        """How far what the annotations say that the pod holds is believed. `created_s` NaN: not known, which counts
        as new.
        """
        if not self._by_key:
            return SealStanding.CHECKED
        if not any(annotations.get(name) for name in SEALED):
            return SealStanding.CHECKED  # it claims nothing
        seal = annotations.get(SEAL) or ""
        if seal and self.is_right(sealed_text(uid, node, annotations), seal):
            return SealStanding.SEALED
        return SealStanding.CHECKED if created_s < self._since_s else SealStanding.REFUSED

    def settled(
        self, uid: str, node: str, scheduler: str, created_s: float, written: Values, statement: str
    ) -> Values | None:
        """What counts of a bound pod's class, quota and tenant instead of what is `written` on it; None = that.

        `statement`: its annotation `SETTLED`. `scheduler`: its `spec.schedulerName`, "" where it is not known.
        """
        if not self._by_key:
            return None
        stated = self._stated(uid, node, statement) if statement else None
        if stated is None:
            stated = {} if self._promised(scheduler, created_s) else written
        return None if stated == written else stated

    def _promised(self, scheduler: str, created_s: float) -> bool:
        """Whether the scheduler stated every pod that was created then. NaN: now."""
        named: list[frozenset[str]] = []
        for of_key in self._by_key:
            in_force = [certified.schedulers for certified in of_key if not created_s < certified.since_s]
            named += in_force[-1:]
        return all(named) and any(scheduler in names for names in named)

    def _stated(self, uid: str, node: str, statement: str) -> Values | None:
        text, _, seal = statement.rpartition(" ")
        try:
            values = msgspec.json.decode(text, type=dict[str, str])
        except (msgspec.DecodeError, UnicodeError):
            return None
        return values if self.is_right(settled_text(uid, node, values), seal) else None

    def is_right(self, text: bytes, seal: str) -> bool:
        """Whether the scheduler signed this text."""
        digest = hashlib.sha256(seal.encode() + b"\n" + text).digest()
        known = self._known.get(digest)
        if known is None:
            if len(self._known) >= MAX_KEPT:
                self._known.clear()
            known = self._known[digest] = self._verified(text, seal)
        return known

    def _verified(self, text: bytes, seal: str) -> bool:
        from cryptography.exceptions import InvalidSignature

        try:
            signature = base64.b64decode(seal, validate=True)
        except (binascii.Error, ValueError):
            return False
        for of_key in self._by_key:
            try:
                of_key[0].key.verify(signature, text)
            except InvalidSignature:
                continue
            return True
        return False


NO_SEALS = Seals()


def read_seals(path: Path | None) -> Seals:
    """The certificates of a file and of a bundle beside it. No keys for no file, or one that is not there: an
    optional ConfigMap. Raises `InvalidInput`.
    """
    files = [] if path is None else [file for file in (path, path.parent / BUNDLE_FILE) if file.exists()]
    return Seals.of_files(*files) if files else NO_SEALS


def unsealed(path: Path | None) -> str:
    """What it means that there is no certificate in this file, "" where there is one."""
    if path is not None and path.exists():
        return ""
    why = "" if path is None else f" ({path} is not there)"
    return f"no seal key{why}: what pods say that they hold is cross-checked only"


def read_seal(folder: Path | None) -> tuple[Sealer | None, Seals]:
    """Key and certificate of a folder, as a Secret of type `kubernetes.io/tls` is mounted. Nothing for no folder, or
    one without the two: an optional Secret that is not there.

    Raises `InvalidInput` for files that do not belong together.
    """
    if folder is None or not any((folder / name).exists() for name in (KEY_FILE, CERTIFICATE_FILE)):
        return None, NO_SEALS
    sealer, own = Sealer.of_file(folder / KEY_FILE), Seals.of_files(folder / CERTIFICATE_FILE)
    trial = sealed_text("", "", {})
    if not own.is_right(trial, sealer.sign(trial)):
        raise InvalidInput(
            "seal", str(folder), "a certificate of the key beside it", f"make {CERTIFICATE_FILE} of {KEY_FILE}"
        )
    return sealer, read_seals(folder / CERTIFICATE_FILE)


def _names(certificate: Certificate) -> frozenset[str]:
    from cryptography.x509 import DNSName, ExtensionNotFound, SubjectAlternativeName

    try:
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return frozenset()
    return frozenset(names.get_values_for_type(DNSName))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput("seal file", str(path), "a file that can be read", error.strerror or "") from None
