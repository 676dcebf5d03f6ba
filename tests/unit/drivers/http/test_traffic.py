"""The server's metrics of itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cotenant.drivers.http.messages import Answer, Message, Receive, Scope, Send, send_answer
from cotenant.drivers.http.traffic import Traffic


async def receive() -> Message:
    raise AssertionError("nothing is read here")


async def send(message: Message) -> None:
    await asyncio.sleep(0)


def page(traffic: Traffic) -> str:
    registry = CollectorRegistry()
    registry.register(traffic)
    return generate_latest(registry).decode()


def call(traffic: Traffic, app: Any, path: str = "/") -> None:
    asyncio.run(traffic.measured(app)({"type": "http", "path": path}, receive, send))


def test_requests_are_counted_by_status_and_timed() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert traffic.in_flight == 1
        await send_answer(send, Answer(404))

    traffic = Traffic("extender")
    call(traffic, app)
    call(traffic, app)
    text = page(traffic)
    assert 'cotenant_http_requests_total{code="404",server="extender"} 2.0' in text
    assert 'cotenant_http_requests_in_flight{server="extender"} 0.0' in text
    assert 'cotenant_http_request_duration_seconds_count{server="extender"} 2.0' in text
    assert 'cotenant_http_request_duration_seconds_bucket{le="+Inf",server="extender"} 2.0' in text


def test_a_request_that_fails_or_is_not_answered_is_counted_too() -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("a defect")

    async def says_nothing(scope: Scope, receive: Receive, send: Send) -> None:
        pass

    traffic = Traffic("agent")
    with pytest.raises(RuntimeError):
        call(traffic, fails)
    call(traffic, says_nothing)
    text = page(traffic)
    assert 'cotenant_http_requests_total{code="500",server="agent"} 1.0' in text
    assert 'cotenant_http_requests_total{code="none",server="agent"} 1.0' in text
    assert traffic.in_flight == 0


def test_what_is_meant_to_last_is_counted_and_not_timed() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send_answer(send, Answer(200))

    traffic = Traffic("apiserver", lambda scope: scope["path"] == "/watch")
    call(traffic, app, "/watch")
    call(traffic, app, "/list")
    text = page(traffic)
    assert 'cotenant_http_requests_total{code="200",server="apiserver"} 2.0' in text
    assert 'cotenant_http_request_duration_seconds_count{server="apiserver"} 1.0' in text


def test_refusals_are_counted_by_reason() -> None:
    traffic = Traffic("scheduler")
    traffic.refused("head size")
    assert 'cotenant_http_refusals_total{reason="head size",server="scheduler"} 1.0' in page(traffic)
