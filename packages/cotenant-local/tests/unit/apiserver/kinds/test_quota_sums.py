"""Sums that follow writes are those that a count of everything stored gives."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.kinds.quota_sums import QuotaSums
from cotenant_local.apiserver.kinds.quota_usage import is_about, usage_of
from cotenant_local.apiserver.storage.sqlite import Database
from cotenant_local.apiserver.storage.store import Store

PODS = ("", "pods")
SCOPES = ((), ("BestEffort",), ("NotBestEffort",), ("Terminating",))


class FullDisk(Database):
    """Refuses what it is told to."""

    is_full = False

    def commit(self, puts: Any, removed: Any, revision: int) -> None:
        if self.is_full:
            raise sqlite3.OperationalError("database or disk is full")
        super().commit(puts, removed, revision)


def quota(namespace: str, scopes: tuple[str, ...]) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": "q"}, "spec": {"scopes": list(scopes), "hard": {"pods": "1"}}}


def pod(rng: random.Random, namespace: str, name: str) -> dict[str, Any]:
    amounts = {"cpu": f"{rng.randrange(9)}", "memory": f"{rng.randrange(1, 9)}Mi"} if rng.random() < 0.7 else {}
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": amounts} if amounts else {}}]}
    if rng.random() < 0.3:
        spec["activeDeadlineSeconds"] = 5
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "spec": spec,
        "status": {"phase": rng.choice(["Running", "Succeeded"])},
    }


def counted(store: Store, wanted: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for stored in store.table(PODS).walk(wanted["metadata"]["namespace"]):
        obj = stored.decode()
        if is_about(wanted, *PODS, obj):
            for name, amount in usage_of(*PODS, obj).items():
                found[name] = found.get(name, 0) + amount
    return found


@pytest.mark.parametrize("seed", range(6))
def test_sums_follow_writes_and_what_takes_them_back(tmp_path: Path, seed: int) -> None:
    async def case() -> None:
        rng = random.Random(seed)
        database = FullDisk(tmp_path, fsync=False)
        store, wrote = Store(database), 0
        sums, table = QuotaSums(store), store.table(PODS)
        for _ in range(60):
            database.is_full = rng.random() < 0.25
            for _ in range(rng.randrange(1, 5)):
                namespace, name = rng.choice(["a", "b"]), f"p{rng.randrange(6)}"
                key = (namespace, name)
                current = table.get(key)
                if current is not None and rng.random() < 0.4:
                    store.remove(table, current, current.decode())
                else:
                    store.put(table, key, pod(rng, namespace, name), current)
            try:
                await store.settled(store.revision)
                wrote += 1
            except ApiError:
                pass
            if rng.random() < 0.2:
                sums.keep([quota("a", SCOPES[0])])
            for namespace in ("a", "b"):
                for scopes in SCOPES:
                    wanted = quota(namespace, scopes)
                    found = {name: amount for name, amount in sums.used_of(wanted, *PODS).items() if amount}
                    assert found == {name: amount for name, amount in counted(store, wanted).items() if amount}
        assert 0 < wrote < 60

    asyncio.run(case())
