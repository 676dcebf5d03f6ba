"""A real nats-server for each case."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.servers.ports import free_port


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    started = NatsServer(tmp_path, free_port())
    started.start()
    yield started
    started.kill()
