"""Token authentication, and the kubeconfig."""

from __future__ import annotations

import base64

import pytest
import yaml

from cotenant.drivers.http.tokens import new_token
from cotenant_local.apiserver.http.auth import Credentials, is_public, kubeconfig


def test_only_the_token_is_admitted() -> None:
    token = new_token()
    credentials = Credentials(token)
    assert credentials.admits(f"Bearer {token}".encode())
    assert credentials.admits(f"bearer {token}".encode())
    for header in ("", "Bearer", "Bearer ", "Bearer x", token, f"Basic {token}", f"Bearer {token}x"):
        assert not credentials.admits(header.encode())
    assert not credentials.admits(b"Bearer \xff\xfe")
    with pytest.raises(ValueError, match="empty token"):
        Credentials("")


@pytest.mark.parametrize(
    ("path", "public"),
    [
        ("/healthz", True),
        ("/readyz/ping", True),
        ("/version", True),
        ("/metrics", False),
        ("/healthzz", False),
        ("/api", False),
    ],
)
def test_public_paths_need_no_token(path: str, public: bool) -> None:
    assert is_public(path) is public


def test_a_kubeconfig_contains_the_certificate_authority() -> None:
    document = yaml.safe_load(kubeconfig("https://127.0.0.1:1", "secret", ca_pem=b"PEM"))
    assert document["users"][0]["user"] == {"token": "secret"}
    cluster = document["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"
