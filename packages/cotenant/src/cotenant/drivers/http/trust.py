"""The client side of TLS: which certificate authorities are trusted.

Since Python 3.13 `ssl.create_default_context` sets `VERIFY_X509_STRICT`, which refuses certificates without an
Authority Key Identifier. Clusters in use have such certificates, and kubectl, kubelet and kube-scheduler accept them.
Chains, names and dates are verified as they do; the strict form of RFC 5280 is not required. Clients that run for
longer than an authority of ours read its file again when it has changed (`TlsTrust`).
Limits: a certificate that only the strict form would refuse is accepted on every Python alike; open connections go on
with what they were opened with.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from cotenant.model.errors import InvalidInput


def trusting(authorities: Path | str | None = None, purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> ssl.SSLContext:
    """A context that trusts the given authorities: a PEM file, a PEM text, or None for the machine's own.

    Raises `ssl.SSLError` or `ValueError` for a text that holds no certificate, `OSError` for a file that cannot be
    read.
    """
    file = authorities if isinstance(authorities, Path) else None
    text = authorities if isinstance(authorities, str) else None
    context = ssl.create_default_context(purpose, cafile=file, cadata=text)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


class TlsTrust:
    """What `ssl=` of an aiohttp request should be; read it for each."""

    def __init__(self, ca_file: Path | None = None, field: str = "ca_file") -> None:
        """`ca_file`: certificates as PEM; `field` names the setting in errors."""
        self._file, self._field = ca_file, field
        self._stamp: tuple[int, int] | None = None
        self._context: ssl.SSLContext | bool = True

    def context(self) -> ssl.SSLContext | bool:
        """A context with the file's authorities; True, the default, without a file. Raises `InvalidInput` where it
        cannot be read.
        """
        if self._file is None:
            return True
        try:
            found = self._file.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._stamp:
                self._context, self._stamp = trusting(self._file), stamp
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput(
                self._field, str(self._file), "certificates as PEM", getattr(error, "strerror", None) or str(error)
            ) from error
        return self._context
