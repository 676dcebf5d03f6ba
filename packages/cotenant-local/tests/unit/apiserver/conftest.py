"""An in-memory API server with its own clock, and a function that runs a case against it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from cotenant_local.apiserver.contract import RequestTarget
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api

START = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@dataclass
class Server:
    """The server and helpers passed to a case."""

    api: Api
    time: list[float] = field(default_factory=lambda: [START])

    def at(
        self, plural: str, name: str = "", namespace: str = "default", sub: str = "", group: str = ""
    ) -> RequestTarget:
        return self.api.target(group, plural, namespace, name, sub)

    async def make(self, target: RequestTarget, obj: dict[str, Any]) -> dict[str, Any]:
        return msgspec.json.decode((await self.api.create(target, obj)).raw)

    async def get(self, target: RequestTarget) -> dict[str, Any]:
        return msgspec.json.decode(await self.api.get(target))

    async def put(self, target: RequestTarget, obj: dict[str, Any]) -> dict[str, Any]:
        return msgspec.json.decode((await self.api.update(target, obj)).raw)


@pytest.fixture
def serve() -> Callable[..., None]:
    def run(case: Callable[[Server], Awaitable[None]], **options: Any) -> None:
        async def main() -> None:
            time = [START]
            api = Api(Store(clock=lambda: time[0]), rng=random.Random(1), clock=lambda: time[0], **options)
            await api.bootstrap()
            await case(Server(api, time))
            await api.close()

        asyncio.run(main())

    return run


def a_pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """A small pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec},
    }


@pytest.fixture
def pod() -> Callable[..., dict[str, Any]]:
    return a_pod
