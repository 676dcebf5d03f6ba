"""A key of its own for a scheduler whose cluster has nobody to give it one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from cotenant.drivers.http.private_files import write_private
from cotenant.drivers.seals.seals import CERTIFICATE_FILE, KEY_FILE

_DAYS = 36500


def ensure_pair(folder: Path, now: datetime, schedulers: Iterable[str] = ()) -> None:
    """Key and certificate in a folder, made where one of the two is missing: pods from before `now` are then
    checked. `schedulers`: as `Seals` has it. Raises `OSError`.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.x509.oid import NameOID

    key_file, certificate_file = folder / KEY_FILE, folder / CERTIFICATE_FILE
    folder.mkdir(mode=0o700, exist_ok=True)
    if key_file.exists() and certificate_file.exists():
        return
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cotenant-seal")])
    names = x509.SubjectAlternativeName([x509.DNSName(scheduler) for scheduler in schedulers])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=_DAYS))
    )
    made = (builder.add_extension(names, critical=False) if list(names) else builder).sign(key, None)
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    write_private(key_file, key.private_bytes(serialization.Encoding.PEM, form, plain).decode())
    write_private(certificate_file, made.public_bytes(serialization.Encoding.PEM).decode())
