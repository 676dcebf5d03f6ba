"""The lease of a scheduler that was killed on this machine is given up, and nobody else's."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from typing import Any

import msgspec

from cotenant.local.apiserver.assembly import assemble
from cotenant.local.apiserver.storage.store import Store
from cotenant.services.kube_process.identity import lease_name, new_identity, process_here
from cotenant.services.up.stale_lease import release_stale_lease


def a_dead_process() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


async def holder_after(holder: str | None) -> tuple[bool, str]:
    api = assemble(Store())
    await api.bootstrap()
    try:
        target = api.target("coordination.k8s.io", "leases", "default")
        lease: dict[str, Any] = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": lease_name("cotenant")},
            "spec": {"leaseDurationSeconds": 15} | ({} if holder is None else {"holderIdentity": holder}),
        }
        await api.create(target, lease)
        done = await release_stale_lease(api)
        found = await api.get(api.target("coordination.k8s.io", "leases", "default", lease_name("cotenant")))
        return done, msgspec.json.decode(found)["spec"].get("holderIdentity", "")
    finally:
        await api.close()


def test_a_dead_holder_is_taken_out() -> None:
    identity = f"{socket.gethostname()}-{a_dead_process()}-0011aabb"
    assert asyncio.run(holder_after(identity)) == (True, "")


def test_any_other_holder_stays() -> None:
    alive, elsewhere = f"{socket.gethostname()}-{os.getpid()}-0011aabb", f"elsewhere-{a_dead_process()}-0011aabb"
    for identity in (alive, elsewhere, "kube-scheduler", ""):
        assert asyncio.run(holder_after(identity)) == (False, identity)


def test_a_lease_without_a_holder_and_no_lease_at_all() -> None:
    assert asyncio.run(holder_after(None)) == (False, "")

    async def none() -> bool:
        api = assemble(Store())
        await api.bootstrap()
        try:
            return await release_stale_lease(api)
        finally:
            await api.close()

    assert asyncio.run(none()) is False


def test_identities_name_their_process() -> None:
    assert process_here(new_identity()) == os.getpid()
    assert new_identity() != new_identity()
    assert process_here("x") is None
    assert process_here(f"{socket.gethostname()}-no-number") is None
