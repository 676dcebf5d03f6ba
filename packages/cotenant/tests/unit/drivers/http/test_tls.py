"""Certificate files that cannot be used are named, with what to do; renewed ones are loaded."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from cotenant.drivers.http.certificates import ensure
from cotenant.drivers.http.tls import Tls
from cotenant.model.errors import InvalidInput

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def files(tmp_path: Path) -> Tls:
    made = ensure(tmp_path, ("127.0.0.1",), NOW)
    return Tls(made.certificate, made.key, tmp_path / "ca.crt")


def refused(tls: Tls) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        tls.context()
    assert "\n" not in str(caught.value)
    return caught.value


def test_good_files(files: Tls) -> None:
    assert files.context().verify_mode is ssl.CERT_REQUIRED
    assert Tls(files.certificate, files.key).context().verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("which", "option"), [("certificate", "--tls-cert"), ("key", "--tls-key"), ("client_ca", "--client-ca")]
)
@pytest.mark.parametrize("content", [None, b"", b"not PEM"])
def test_a_missing_or_broken_file_is_named(which: str, option: str, content: bytes | None, files: Tls) -> None:
    path: Path = getattr(files, which)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    error = refused(files)
    assert (error.field, error.value) == (option, str(path))
    assert "PEM" in error.expected


def test_the_key_of_another_certificate(files: Tls, tmp_path: Path) -> None:
    other = ensure(tmp_path / "other", ("127.0.0.1",), NOW)
    error = refused(Tls(files.certificate, other.key))
    assert (error.field, error.value) == ("--tls-key", str(other.key))
    assert str(files.certificate) in error.expected


def test_a_key_with_a_passphrase(files: Tls) -> None:
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    error = refused(files)
    assert error.field == "--tls-key"
    assert "openssl pkey" in error.hint


def test_a_changed_file_changes_the_stamp(files: Tls, tmp_path: Path) -> None:
    before = files.stamp()
    ensure(tmp_path, ("127.0.0.1",), NOW)
    assert files.stamp() != before
    files.key.unlink()
    assert files.stamp() == ()
