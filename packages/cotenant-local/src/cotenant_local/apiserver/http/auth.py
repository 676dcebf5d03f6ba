"""Authentication: one random bearer token, and its kubeconfig.

Every user of a machine can reach a loopback port. Every path but health and version needs the token; it is written only
into files that their owner alone can read.
Limits: one user, who may do everything; no RBAC.
"""

from __future__ import annotations

from cotenant.drivers.http.tokens import is_bearer
from cotenant.drivers.kube.manifests.errors import ApiError

USER = "system:admin"
GROUPS = ("system:masters", "system:authenticated")
_ANONYMOUS = ("/healthz", "/readyz", "/livez", "/version")


class Credentials:
    """Holds the token that clients must send."""

    def __init__(self, token: str) -> None:
        if not token:
            raise ValueError("an empty token would admit every client")
        self._token = token.encode()

    def admits(self, authorization: bytes) -> bool:
        """Whether an Authorization header has the token."""
        return is_bearer(authorization, self._token)


def is_public(path: str) -> bool:
    """Whether a path is answered without a token."""
    return path in _ANONYMOUS or path.startswith(("/healthz/", "/readyz/", "/livez/"))


def unauthorized() -> ApiError:
    """401 Unauthorized."""
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
