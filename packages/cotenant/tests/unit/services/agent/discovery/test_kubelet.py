"""Facts about the kubelet: the better source wins, and one that is away keeps its last answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from cotenant.model.errors import CotenantError, Transient
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.services.agent.discovery.kubelet import EVERY_S, KubeletOfNode

T = TypeVar("T")
CONFIGZ = b'{"kubeletconfig":{"topologyManagerPolicy":"restricted"}}'


def answers(*given: T | CotenantError) -> Callable[[], Awaitable[T]]:
    """A source that answers these, one after another."""
    left = iter(given)

    async def ask() -> T:
        answer = next(left)
        if isinstance(answer, CotenantError):
            raise answer
        return answer

    return ask


def test_the_kubelets_own_answer_wins_over_the_keepers_and_that_over_files() -> None:
    files = KubeletFacts(1, cpu_manager="none", cgroup_driver="systemd", topology_manager="none")
    of_keeper = KubeletFacts(cpu_manager="static", topology_manager="best-effort", systemd=252)
    found = KubeletOfNode(lambda: files, lambda: (1, 36), answers(of_keeper), answers(CONFIGZ))
    assert found() == KubeletFacts(1, (1, 36), "none", "none", cgroup_driver="systemd")
    asyncio.run(found.ask())
    assert found() == KubeletFacts(1, (1, 36), "static", "restricted", systemd=252, cgroup_driver="systemd")


def test_a_source_that_is_away_keeps_its_last_answer() -> None:
    away = Transient("gone")
    found = KubeletOfNode(
        KubeletFacts, keeper=answers(KubeletFacts(cpu_manager="static"), away), configz=answers(CONFIGZ, b"nonsense")
    )

    async def twice() -> None:
        await found.ask()
        await found.ask()

    asyncio.run(twice())
    assert (found().cpu_manager, found().topology_manager) == ("static", "restricted")


def test_without_anyone_to_ask_there_are_the_files() -> None:
    assert not KubeletOfNode(KubeletFacts).asks


def test_each_source_is_asked_where_it_is_the_only_one() -> None:
    keeper = KubeletOfNode(KubeletFacts, keeper=answers(KubeletFacts(systemd=252)))
    configz = KubeletOfNode(KubeletFacts, configz=answers(CONFIGZ))
    assert (keeper.asks, configz.asks) == (True, True)
    asyncio.run(keeper.ask())
    asyncio.run(configz.ask())
    assert (keeper().systemd, configz().topology_manager) == (252, "restricted")


def test_a_keeper_that_starts_later_is_asked_again_within_seconds_and_one_that_stays_away_ever_more_seldom() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 9:
            raise asyncio.CancelledError

    away: list[KubeletFacts | CotenantError] = [Transient("no socket yet")]
    here: list[KubeletFacts | CotenantError] = [KubeletFacts(cpu_manager="static")]
    found = KubeletOfNode(KubeletFacts, keeper=answers(*(2 * away + here + 6 * away)), sleep=sleep)
    with suppress(asyncio.CancelledError):
        asyncio.run(found.run())
    assert slept == [1.0, 2.0, EVERY_S, 1.0, 2.0, 4.0, 8.0, 16.0, EVERY_S]
    assert found().cpu_manager == "static"
