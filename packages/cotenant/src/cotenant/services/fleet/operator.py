"""A command's side: one request to a controller, asked again with the same key while the controller changes."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from cotenant.drivers.nats.client import connect
from cotenant.drivers.nats.contract import Bus
from cotenant.model.errors import Transient
from cotenant.model.fleet.refusal import NobodyAnswers, Overdue
from cotenant.model.fleet.requests import List, Listed
from cotenant.services.fleet.places import BusOptions, access_of
from cotenant.services.fleet.rpc import call, new_key
from cotenant.services.fleet.templates.group_file import named_by_file

T = TypeVar("T")
CONNECT_S = 3.0
CONTROLLER_S = 5.0  # for a controller to be there, or there again
_AGAIN_S, _SAID_S = 0.25, 1.0
ANEW_S = 5.0  # of a group


def ask_controller(options: BusOptions, verb: str, request: object, form: type[T], deadline_s: float = 5.0) -> T:
    """The answer. Raises what was answered, and `Transient` where there is no bus."""
    return asyncio.run(_ask(options, verb, request, form, deadline_s))


async def _ask(options: BusOptions, verb: str, request: object, form: type[T], deadline_s: float) -> T:
    async with connected(options) as (bus, operator):
        return await ask(bus, operator, verb, request, form, deadline_s)


@asynccontextmanager
async def connected(options: BusOptions, within_s: float = CONNECT_S) -> AsyncIterator[tuple[Bus, str]]:
    """The bus, and the operator's name on it. Raises `Transient` where there is none."""
    access = access_of(options)
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of each end of a TLS connection
    try:
        bus = await connect(access, within_s=within_s)
    except Transient as error:
        hint = "start its server (nats-server, or `cotenant fleet serve --embedded`), or name another by --bus"
        raise Transient(f"{error}; {hint}") from error
    try:
        yield bus, access.name
    finally:
        await bus.close()


@dataclass(slots=True)
class Waiting:
    """For how long a controller is waited for, or for one that can do what is asked, and who is told of it."""

    wait_s: float = CONTROLLER_S
    tell: Callable[[str], None] = lambda _: None
    said: str = ""

    def hear(self, error: NobodyAnswers | Transient, waited_s: float) -> None:
        """Tell, once for each reason, why it is waited after the first moment."""
        why = "no controller answers" if isinstance(error, NobodyAnswers) else str(error)
        if waited_s >= _SAID_S and why != self.said:
            self.said = why
            self.tell(f"{why}; waiting up to {self.wait_s:g} s for that to change")


async def ask(
    bus: Bus,
    operator: str,
    verb: str,
    request: object,
    form: type[T],
    deadline_s: float = 5.0,
    now: Callable[[], float] = time.monotonic,
    anew_s: float | None = None,
    waiting: Waiting | None = None,
) -> T:
    """The answer of a controller, asked again with the same key while there is none.

    `anew_s`: also where a controller that was there has not answered for so long: it may be gone, and another goes on
    with what it began. Only for requests whose key controllers share.
    """
    key, began_s, waiting = new_key(), now(), waiting or Waiting()
    failing_since_s: float | None = None  # what failed after a while was there until then
    while True:
        try:
            return await call(bus, f"fleet.{operator}.rpc.{verb}", request, form, deadline_s, key, anew_s)
        except Overdue:
            if anew_s is None or now() - began_s >= deadline_s:
                raise
            failing_since_s = None
        except (NobodyAnswers, Transient) as error:
            failing_since_s = now() if failing_since_s is None else failing_since_s
            waited_s = now() - failing_since_s
            if waited_s >= waiting.wait_s:
                raise
            waiting.hear(error, waited_s)
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
