"""Where a process's own spans go, by the three options."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.kube_process.span_target import SpanTarget, span_target

TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("url", "sent_to"),
    [
        ("http://a:4318", "http://a:4318/v1/traces"),
        ("http://a:4318/", "http://a:4318/v1/traces"),
        ("https://a", "https://a/v1/traces"),
        ("http://a:4318/otlp", "http://a:4318/otlp"),
    ],
)
def test_a_url_without_a_path_gets_that_of_the_protocol(url: str, sent_to: str) -> None:
    assert span_target(url, None, None) == SpanTarget(sent_to)


def test_without_a_url_there_are_no_spans_and_no_options_of_theirs(tmp_path: Path) -> None:
    assert span_target("", None, None) is None
    with pytest.raises(InvalidInput, match=r"--otlp-traces-token-file: .*: expected only with --otlp-traces"):
        span_target("", tmp_path / "token", None)
    with pytest.raises(InvalidInput, match=r"--otlp-traces-ca: .*: expected only with --otlp-traces"):
        span_target("", None, tmp_path / "ca")


@pytest.mark.parametrize("url", ["a:4318", "ftp://a", "http://a?x=1", "http://a#x"])
def test_what_is_no_receiver_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="--otlp-traces"):
        span_target(url, None, None)


def test_a_token_or_an_authority_that_cannot_be_used_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    found = span_target("http://a", tmp_path / "token", None)
    assert found == SpanTarget("http://a/v1/traces", tmp_path / "token")
    with pytest.raises(InvalidInput, match="--otlp-traces-token-file"):
        span_target("http://a", tmp_path / "gone", None)
    (tmp_path / "ca").write_text("no certificate")
    with pytest.raises(InvalidInput, match="--otlp-traces-ca"):
        span_target("https://a", None, tmp_path / "ca")
