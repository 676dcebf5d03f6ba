"""Properties have no deadline: their first example may compile a kernel on a busy machine."""

from __future__ import annotations

from hypothesis import settings


def test_examples_have_no_deadline() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
