from __future__ import annotations

import pytest

from cotenant.model.urls import split_url


@pytest.mark.parametrize("text", ["http://h", "https://user:p@h:1/path?q#f", "http://[::1]:65535", "HTTP://h:80"])
def test_a_url_that_can_be_connected_to_is_taken_apart(text: str) -> None:
    parts = split_url(text)
    assert parts is not None
    assert parts.hostname in ("h", "::1")


@pytest.mark.parametrize(
    "text", ["", "h", "h:1", "//h", "http:h", "http://", "http://:1", "http://[", "http://[::1", "http://]"]
)
def test_text_without_a_host_is_none(text: str) -> None:
    assert split_url(text) is None


@pytest.mark.parametrize("port", ["0", "65536", "-1", "x", "1e3", "99999999999999999999"])
def test_a_port_that_nothing_listens_on_is_none(port: str) -> None:
    assert split_url(f"http://h:{port}") is None


def test_other_schemes_are_asked_for() -> None:
    assert split_url("nats://h") is None
    assert split_url("nats://h", ("nats", "tls")) is not None
    assert split_url("http://h", ("https",)) is None
