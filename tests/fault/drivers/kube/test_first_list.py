"""Lists of a large kind leave others their turns, and a server that is away for long leaves no garbage."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

from tests.fakes.waiting import patience
from tests.fault.drivers.kube.test_reflector import Script, bookmark, line, page, pod, story

from cotenant.drivers.kube.cache.reflector import PORTION, Reflector
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodObject

MANY = 2 * PORTION + 1


def deliveries(
    talking: Any, *turns: Any, said: list[bool] | None = None, **options: Any
) -> list[tuple[int, list[str], bool]]:
    """What was delivered each time: at which turn of the event loop, what, and whether all counted as listed. `said`:
    what was said before each portion of whether more follow.
    """
    told: list[tuple[int, list[str], bool]] = []
    missing = said if said is not None else []

    async def main() -> None:
        script, turned = Script(*turns), 0

        async def count() -> None:
            nonlocal turned
            while True:
                turned += 1
                await asyncio.sleep(0)

        async with talking(script) as (_, client):

            def deliver(happened: Any) -> None:
                told.append((turned, story(list(happened)), reflector.synced))

            reflector = Reflector(
                client,
                PODS,
                deliver,
                random=lambda: 0.5,
                handing_on=missing.append,
                **options,
            )
            tasks = [asyncio.create_task(reflector.run()), asyncio.create_task(count())]
            await asyncio.wait_for(script.done.wait(), patience(10))
            assert reflector.synced
            for task in tasks:
                task.cancel()

    asyncio.run(main())
    return told


def pods(first_version: int, count: int = MANY) -> list[dict[str, Any]]:
    return [pod(f"p{number:05d}", first_version + number) for number in range(count)]


def test_a_first_list_is_handed_on_in_portions_and_others_run_in_between(talking: Any) -> None:
    told = deliveries(talking, page(*pods(1), version=MANY), in_portions=True)
    assert [len(words) for _, words, _ in told] == [PORTION, PORTION, 2]
    assert len({turn for turn, _, _ in told}) == 3
    assert not any(synced for _, _, synced in told)  # until the last one is delivered
    assert [word for _, words, _ in told for word in words] == [
        *(f"+d/p{number:05d}@{1 + number}" for number in range(MANY)),
        f"synced {MANY}@{MANY}",
    ]


def test_a_later_list_is_handed_on_whole_to_who_did_not_ask_for_portions(talking: Any) -> None:
    """Who acts already must not decide by half of it."""
    told = deliveries(
        talking,
        page(*pods(1), version=MANY),
        [line("ERROR", {"code": 410, "reason": "Expired", "message": "too old"})],
        page(*pods(10 * MANY), version=20 * MANY),
        in_portions=True,
    )
    assert [len(words) for _, words, _ in told] == [PORTION, PORTION, 2, MANY + 1]
    assert told[-1][2]


def test_a_later_list_is_handed_on_in_portions_and_says_so_until_the_last_one(talking: Any) -> None:
    """It has the changes only: here those of all pods but one, one that is gone, and one that is new."""
    held: list[bool] = []
    told = deliveries(
        talking,
        page(*pods(1), version=MANY),
        [line("ERROR", {"code": 410, "reason": "Expired", "message": "too old"})],
        page(pod("p00000", 1), *pods(10 * MANY)[1:-1], pod("new", 12 * MANY), version=20 * MANY),
        in_portions=True,
        later_in_portions=True,
        said=held,
    )
    later = told[3:]
    assert [len(words) for _, words, _ in later] == [PORTION, PORTION, 2]
    assert later[0][1][0] == f"-d/p{MANY - 1:05d}"
    assert later[-1][1] == [f"+d/new@{12 * MANY}", f"synced {MANY}@{20 * MANY}"]
    assert len({turn for turn, _, _ in later}) == 3
    assert held[3:] == [True, True, False]


def test_without_the_option_it_is_handed_on_whole(talking: Any) -> None:
    assert [len(words) for _, words, _ in deliveries(talking, page(*pods(1), version=MANY))] == [MANY + 1]


def test_a_streamed_first_list_too_and_what_follows_in_the_same_chunk_comes_after_it(talking: Any) -> None:
    chunk = b"".join(line("ADDED", one) for one in pods(1))
    end = bookmark(MANY, initial_end=True) + line("MODIFIED", pod("p00000", MANY + 5))
    told = deliveries(talking, [chunk + end], in_portions=True, streaming=True, first_by=lambda pod: 0.0)
    assert [word for _, words, _ in told for word in words][-2:] == [f"synced {MANY}@{MANY}", f"~d/p00000@{MANY + 5}"]
    assert len(told[0][1]) == PORTION


def by_version(one: PodObject) -> float:
    return -float(one.metadata.resource_version or 0)


def test_an_order_of_the_first_list_holds_over_its_portions_and_pages(talking: Any) -> None:
    """Also where a page before it had an object that cannot be read."""
    bad = {"metadata": {"name": "bad", "namespace": "d", "resourceVersion": "1"}, "spec": 7}
    told = deliveries(
        talking,
        page(bad, *pods(1, PORTION), version=9, token="t"),
        page(pod("newest", 10 * PORTION), version=10 * PORTION),
        [line("ERROR", {"code": 410, "reason": "Expired", "message": "too old"})],
        page(pod("a", 1), pod("b", 2), version=20 * PORTION),
        in_portions=True,
        first_by=by_version,
    )
    words = [word for _, delivered, _ in told for word in delivered]
    assert words[:3] == ["?d/bad", f"+d/newest@{10 * PORTION}", f"+d/p{PORTION - 1:05d}@{PORTION}"]
    assert words[PORTION + 2] == f"synced {PORTION + 1}@{10 * PORTION}"
    assert words[-3:] == ["+d/a@1", "+d/b@2", f"synced 2@{20 * PORTION}"]  # a later one as it came


_AWAY = """
import asyncio, gc, json, logging, sys
from cotenant.drivers.kube.cache.reflector import Reflector
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.services.heap import collect_while_filling, spare_filling

logging.disable()
ROUNDS, failed, held = int(sys.argv[1]), 0, []

async def pause(_):
    global failed
    failed += 1
    await asyncio.sleep(0)

async def minute(_):
    # A minute of the collector is a hundred failures here: six kinds at 30 s are twelve.
    last = failed
    while failed < last + 100:
        await asyncio.sleep(0)
    held.append(len(gc.get_objects()))

async def main():
    access = Access("http://127.0.0.1:9", FixedCredential(Credential("")))
    async with Client(access, qps=float("inf"), burst=100, in_flight=8) as client:
        spare_filling()
        tasks = [asyncio.create_task(Reflector(client, PODS, lambda _: None, sleep=pause).run()) for _ in range(3)]
        tasks.append(asyncio.create_task(collect_while_filling(minute)))
        while len(held) < ROUNDS:
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
    print(json.dumps(held))

asyncio.run(main())
"""


def test_a_server_that_is_away_for_hours_leaves_no_more_garbage_than_one_that_is_for_minutes() -> None:
    """Port 9 refuses. Collections of what is old are spared until the first list, and there is none."""
    said = subprocess.run([sys.executable, "-c", _AWAY, "16"], capture_output=True, text=True, check=True).stdout
    held = json.loads(said)
    assert max(held[8:]) - max(held[2:8]) < 1000, held  # without collections it is 700 for each hundred failures
