"""The server side of TLS, from certificate files that are given.

OpenSSL's errors do not say which of two files is at fault. The files are read and checked one by one, so that an error
names the file and what to do; changed files are loaded while the server runs, so that certificates can be renewed in
place.
Limits: TLS 1.2 or later; keys without passphrase; a renewed certificate applies to new connections.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.http.trust import trusting
from cotenant.model.errors import InvalidInput

CERTIFICATE, KEY, CLIENT_CA = "--tls-cert", "--tls-key", "--client-ca"


@dataclass(frozen=True, slots=True)
class Tls:
    """A server's certificate chain and key, as PEM files; with `client_ca` every client must present a certificate
    that it signed.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """A context for `loop.create_server`. Raises `InvalidInput`."""
        context = trusting(purpose=ssl.Purpose.CLIENT_AUTH)
        self.load(context)
        if self.client_ca is not None:
            _check_certificates(CLIENT_CA, self.client_ca)
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Read the certificate and its key. Raises `InvalidInput`."""
        _check_certificates(CERTIFICATE, self.certificate)
        key = _read(KEY, self.key)
        if b"ENCRYPTED" in key:
            raise InvalidInput(
                KEY, str(self.key), "a key without passphrase", "openssl pkey -in KEY -out NEW removes the passphrase"
            )
        try:
            context.load_cert_chain(self.certificate, self.key, password=lambda: b"")
        except (OSError, ssl.SSLError, ValueError) as error:
            if "MISMATCH" in str(error).upper():
                raise InvalidInput(
                    KEY, str(self.key), f"the key of {self.certificate}", "the two files are not a pair"
                ) from error
            raise InvalidInput(KEY, str(self.key), "a private key as PEM", str(error)) from error

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """Changes when the files do; empty while one is missing."""
        with suppress(OSError):
            return tuple((found.st_mtime_ns, found.st_ino) for found in (self.certificate.stat(), self.key.stat()))
        return ()


def tls_of(certificate: Path | None, key: Path | None) -> Tls | None:
    """What the two options say; None without them. Raises `InvalidInput` where one is missing, or the files cannot
    be used.
    """
    if certificate is None or key is None:
        if certificate is not None or key is not None:
            raise InvalidInput(f"{CERTIFICATE}, {KEY}", str(certificate or key), "both or neither")
        return None
    tls = Tls(certificate, key)
    tls.context()  # a file that is missing or unfit is reported before anything that takes seconds
    return tls


def _check_certificates(field: str, path: Path) -> None:
    _read(field, path)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(field, str(path), "certificates as PEM", str(error)) from error


def _read(field: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(field, str(path), "a readable file as PEM", error.strerror or "") from error
