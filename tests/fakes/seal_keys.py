"""A scheduler's key and certificate for tests, without files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from cotenant.drivers.seals.seals import CERTIFICATE_FILE, KEY_FILE, Certified, Sealer, Seals

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
KEYS_SINCE_S = SINCE.timestamp()
SCHEDULER = "cotenant"


@cache
def keys(seed: int = 1) -> tuple[Sealer, Seals]:
    """A pair, the same for a seed; pods are sealed at any time."""
    key = Ed25519PrivateKey.from_private_bytes(bytes([seed] * 32))
    return Sealer(key), Seals([Certified(key.public_key())])


def strict(since_s: float = KEYS_SINCE_S) -> Seals:
    """Seals of the first pair; the scheduler `SCHEDULER` states class and quota of every pod that was created since."""
    key = Ed25519PrivateKey.from_private_bytes(bytes([1] * 32))
    return Seals([Certified(key.public_key(), since_s, frozenset({SCHEDULER}))])


def write_pair(folder: Path, seed: int = 1) -> None:
    """The files, as a Secret is mounted; sealed from `SINCE` on."""
    key = Ed25519PrivateKey.from_private_bytes(bytes([seed] * 32))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cotenant-seal")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(SINCE)
        .not_valid_after(SINCE + timedelta(days=36500))
        .sign(key, None)
    )
    (folder / CERTIFICATE_FILE).write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / KEY_FILE).write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
