"""Checks of liveness and readiness."""

from __future__ import annotations

from cotenant.services.kube_process.health import Health, Heartbeat


def test_a_loop_that_does_not_turn_is_not_healthy() -> None:
    now_s = [0.0]
    heartbeat = Heartbeat(60.0, lambda: now_s[0])
    now_s[0] = 1000.0
    assert heartbeat() == ""  # not started: a replica that does not lead has no loop
    heartbeat.start()
    now_s[0] += 60.0
    assert heartbeat() == ""
    now_s[0] += 1.0
    assert heartbeat() == "the loop has not turned for 61 s"
    heartbeat.beat()
    assert heartbeat() == ""
    now_s[0] += 100.0
    heartbeat.stop()
    assert heartbeat() == ""


def test_every_failing_check_is_named() -> None:
    health, wrong = Health(), ["", ""]
    health.must_live(lambda: wrong[0])
    health.must_live(lambda: wrong[1])
    health.must_be_ready(lambda: "not listed")
    assert (health.unhealthy(), health.unready()) == ("", "not listed")
    wrong[:] = ["stuck", "full"]
    assert health.unhealthy() == "stuck; full"
