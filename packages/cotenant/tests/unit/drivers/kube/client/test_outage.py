"""One line when the API server is away, however many requests fail."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from cotenant.drivers.kube.cache.reflector import Reflector
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.client.outage import REMIND_S, Outage
from cotenant.drivers.kube.kinds.namespace import NAMESPACES
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.model.errors import Transient


def test_the_first_failure_is_a_warning_then_one_a_minute_and_the_end_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = [0.0]
    outage = Outage("https://a:1", lambda: now[0])
    assert outage.level == logging.WARNING
    for second in range(int(REMIND_S) + 1):
        now[0] = float(second)
        outage.failed(Transient("GET /api/v1/pods: Connection refused"))
    assert outage.level == logging.DEBUG
    now[0] = 61.5
    outage.answered()
    outage.answered()
    assert outage.level == logging.WARNING
    assert [record.getMessage() for record in caplog.records] == [
        "the API server https://a:1 does not answer, trying again: Connection refused",
        "the API server https://a:1 has not answered for 60 s: Connection refused",
        "the API server https://a:1 answers again after 61.5 s",
    ]


def test_many_watches_of_an_absent_server_are_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as other:  # a port at which nothing listens
        other.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{other.getsockname()[1]}"

        async def main() -> None:
            paused = asyncio.Semaphore(0)

            async def sleep(_: float) -> None:
                paused.release()
                await asyncio.sleep(0)

            async with Client(
                Access(url, FixedCredential(Credential(""))), qps=float("inf"), burst=10, in_flight=10
            ) as client:
                kinds = (PODS, NODES, NAMESPACES)
                watches = [Reflector(client, kind, lambda _: None, sleep=sleep) for kind in kinds]
                tasks = [asyncio.create_task(watch.run()) for watch in watches]
                for _ in range(12):
                    await paused.acquire()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run(main())
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"the API server {url} does not answer")
