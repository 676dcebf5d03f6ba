"""Generated certificates and the files that hold secrets."""

from __future__ import annotations

import datetime
import ssl
import stat
from pathlib import Path

import pytest

from cotenant.drivers.http.certificates import ensure
from cotenant.drivers.http.private_files import write_private
from cotenant.model.errors import InvalidInput

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def test_a_private_file_is_private_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_private(path, "one")
    write_private(path, "two")
    assert path.read_text() == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_the_authority_is_kept_and_signs(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    first = ensure(tmp_path, ("127.0.0.1", "example.com"), now)
    second = ensure(tmp_path, ("127.0.0.1",), now)
    assert first.authority_pem == second.authority_pem
    assert stat.S_IMODE(second.key.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "ca.key").stat().st_mode) == 0o600
    ssl.create_default_context(cadata=first.authority_pem.decode())
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(second.certificate, second.key)


@pytest.mark.parametrize("name", ["ca.crt", "ca.key"])
@pytest.mark.parametrize("content", [b"", b"not PEM", b"\xff\xfe"])
def test_a_broken_authority_is_named_with_what_to_do(name: str, content: bytes, tmp_path: Path) -> None:
    ensure(tmp_path, ("127.0.0.1",), NOW)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=r"as PEM.*; delete") as caught:
        ensure(tmp_path, ("127.0.0.1",), NOW)
    assert caught.value.value == str(tmp_path / name)


def test_the_key_of_another_authority_is_refused(tmp_path: Path) -> None:
    ensure(tmp_path / "a", ("127.0.0.1",), NOW)
    ensure(tmp_path / "b", ("127.0.0.1",), NOW)
    (tmp_path / "a" / "ca.key").write_bytes((tmp_path / "b" / "ca.key").read_bytes())
    with pytest.raises(InvalidInput, match=r"key of ca\.crt"):
        ensure(tmp_path / "a", ("127.0.0.1",), NOW)
