"""Runs and prints the commands of `cotenant app`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import isfinite
from pathlib import Path

import msgspec

from cotenant.cli.tables import print_line, print_words
from cotenant.engine.apps.run import ReleaseEnd
from cotenant.model.counted import counted
from cotenant.model.errors import InvalidInput
from cotenant.model.printable import printable
from cotenant.services.apps.command import AppLocation, Apps, connected, said_of
from cotenant.services.apps.releases import How
from cotenant.services.apps.viewing import ReleaseView
from cotenant.services.prices import price_table


def how(timeout_s: float, waits: bool, rolls_back: bool, adopts: bool) -> How:
    """How a change is made. Raises `InvalidInput`."""
    if not (isfinite(timeout_s) and timeout_s > 0):
        raise InvalidInput("--timeout-s", timeout_s, "seconds above 0")
    if rolls_back and not waits:
        raise InvalidInput("--rollback-on-failure", "--no-wait", "waiting", "what is not waited for cannot fail")
    return How(timeout_s, waits, rolls_back, adopts)


def install(
    where: AppLocation,
    name: str,
    source: str,
    options: Sequence[str],
    how: How,
    class_name: str,
    creates_namespace: bool,
) -> int:
    """Install and print."""
    return _change(
        where, name, "installed", lambda apps: apps.install(name, source, options, how, class_name, creates_namespace)
    )


def upgrade(where: AppLocation, name: str, source: str, options: Sequence[str], how: How, class_name: str) -> int:
    """Upgrade and print."""
    return _change(where, name, "upgraded", lambda apps: apps.upgrade(name, source, options, how, class_name))


def roll_back(where: AppLocation, name: str, number: int, how: How) -> int:
    """Roll back and print."""
    return _change(where, name, "rolled back", lambda apps: apps.roll_back(name, number, how))


def uninstall(where: AppLocation, name: str, how: How, deletes_data: bool) -> int:
    """Uninstall and print."""
    return _change(where, name, "uninstalled", lambda apps: apps.uninstall(name, how, deletes_data))


def stop(where: AppLocation, name: str, how: How) -> int:
    """Stop and print."""
    return _change(where, name, "stopped", lambda apps: apps.stop(name, how))


def start(where: AppLocation, name: str, how: How) -> int:
    """Start and print."""
    return _change(where, name, "started", lambda apps: apps.start(name, how))


def every(where: AppLocation, everywhere: bool, json: bool) -> int:
    """Print the list."""

    async def run() -> int:
        async with connected(where, _say) as apps:
            found = await apps.every(everywhere)
        if json:
            print(msgspec.json.encode({"releases": found}).decode())
            return 0
        rows = [(one.namespace, one.name, str(one.revision), one.state, one.source) for one in found]
        print_words(("namespace", "name", "revision", "state", "source"), rows, right=("revision",))
        return 0

    return asyncio.run(run())


def show(where: AppLocation, name: str, prices: Path | None, json: bool) -> int:
    """Print the page of one release."""
    table = price_table(prices)

    async def run() -> int:
        async with connected(where, _say) as apps:
            found = await apps.show(name, table)
        if json:
            print(msgspec.json.encode(found).decode())
        else:
            _print(found)
        return 0

    return asyncio.run(run())


def _change(where: AppLocation, name: str, done: str, change: Callable[[Apps], Awaitable[ReleaseEnd]]) -> int:
    async def run() -> int:
        async with connected(where, _say) as apps:
            finished = await change(apps)
        for line in said_of(name, done, finished):
            _say(line)
        return 1 if finished.failure else 0

    return asyncio.run(run())


def _say(line: str) -> None:
    print(printable(line), flush=True)


def _print(found: ReleaseView) -> None:
    print_line(f"{found.namespace}/{found.name}: {found.state}, revision {found.revision}, {found.source}", strong=True)
    if found.message:
        print_line(found.message)
    rows = [
        (f"{one.kind} {one.name}", f"{one.ready}/{one.wanted}", "stopped" if one.is_stopped else "; ".join(one.why))
        for one in found.objects
    ]
    print_words(("object", "ready", ""), rows, right=("ready",))
    if found.pods:
        print_words(
            ("guid", "pod", "node", "phase", "class"),
            [(one.guid, one.name, one.node or "-", one.phase, one.qos or "-") for one in found.pods],
        )
    if found.class_name and found.without_class:
        print_line(
            f"class {found.class_name} was asked for, and {counted(len(found.without_class), 'pod is', 'pods are')} "
            "without it: is the webhook there?"
        )
    for objective in found.objectives:
        print_line(f"objective {objective.name}: {objective.service} {objective.target} %, {objective.state}")
    for quota in found.quotas:
        amounts = ", ".join(f"{key} {quota.used.get(key, '0')} of {most}" for key, most in quota.maximum.items())
        print_line(f"{quota.kind} {quota.name}: {amounts}")
    cost = found.cost
    line = f"its running pods request {cost.cpu_m / 1000:g} cores and {cost.memory_mib} MiB"
    if cost.per_hour is not None:
        line += f": {cost.per_hour:.4f} {cost.currency} an hour".replace("  ", " ")
    print_line(line)
