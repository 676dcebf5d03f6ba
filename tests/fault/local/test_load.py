"""Many writers of one object, watchers that are not read, expired watches at once, and a full disk: small forms of
`python -m bench.apifaults`.
"""

from __future__ import annotations

import asyncio
import resource
import signal
from pathlib import Path

import msgspec
import pytest

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.contract import ListOptions
from cotenant_local.apiserver.storage.sqlite import Database
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.storage.watching import BUFFER_BYTES
from cotenant_local.apiserver.verbs.api import Api


def config(name: str, **data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.mark.parametrize("writers", [50])
def test_no_addition_is_lost_among_writers_of_one_object(tmp_path: Path, writers: int) -> None:
    async def case() -> int:
        api = Api(Store(Database(tmp_path)))
        await api.bootstrap()
        await api.create(api.target("", "configmaps", "default"), config("counter", n="0"))
        target = api.target("", "configmaps", "default", "counter")
        codes: list[int] = []

        async def add() -> None:
            while True:
                obj = msgspec.json.decode(await api.get(target))
                obj["data"]["n"] = str(int(obj["data"]["n"]) + 1)
                await asyncio.sleep(0)
                try:
                    await api.update(target, obj)
                    return
                except ApiError as error:
                    codes.append(error.code)

        await asyncio.gather(*(add() for _ in range(writers)))
        total = int(msgspec.json.decode(await api.get(target))["data"]["n"])
        await api.close()
        assert set(codes) == {409}
        return total

    assert asyncio.run(case()) == writers


@pytest.mark.slow
def test_watchers_that_are_never_read_are_ended_and_share_what_they_hold() -> None:
    async def case() -> None:
        api = Api(Store())
        await api.bootstrap()
        target = api.target("", "configmaps", "default")
        watches = [api.watch(target, ListOptions(resource_version=str(api.store.revision))) for _ in range(200)]
        for at in range(BUFFER_BYTES // 1_000_000 + 2):
            await api.create(target, config(f"c{at}", x="y" * 1_000_000))
        assert all(watch.is_closed and watch.was_slow for watch in watches)
        assert not api.store.table(("", "configmaps")).channels or not any(
            channel.watches for channel in api.store.table(("", "configmaps")).channels.values()
        )
        await api.close()

    asyncio.run(case())


def test_every_watch_from_before_a_restart_expires_and_resumes_after_a_list(tmp_path: Path) -> None:
    async def case() -> None:
        first = Api(Store(Database(tmp_path)))
        await first.bootstrap()
        for at in range(20):
            await first.create(first.target("", "configmaps", "default"), config(f"c{at}"))
        await first.close()
        api = Api(Store(Database(tmp_path)))
        target = api.target("", "configmaps", "default")
        for _ in range(100):
            with pytest.raises(ApiError, match="too old resource version") as caught:
                api.watch(target, ListOptions(resource_version="2"))
            assert caught.value.code == 410
        page = await api.list(target)
        assert len(page.items) == 20
        watches = [api.watch(target, ListOptions(resource_version=str(page.resource_version))) for _ in range(100)]
        await api.create(target, config("news"))
        assert {(await watch.chunk()).count(b'"ADDED"') for watch in watches} == {1}
        await api.close()

    asyncio.run(case())


def test_a_list_continues_over_a_restart_and_starts_anew_where_something_was_written(tmp_path: Path) -> None:
    async def case() -> None:
        api = Api(Store(Database(tmp_path)))
        await api.bootstrap()
        for at in range(30):
            await api.create(api.target("", "configmaps", "default"), config(f"c{at:02d}"))
        page = await api.list(api.target("", "configmaps"), ListOptions(limit=10))
        seen = [item.name for item in page.items]
        await api.close()
        api = Api(Store(Database(tmp_path)))
        page = await api.list(api.target("", "configmaps"), ListOptions(limit=10, continue_token=page.continue_token))
        seen += [item.name for item in page.items]
        await api.create(api.target("", "configmaps", "default"), config("a-new-one"))
        await api.close()
        api = Api(Store(Database(tmp_path)))
        with pytest.raises(ApiError, match="inconsistent") as caught:
            await api.list(api.target("", "configmaps"), ListOptions(limit=10, continue_token=page.continue_token))
        rest = await api.list(
            api.target("", "configmaps"), ListOptions(limit=10, continue_token=caught.value.continue_token)
        )
        seen += [item.name for item in rest.items]
        assert seen == [f"c{at:02d}" for at in range(30)]
        await api.close()

    asyncio.run(case())


def test_a_full_disk_refuses_writes_keeps_reads_and_loses_nothing(tmp_path: Path) -> None:
    async def case() -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        api = Api(Store(Database(tmp_path)))
        await api.bootstrap()
        target = api.target("", "configmaps", "default")
        written: list[str] = []
        codes: list[int] = []
        try:
            for at in range(300):
                if at == 20:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (512 << 10, hard))
                if at == 280:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
                try:
                    await api.create(target, config(f"c{at:03d}", x="y" * 4_000))
                    written.append(f"c{at:03d}")
                except ApiError as error:
                    codes.append(error.code)
                    assert [item.name for item in (await api.list(target)).items] == written
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)
        assert len(codes) > 100
        assert set(codes) == {500}
        assert written[-20:] == [f"c{at:03d}" for at in range(280, 300)]
        await api.close()
        again = Api(Store(Database(tmp_path)))
        assert [item.name for item in (await again.list(again.target("", "configmaps"))).items] == written
        await again.close()

    asyncio.run(case())
