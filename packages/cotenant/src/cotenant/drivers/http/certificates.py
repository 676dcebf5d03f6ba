"""Generated certificates: a certificate authority of our own, and a server certificate that it signs.

A token must not cross a network in clear text, and a machine without a certificate still has to listen. An ECDSA P-256
authority, made on first use and kept in a directory (keys 0600); a server certificate for the names and addresses that
are served, made anew at each start. Clients verify by the authority, which the kubeconfig carries. The parts are
functions of their own, for who keeps and rotates certificates elsewhere.
Limits: `ensure` does not rotate while running; its server certificate is valid for a year.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.drivers.http.private_files import write_private
from cotenant.model.errors import InvalidInput

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_AUTHORITY_DAYS = 3650
_SERVER_DAYS = 365


@dataclass(frozen=True, slots=True)
class Certificates:
    """Where the PEM files are. `authority_pem` goes into kubeconfigs."""

    certificate: Path
    key: Path
    authority_pem: bytes


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, as PEM text."""

    certificate: str
    key: str


@dataclass(frozen=True, slots=True)
class Validity:
    """From when to when a certificate holds, and the names and addresses it is for."""

    start: datetime.datetime
    end: datetime.datetime
    hosts: tuple[str, ...] = ()


def new_authority(name: str, now: datetime.datetime, days: int = _AUTHORITY_DAYS) -> Pair:
    """A certificate authority: ECDSA P-256, self-signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    made = (
        _builder(name, now, days)
        .issuer_name(_named(name))
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(_certificate_pem(made), _key_pem(key))


def new_server(
    authority: Pair, name: str, hosts: tuple[str, ...], now: datetime.datetime, days: int = _SERVER_DAYS
) -> Pair:
    """A server certificate for `hosts` (names or addresses). Raises `ValueError` for an authority that cannot be
    read.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    issuer_key = serialization.load_pem_private_key(authority.key.encode(), None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey) or issuer_key.public_key() != issuer.public_key():
        raise ValueError("the key is not that of the authority's certificate")
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    made = (
        _builder(name, now, days)
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return Pair(_certificate_pem(made), _key_pem(key))


def validity(certificate: str) -> Validity:
    """When a certificate (PEM) holds and for whom. Raises `ValueError` where it cannot be read."""
    from cryptography import x509

    found = x509.load_pem_x509_certificate(certificate.encode())
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Validity(found.not_valid_before_utc, found.not_valid_after_utc)
    dns = names.get_values_for_type(x509.DNSName)
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return Validity(found.not_valid_before_utc, found.not_valid_after_utc, (*dns, *addresses))


def ensure(directory: Path, hosts: tuple[str, ...], now: datetime.datetime) -> Certificates:
    """The authority of a directory (made if absent) and a fresh server certificate for `hosts` (names or addresses).

    Raises `InvalidInput` for an authority that cannot be read, `OSError` where the directory cannot be written.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    ca_file, ca_key_file = directory / "ca.crt", directory / "ca.key"
    if ca_file.exists() and ca_key_file.exists():
        try:
            certificate = x509.load_pem_x509_certificate(ca_file.read_bytes())
        except (OSError, ValueError) as error:
            raise _broken(ca_file, "a certificate as PEM") from error
        try:
            key = serialization.load_pem_private_key(ca_key_file.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:  # TypeError: the key has a passphrase
            raise _broken(ca_key_file, "a private key as PEM, without passphrase") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise _broken(ca_key_file, "the elliptic-curve key of ca.crt beside it")
        authority = Pair(_certificate_pem(certificate), _key_pem(key))
    else:
        authority = new_authority("cotenant-ca", now)
        write_private(ca_key_file, authority.key)
        write_private(ca_file, authority.certificate)
    server = new_server(authority, "cotenant-apiserver", hosts, now)
    write_private(directory / "server.key", server.key)
    write_private(directory / "server.crt", server.certificate)
    return Certificates(directory / "server.crt", directory / "server.key", authority.certificate.encode())


def _named(text: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(name: str, now: datetime.datetime, days: int) -> x509.CertificateBuilder:
    from cryptography import x509

    start = now - datetime.timedelta(minutes=5)  # a client's clock may be behind
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=days))
    )


def _certificate_pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _broken(path: Path, expected: str) -> InvalidInput:
    hint = f"delete {path.parent} to have new certificates made; clients then need the new kubeconfig"
    return InvalidInput("certificate authority", str(path), expected, hint)
