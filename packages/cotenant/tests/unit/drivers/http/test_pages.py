"""Health, readiness and metrics pages."""

from __future__ import annotations

import pytest

from cotenant.drivers.http.pages import EXPOSITION, HealthPages

PAGES = HealthPages(lambda: b"a 1\n", lambda: "", lambda: "not listed yet")


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/healthz", 200, b"ok\n"),
        ("HEAD", "/livez", 200, b"ok\n"),
        ("GET", "/readyz", 503, b"not listed yet\n"),
        ("GET", "/metrics", 200, b"a 1\n"),
        ("POST", "/metrics", 405, b"only GET\n"),
    ],
)
def test_answers(method: str, path: str, status: int, body: bytes) -> None:
    answer = PAGES.answer(method, path)
    assert answer is not None
    assert (answer.status, answer.body) == (status, body)


def test_the_exposition_has_its_content_type() -> None:
    answer = PAGES.answer("GET", "/metrics")
    assert answer is not None
    assert answer.content_type == EXPOSITION


def test_a_process_without_checks_is_healthy_and_ready() -> None:
    for path in ("/healthz", "/readyz"):
        answer = HealthPages(bytes).answer("GET", path)
        assert answer is not None
        assert answer.status == 200


def test_what_a_person_should_know_stands_beside_ok() -> None:
    pages = HealthPages(bytes, remark=lambda: "not leading: waits for the lease")
    plain, verbose = pages.answer("GET", "/readyz"), pages.answer("GET", "/readyz", b"verbose")
    assert plain is not None
    assert verbose is not None
    assert (plain.status, plain.body) == (200, b"ok; not leading: waits for the lease\n")
    assert verbose.body == b"[+]readyz ok\n[!]not leading: waits for the lease\nreadyz check passed\n"
    failing = PAGES.answer("GET", "/readyz", b"verbose=1")
    assert failing is not None
    assert (failing.status, failing.body) == (503, b"[-]readyz failed: not listed yet\nreadyz check failed\n")


@pytest.mark.parametrize("path", ["/", "/healthz/", "/metrics/report"])
def test_other_paths_are_not_its_own(path: str) -> None:
    assert PAGES.answer("GET", path) is None
