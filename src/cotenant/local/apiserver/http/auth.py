"""Who may talk to the server: one random bearer token, and its kubeconfig.

Problem: everybody on a machine can reach a loopback port. Choice: every path but health and version needs the token, compared in constant
time; it is written only into a kubeconfig that its owner alone can read, created so from the first byte and renamed into place. Limits:
one user, who may do everything; no RBAC.
"""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from cotenant.local.apiserver.contract import ApiError

USER = "system:admin"
GROUPS = ("system:masters", "system:authenticated")
_ANONYMOUS = ("/healthz", "/readyz", "/livez", "/version")


def new_token() -> str:
    """256 random bits as text."""
    return secrets.token_urlsafe(32)


class Credentials:
    """Knows the token."""

    def __init__(self, token: str) -> None:
        if not token:
            raise ValueError("an empty token would let everybody in")
        self._expected = b"Bearer " + token.encode()

    def admits(self, authorization: bytes) -> bool:
        """Whether an Authorization header has the token."""
        if authorization[:7].lower() != b"bearer ":
            return False
        return hmac.compare_digest(b"Bearer " + authorization[7:].strip(), self._expected)


def is_public(path: str) -> bool:
    """Whether a path is answered without a token."""
    return path in _ANONYMOUS or path.startswith(("/healthz/", "/readyz/", "/livez/"))


def unauthorized() -> ApiError:
    """401."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def kubeconfig(server: str, token: str, *, ca_pem: bytes = b"", name: str = "cotenant") -> str:
    """The text of a kubeconfig for this server. `server` is its URL; `ca_pem` the certificate authority for https."""
    import base64

    import yaml  # type: ignore[import-untyped]

    cluster: dict[str, str] = {"server": server}
    if ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin", "namespace": "default"}}],
        "current-context": name,
    }
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read (mode 0600), whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
