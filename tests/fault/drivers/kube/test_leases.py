"""Leading over a real connection: two that race, a clean hand-over, a server that hangs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.fakes.waiting import patience, soon

from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.drivers.kube.leaderelection.lease import LeaderElector

QUICK = Timing(lease_s=60.0, renew_deadline_s=30.0, retry_s=0.02)  # looks often, expires never
ONCE = Timing(lease_s=60.0, renew_deadline_s=30.0, retry_s=20.0)  # no renewal, however slow the machine is
SHORT = Timing(lease_s=60.0, renew_deadline_s=0.15, retry_s=0.02)


class LeaseServer:
    """Keeps one Lease with optimistic concurrency."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.hangs = False
        self.holders: list[str] = []

    async def __call__(self, exchange: Any) -> None:
        if self.hangs:
            return
        request = exchange.request
        if request.method == "GET":
            if self.lease is None:
                await exchange.status(404, "NotFound")
            else:
                await exchange.answer(self.lease)
            return
        written = json.loads(request.body)
        if request.method == "POST" and self.lease is not None:
            await exchange.status(409, "AlreadyExists")
            return
        known = self.lease["metadata"]["resourceVersion"] if self.lease else None
        if request.method == "PUT" and written["metadata"].get("resourceVersion") != known:
            await exchange.status(409, "Conflict")
            return
        self.version += 1
        written["metadata"]["resourceVersion"] = str(self.version)
        self.lease = written
        self.holders.append(written["spec"].get("holderIdentity", ""))
        await exchange.answer(written)


def test_one_leads_and_hands_over_cleanly(talking: Any) -> None:
    server = LeaseServer()
    story: list[str] = []

    async def main() -> None:
        async with talking(server) as (_, client):
            started = {name: asyncio.Event() for name in "ab"}

            def work(name: str) -> Any:
                async def run() -> None:
                    story.append(f"{name} begins")
                    started[name].set()
                    try:
                        await asyncio.Event().wait()
                    finally:
                        story.append(f"{name} ends, holder {server.holders[-1]}")

                return run

            a, b = (LeaderElector(client, "ns", "sched", name, QUICK) for name in "ab")
            first = asyncio.create_task(a.run(work("a")))
            await asyncio.wait_for(started["a"].wait(), patience(5))
            second = asyncio.create_task(b.run(work("b")))
            await soon("it renews while the other waits", lambda: len(server.holders) >= 3)
            assert a.leading
            assert not b.leading
            first.cancel()
            await asyncio.wait((first,))
            await asyncio.wait_for(started["b"].wait(), patience(5))  # well before the lease would have run out
            second.cancel()
            await asyncio.wait((second,))

    asyncio.run(main())
    assert story == ["a begins", "a ends, holder a", "b begins", "b ends, holder b"]
    order = list(
        dict.fromkeys(
            f"{before}>{after}" for before, after in zip(server.holders, server.holders[1:]) if before != after
        )
    )
    assert order == ["a>", ">b", "b>"]


def test_a_server_that_hangs_pauses_the_work_until_it_answers(talking: Any) -> None:
    server = LeaseServer()

    async def main() -> bool:
        async with talking(server) as (_, client):
            turned = asyncio.Event()
            elector = LeaderElector(client, "ns", "sched", "a", SHORT)

            async def work() -> None:
                server.hangs = True
                await turned.wait()
                assert not elector.leading
                assert "not been renewed" in elector.standing()
                turned.clear()
                server.hangs = False
                await turned.wait()
                await soon("it leads, unless a late renewal was the last for a moment", lambda: elector.leading)

            return await asyncio.wait_for(elector.run(work, turned.set), patience(20))

    assert asyncio.run(main())
    assert set(server.holders[:-1]) == {"a"}


def test_a_leader_that_was_late_stops_its_work_where_another_took_the_lease(talking: Any) -> None:
    server = LeaseServer()

    async def main() -> tuple[bool, bool]:
        async with talking(server) as (_, client):
            turned = asyncio.Event()
            elector = LeaderElector(client, "ns", "sched", "a", SHORT)

            async def work() -> None:
                server.hangs = True
                await turned.wait()
                assert server.lease is not None
                server.version += 1
                server.lease["metadata"]["resourceVersion"] = str(server.version)
                server.lease["spec"]["holderIdentity"] = "b"
                server.hangs = False
                await asyncio.Event().wait()

            return await asyncio.wait_for(elector.run(work, turned.set), patience(20)), elector.leading

    assert asyncio.run(main()) == (False, False)


def test_work_that_ends_gives_the_lease_back(talking: Any) -> None:
    server = LeaseServer()

    async def main() -> bool:
        async with talking(server) as (_, client):

            async def work() -> None:
                pass

            return await LeaderElector(client, "ns", "sched", "a", ONCE).run(work)

    assert asyncio.run(main())
    assert server.holders == ["a", ""]


def test_work_that_fails_gives_the_lease_back_and_says_so(talking: Any) -> None:
    server = LeaseServer()

    async def main() -> str:
        async with talking(server) as (_, client):

            async def work() -> None:
                raise RuntimeError("broken")

            try:
                await LeaderElector(client, "ns", "sched", "a", ONCE).run(work)
            except RuntimeError as error:
                return str(error)
        return ""

    assert asyncio.run(main()) == "broken"
    assert server.holders == ["a", ""]


def test_a_race_has_one_winner(talking: Any) -> None:
    server = LeaseServer()

    async def main() -> int:
        async with talking(server) as (_, client):
            leading = peak = 0
            begun = asyncio.Event()

            async def work() -> None:
                nonlocal leading, peak
                leading += 1
                peak = max(peak, leading)
                begun.set()
                await asyncio.Event().wait()

            tasks = [
                asyncio.create_task(LeaderElector(client, "ns", "sched", f"c{i}", QUICK).run(work)) for i in range(5)
            ]
            await asyncio.wait_for(begun.wait(), patience(5))
            await soon("several renewals", lambda: len(server.holders) >= 5)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            return peak

    assert asyncio.run(main()) == 1
    assert len(set(server.holders[:5])) == 1


def test_a_renewal_cut_off_by_the_stop_does_not_spoil_the_hand_over(talking: Any) -> None:
    server = LeaseServer()

    async def main() -> None:
        renewing = asyncio.Event()

        async def nothing(*args: Any, **more: Any) -> None:
            renewing.set()

        async def deaf(exchange: Any) -> None:
            """The second write is taken in, and its answer never sent."""
            if len(server.holders) == 1 and exchange.request.method == "PUT":
                exchange.answer = nothing
            await server(exchange)

        async def forever() -> None:
            await asyncio.Event().wait()

        async with talking(deaf) as (_, client):
            elector = LeaderElector(client, "ns", "sched", "a", QUICK)
            running = asyncio.create_task(elector.run(forever))
            await asyncio.wait_for(renewing.wait(), patience(5))
            running.cancel()
            await asyncio.wait((running,))

    asyncio.run(main())
    assert server.holders == ["a", "a", ""]
