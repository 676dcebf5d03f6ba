"""Generated certificates: a certificate authority of our own, and a server certificate that it signs.

Problem: a token must not cross a network in clear text, and a machine without a certificate still has to listen. Choice: an ECDSA P-256
authority, made on first use and kept in a directory (keys 0600); a server certificate for the names and addresses that are served, made anew at
each start. Clients verify by the authority, which the kubeconfig carries. Limits: no rotation while running; valid for a year.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.http.private_files import write_private
from cotenant.model.errors import InvalidInput

_AUTHORITY_DAYS = 3650
_SERVER_DAYS = 365


@dataclass(frozen=True, slots=True)
class Certificates:
    """Where the PEM files are. `authority_pem` goes into kubeconfigs."""

    certificate: Path
    key: Path
    authority_pem: bytes


def ensure(directory: Path, hosts: tuple[str, ...], now: datetime.datetime) -> Certificates:
    """The authority of a directory (made if absent) and a fresh server certificate for `hosts` (names or addresses).

    Raises `InvalidInput` for an authority that cannot be read, `OSError` where the directory cannot be written.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    ca_file, ca_key_file = directory / "ca.crt", directory / "ca.key"
    start = now - datetime.timedelta(minutes=5)

    def pem(key: ec.EllipticCurvePrivateKey) -> str:
        return key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    if ca_file.exists() and ca_key_file.exists():
        try:
            authority = x509.load_pem_x509_certificate(ca_file.read_bytes())
        except (OSError, ValueError) as error:
            raise _broken(ca_file, "a certificate as PEM") from error
        try:
            loaded = serialization.load_pem_private_key(ca_key_file.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:  # TypeError: the key has a passphrase
            raise _broken(ca_key_file, "a private key as PEM, without passphrase") from error
        if not isinstance(loaded, ec.EllipticCurvePrivateKey) or loaded.public_key() != authority.public_key():
            raise _broken(ca_key_file, "the elliptic-curve key of ca.crt beside it")
        authority_key = loaded
    else:
        authority_key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        authority = (
            x509.CertificateBuilder()
            .subject_name(named("cotenant-ca"))
            .issuer_name(named("cotenant-ca"))
            .public_key(authority_key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + datetime.timedelta(days=_AUTHORITY_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        write_private(ca_key_file, pem(authority_key))
        write_private(ca_file, authority.public_bytes(serialization.Encoding.PEM).decode())

    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(named("cotenant-apiserver"))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=_SERVER_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    chain = certificate.public_bytes(serialization.Encoding.PEM).decode()
    write_private(directory / "server.key", pem(key))
    write_private(directory / "server.crt", chain)
    return Certificates(
        directory / "server.crt", directory / "server.key", authority.public_bytes(serialization.Encoding.PEM)
    )


def _broken(path: Path, expected: str) -> InvalidInput:
    hint = f"delete {path.parent} to have new certificates made; clients then need the new kubeconfig"
    return InvalidInput("certificate authority", str(path), expected, hint)
