"""The way of a plain pod: from the bytes of its watch event to the request that binds it.

A whole scheduler process runs against a small API server in the same thread (tests/fakes/servers). Pods without a
gang, quota, reservation, device or CPUs of their own arrive one by one; the first compile kernels and fill caches
and are not counted. Timers of the process may run meanwhile, so the shortest of several ways is the answer.
"""

from __future__ import annotations

import asyncio

from tests.fakes.servers.fake_api import FakeApi, Faults

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.policy.placement.profiles import profile
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.scheduler.scheduler_process import SchedulerProcess
from cotenant.services.scheduling.options import Options
from tools.walk.recorder import Walk, recording

_WARM, _COUNTED = 2, 5


def walk() -> Walk:
    """The shortest of some pods' ways."""
    return min(asyncio.run(_walks()), key=lambda walk: (len(walk.files), walk.changes))


async def _walks() -> list[Walk]:
    async with FakeApi() as api:
        for name in ("a", "b", "c"):
            api.node(name)
        process = SchedulerProcess(
            Access(api.url, FixedCredential(Credential(""))),
            profile("cotenant-requests"),
            Options(listen=Address("127.0.0.1", 0)),
            "walk",
            lambda client: Alone(),
        )
        stop = asyncio.Event()
        running = asyncio.create_task(process.run(stop))
        try:
            for i in range(_WARM):
                api.pod(f"warm-{i}", "100m")
                await api.until(lambda name=f"warm-{i}": name in api.bound())  # type: ignore[misc]
                await asyncio.sleep(0.3)
            found = []
            for i in range(_COUNTED):
                found.append(await _way(api, f"p{i}"))
                await asyncio.sleep(0.3)  # what follows a bind is over before the next pod comes
            return found
        finally:
            stop.set()
            await running


async def _way(api: FakeApi, name: str) -> Walk:
    walk, asked = Walk(), asyncio.Event()

    def bound(_: str, path: str) -> int:
        if path.endswith(f"/{name}/binding"):
            asked.set()
            recorder.__exit__(None, None, None)
        return 0

    recorder = recording(walk)
    api.faults = Faults(refuse=bound)
    recorder.__enter__()
    api.pod(name, "100m")
    await asked.wait()
    return walk
