"""JWTs as nats-server reads them: an operator vouches for an account, the account for its users, each with its rights.

Beside keys in the server's file they allow users that are made at run time: whoever has the account's signing key for
programs may issue credentials, and the rights of that key are a template in the account, in which only the user's name
is free. So a controller can give a container the right to speak as its own random guid, and cannot give more.

Source: docs.nats.io, "JWTs in depth" and "Scoped signing keys"; nats-io/jwt, v2.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cotenant.drivers.nats.keys import made_seed, public_key, signature
from cotenant.model.json_object import JsonObject

_RESPONSES = {"max": 1, "ttl": 600 * 1_000_000_000}
_USER_LIMITS: JsonObject = {"subs": -1, "data": -1, "payload": -1}
_ACCOUNT_LIMITS: JsonObject = {
    **_USER_LIMITS,
    "imports": -1,
    "exports": -1,
    "wildcards": True,
    "conn": -1,
    "leaf": -1,
}
_STORE_LIMITS: JsonObject = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
NAME = "{{name()}}"  # in a template: the user's


@dataclass(frozen=True, slots=True)
class SubjectPermissions:
    """Subjects; answers to what was heard may be published in any case."""

    publish: Sequence[str]
    subscribe: Sequence[str]


def operator_jwt(seed: str, system_account: str, issued_s: int) -> str:
    """Of the operator, by itself."""
    claims = {"type": "operator", "version": 2, "system_account": system_account}
    return _signed(public_key(seed), "cotenant", claims, seed, issued_s)


def account_jwt(
    account: str,
    name: str,
    operator_seed: str,
    issued_s: int,
    signing: Mapping[str, SubjectPermissions] | None = None,
    revoked: Sequence[str] = (),
    *,
    stores: bool = False,
) -> str:
    """Of an account. `stores`: it may use JetStream, which a system account must not. `signing`: keys that may issue
    users with the rights of a template. `revoked`: keys of users whose credentials are good no longer.
    """
    claims: JsonObject = {"type": "account", "version": 2, "default_permissions": {}}
    claims["limits"] = _ACCOUNT_LIMITS | _STORE_LIMITS if stores else _ACCOUNT_LIMITS
    claims["signing_keys"] = [
        {"kind": "user_scope", "key": key, "role": "program", "template": {**_rights(template), **_USER_LIMITS}}
        for key, template in (signing or {}).items()
    ]
    if revoked:
        claims["revocations"] = dict.fromkeys(revoked, issued_s)
    return _signed(account, name, claims, operator_seed, issued_s)


def credentials(seed: str, name: str, account_seed: str, rights: SubjectPermissions, issued_s: int) -> str:
    """Of a user with its own rights: the text of a .creds file."""
    claims = {"type": "user", "version": 2, **_rights(rights), **_USER_LIMITS}
    return _file(_signed(public_key(seed), name, claims, account_seed, issued_s), seed)


def issued_credentials(name: str, signing_seed: str, account: str, issued_s: int) -> str:
    """Of a new user with the rights of the signing key's template."""
    seed = made_seed()
    claims = {"type": "user", "version": 2, "issuer_account": account}
    return _file(_signed(public_key(seed), name, claims, signing_seed, issued_s), seed)


def _rights(rights: SubjectPermissions) -> JsonObject:
    return {
        "pub": {"allow": list(rights.publish)},
        "sub": {"allow": list(rights.subscribe)},
        "resp": _RESPONSES,
    }


def _signed(subject: str, name: str, claims: Mapping[str, object], seed: str, issued_s: int) -> str:
    body: JsonObject = {"iat": issued_s, "iss": public_key(seed), "name": name, "sub": subject, "nats": dict(claims)}
    body["jti"] = base64.b32encode(hashlib.sha256(msgspec.json.encode(body)).digest()).decode().rstrip("=")
    text = f"{_part({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_part(body)}"
    return f"{text}.{_text(signature(seed, text.encode()))}"


def _part(value: Mapping[str, object]) -> str:
    return _text(msgspec.json.encode(value))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _file(jwt: str, seed: str) -> str:
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
