"""Checks of liveness and readiness."""

from __future__ import annotations

from cotenant.services.kube_process.health import ProcessHealth


def test_every_failing_check_is_named() -> None:
    health, wrong = ProcessHealth(), ["", ""]
    health.must_live(lambda: wrong[0])
    health.must_live(lambda: wrong[1])
    health.must_be_ready(lambda: "not listed")
    assert (health.unhealthy(), health.unready()) == ("", "not listed")
    wrong[:] = ["stuck", "full"]
    assert health.unhealthy() == "stuck; full"
