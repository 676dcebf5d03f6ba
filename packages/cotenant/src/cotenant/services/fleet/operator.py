"""A command's side: one request to a controller, asked again with the same key while the controller changes."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from cotenant.drivers.nats.client import connect
from cotenant.drivers.nats.contract import Bus
from cotenant.model.errors import Transient
from cotenant.model.fleet.group import GroupOutcome
from cotenant.model.fleet.refusal import NobodyAnswers, Overdue
from cotenant.model.fleet.requests import Down, List, Listed, Restart, Up
from cotenant.services.fleet.places import BusOptions, access_of
from cotenant.services.fleet.rpc import call, new_key
from cotenant.services.fleet.templates.group_file import named_by_file

T = TypeVar("T")
_CONNECT_S = 3.0
_CONTROLLER_S = 5.0  # for a controller to be there, or there again
_AGAIN_S = 0.25
ANEW_S = 5.0  # of a group


def ask_controller(options: BusOptions, verb: str, request: object, form: type[T], deadline_s: float = 5.0) -> T:
    """The answer. Raises what was answered, and `Transient` where there is no bus."""
    return asyncio.run(_ask(options, verb, request, form, deadline_s))


def bring_group(options: BusOptions, verb: str, request: Up | Down | Restart, deadline_s: float) -> GroupOutcome:
    """As `ask_controller`; whichever controller is there then answers."""
    return asyncio.run(_ask(options, verb, request, GroupOutcome, deadline_s, ANEW_S))


async def _ask(
    options: BusOptions, verb: str, request: object, form: type[T], deadline_s: float, anew_s: float | None = None
) -> T:
    async with connected(options) as (bus, operator):
        return await ask(bus, operator, verb, request, form, deadline_s, anew_s=anew_s)


@asynccontextmanager
async def connected(options: BusOptions) -> AsyncIterator[tuple[Bus, str]]:
    """The bus, and the operator's name on it. Raises `Transient` where there is none."""
    access = access_of(options)
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of each end of a TLS connection
    bus = await connect(access, within_s=_CONNECT_S)
    try:
        yield bus, access.name
    finally:
        await bus.close()


async def ask(
    bus: Bus,
    operator: str,
    verb: str,
    request: object,
    form: type[T],
    deadline_s: float = 5.0,
    now: Callable[[], float] = time.monotonic,
    anew_s: float | None = None,
) -> T:
    """The answer of a controller, asked again with the same key while there is none.

    `anew_s`: also where a controller that was there has not answered for so long: it may be gone, and another goes on
    with what it began. Only for requests whose key controllers share.
    """
    key, began_s = new_key(), now()
    until_s = began_s + _CONTROLLER_S
    while True:
        try:
            return await call(bus, f"fleet.{operator}.rpc.{verb}", request, form, deadline_s, key, anew_s)
        except Overdue:
            if anew_s is None or now() - began_s >= deadline_s:
                raise
            until_s = now() + _CONTROLLER_S
        except (NobodyAnswers, Transient):
            if now() >= until_s:
                raise
            await asyncio.sleep(_AGAIN_S)


def list_all(options: BusOptions, wanted: List) -> Listed:
    """All pages of a list."""
    page = ask_controller(options, "list", wanted, Listed)
    hosts = page.hosts
    while page.next_start is not None:
        page = ask_controller(options, "list", replace(wanted, start=page.next_start), Listed)
        hosts += page.hosts
    return Listed(hosts, page.groups)


def group_name(given: str) -> str:
    """A group's name, where its file was given."""
    path = Path(given)
    return named_by_file(path, os.environ) if path.suffix in (".yml", ".yaml") else given
