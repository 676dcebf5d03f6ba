"""The certificates of one Service: what is made, when it is renewed, and in which order an authority is replaced.

Clients trust a bundle that was given to them, and a server certificate that the bundle does not cover stops every call
(for an API server: every review). `advance` is a pure step from what is kept to what should be kept. A new authority
enters the bundle `OVERLAP` before it signs anything; the old one stays in the bundle until it ends. So each bundle
covers the certificates that replicas serve while it is distributed. Renewal begins when a third of the time is left.
Limits: what cannot be read is made anew at once, and calls fail until the bundle is distributed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cotenant.drivers.http.certificates import Pair, new_authority, new_server, validity

AUTHORITY_DAYS, SERVER_DAYS = 365, 90
OVERLAP = timedelta(minutes=10)
_LEFT = 3  # renewal when 1 / 3 of the time is left
_BEFORE = timedelta(minutes=5)  # certificates begin so long before they are made
_KEYS = ("tls.crt", "tls.key", "signer.crt", "signer.key")


@dataclass(frozen=True, slots=True)
class Material:
    """What is kept in the Secret. `signer` signs; `successor` is trusted already; `retired` are older authorities,
    still trusted.
    """

    server: Pair
    signer: Pair
    successor: Pair | None = None
    retired: tuple[str, ...] = ()

    @property
    def bundle(self) -> str:
        """The authorities that an API server must trust, PEM."""
        successor = () if self.successor is None else (self.successor.certificate,)
        return "".join((self.signer.certificate, *successor, *self.retired))

    def values(self) -> dict[str, str]:
        """As the values of a Secret; `ca.crt` is the bundle."""
        return {
            "tls.crt": self.server.certificate,
            "tls.key": self.server.key,
            "signer.crt": self.signer.certificate,
            "signer.key": self.signer.key,
            "retired.crt": "".join(self.retired),
            "successor.crt": self.successor.certificate if self.successor else "",
            "successor.key": self.successor.key if self.successor else "",
            "ca.crt": self.bundle,
        }


def read_material(values: dict[str, str]) -> Material | None:
    """What a Secret keeps; None where it is incomplete."""
    if not all(values.get(key) for key in _KEYS):
        return None
    successor = (values.get("successor.crt", ""), values.get("successor.key", ""))
    end = "-----END CERTIFICATE-----\n"
    retired = tuple(part + end for part in values.get("retired.crt", "").split(end) if part.strip())
    return Material(
        Pair(values["tls.crt"], values["tls.key"]),
        Pair(values["signer.crt"], values["signer.key"]),
        Pair(*successor) if all(successor) else None,
        retired,
    )


def advance(kept: Material | None, hosts: tuple[str, ...], now: datetime, name: str = "cotenant-webhook") -> Material:
    """What should be kept now; equal to `kept` where nothing is due. `hosts`: names and addresses that are served.
    `name` is the common name of new ones.
    """
    if kept is None:
        return _made(hosts, now, name)
    try:
        return _advanced(kept, hosts, now, name)
    except ValueError:  # not certificates, or not a pair
        return _made(hosts, now, name)


def _made(hosts: tuple[str, ...], now: datetime, name: str) -> Material:
    signer = new_authority(f"{name}-ca", now, AUTHORITY_DAYS)
    return Material(new_server(signer, name, hosts, now, SERVER_DAYS), signer)


def _advanced(kept: Material, hosts: tuple[str, ...], now: datetime, name: str) -> Material:
    found = replace(kept, retired=tuple(entry for entry in kept.retired if validity(entry).end > now))
    renews = False
    if _is_due(found.signer.certificate, now):
        successor = found.successor or new_authority(f"{name}-ca", now, AUTHORITY_DAYS)
        trusted_since = validity(successor.certificate).start + _BEFORE
        if now - trusted_since >= OVERLAP or validity(found.signer.certificate).end <= now:
            found = Material(found.server, successor, None, (found.signer.certificate, *found.retired))
            renews = True
        else:
            found = replace(found, successor=successor)
    if renews or _is_due(found.server.certificate, now) or set(validity(found.server.certificate).hosts) != set(hosts):
        found = replace(found, server=new_server(found.signer, name, hosts, now, SERVER_DAYS))
    return found


def _is_due(certificate: str, now: datetime) -> bool:
    held = validity(certificate)
    return held.end - now < (held.end - held.start) / _LEFT
