"""The agents' token: changed in place, never lost."""

from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.reporting.tokens import LOOK_AGAIN_S, ReportToken

OLD, NEW = b"old-secret-0123456789", b"new-secret-0123456789"


def test_a_token_may_change_in_place(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(OLD)
    token = ReportToken(file)
    assert token.accepts(b"Bearer " + OLD, 0.0)
    file.write_bytes(NEW)
    assert token.accepts(b"Bearer " + OLD, LOOK_AGAIN_S / 2)
    assert token.accepts(b"Bearer " + NEW, LOOK_AGAIN_S)
    assert not token.accepts(b"Bearer " + OLD, LOOK_AGAIN_S)


def test_a_vanished_file_keeps_the_last_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(OLD)
    token = ReportToken(file)
    file.unlink()
    assert token.accepts(b"Bearer " + OLD, 1e6)


@pytest.mark.parametrize("content", [b"", b"  \n", b"short", b"two words of a secret", b"\xff" * 32])
def test_a_bad_token_is_refused_at_the_start(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match="report token file"):
        ReportToken(file)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        ReportToken(tmp_path / "absent")
