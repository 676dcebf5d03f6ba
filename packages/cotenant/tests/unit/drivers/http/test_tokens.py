"""Bearer tokens: compared, made, and read from files that change in place."""

from pathlib import Path

import pytest

from cotenant.drivers.http.tokens import REREAD_S, BearerToken, is_bearer, new_token
from cotenant.model.errors import InvalidInput

OLD, NEW = b"old-secret-0123456789", b"new-secret-0123456789"


def test_a_token_may_change_in_place(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(OLD)
    token = BearerToken(file)
    assert token.accepts(b"Bearer " + OLD, 0.0)
    file.write_bytes(NEW)
    assert token.accepts(b"Bearer " + OLD, REREAD_S / 2)
    assert token.accepts(b"Bearer " + NEW, REREAD_S)
    assert not token.accepts(b"Bearer " + OLD, REREAD_S)


def test_a_vanished_file_keeps_the_last_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(OLD)
    token = BearerToken(file)
    file.unlink()
    assert token.accepts(b"Bearer " + OLD, 1e6)


@pytest.mark.parametrize("content", [b"", b"  \n", b"short", b"two words of a secret", b"\xff" * 32])
def test_a_bad_token_is_refused_at_the_start(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match="token file"):
        BearerToken(file)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        BearerToken(tmp_path / "absent")


def test_a_token_is_carried_by_the_bearer_scheme_only() -> None:
    assert is_bearer(b"Bearer " + OLD, OLD)
    assert is_bearer(b"bearer  " + OLD + b" ", OLD)
    for header in (b"", b"Bearer", b"Bearer ", OLD, b"Basic " + OLD, b"Bearer " + OLD + b"x", b"Bearer \xff"):
        assert not is_bearer(header, OLD)


def test_tokens_differ() -> None:
    assert new_token() != new_token()
    assert len(new_token()) >= 43
