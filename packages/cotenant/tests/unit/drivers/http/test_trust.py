"""Certificates that kubectl accepts are accepted on every Python; all contexts of the package are made in one place."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

import cotenant
from cotenant.drivers.http.certificates import new_authority
from cotenant.drivers.http.trust import trusting

SOURCES = Path(cotenant.__file__).parent


@pytest.mark.parametrize("purpose", [ssl.Purpose.SERVER_AUTH, ssl.Purpose.CLIENT_AUTH])
def test_the_strict_form_is_not_required(purpose: ssl.Purpose) -> None:
    context = trusting(purpose=purpose)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    if purpose is ssl.Purpose.SERVER_AUTH:
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname


def test_a_file_and_a_text_are_read(tmp_path: Path) -> None:
    pem = new_authority("test", datetime.now(UTC)).certificate
    file = tmp_path / "ca.pem"
    file.write_text(pem)
    for authorities in (pem, file):
        assert len(trusting(authorities).get_ca_certs()) == 1
    with pytest.raises((ssl.SSLError, ValueError)):
        trusting("not PEM")
    with pytest.raises(FileNotFoundError):
        trusting(tmp_path / "absent")


def test_no_other_source_makes_a_context_with_pythons_defaults() -> None:
    found = [
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if "create_default_context(" in path.read_text() and path.name != "trust.py"
    ]
    assert found == []
