"""Tokens, kubeconfigs, certificates, and where a server may listen."""

from __future__ import annotations

import base64
import datetime
import ssl
import stat
from pathlib import Path

import pytest
import yaml

from cotenant.local.apiserver.http.auth import Credentials, is_public, kubeconfig, new_token, write_private
from cotenant.local.apiserver.http.server import is_loopback
from cotenant.local.apiserver.http.tls import ensure


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


def test_tokens_differ() -> None:
    assert new_token() != new_token()
    assert len(new_token()) >= 43


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
def test_what_needs_no_token(path: str, public: bool) -> None:
    assert is_public(path) is public


def test_a_private_file_is_private_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_private(path, "one")
    write_private(path, "two")
    assert path.read_text() == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_kubeconfig_carries_the_authority() -> None:
    document = yaml.safe_load(kubeconfig("https://127.0.0.1:1", "secret", ca_pem=b"PEM"))
    assert document["users"][0]["user"] == {"token": "secret"}
    cluster = document["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"


def test_the_authority_is_kept_and_signs(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    first = ensure(tmp_path, ("127.0.0.1", "example.com"), now)
    second = ensure(tmp_path, ("127.0.0.1",), now)
    assert first.authority_pem == second.authority_pem
    assert stat.S_IMODE(second.key.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "ca.key").stat().st_mode) == 0o600
    ssl.create_default_context(cadata=first.authority_pem.decode())
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(second.certificate, second.key)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("example.com", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
