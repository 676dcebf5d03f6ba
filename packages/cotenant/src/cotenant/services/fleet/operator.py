"""A command's side: one request to a controller, asked again with the same key while the controller changes.

A command that has to wait says for what and for how long, and what to do when nobody came.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from cotenant.drivers.nats.client import connect
from cotenant.drivers.nats.contract import Bus
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.fleet.durations import duration_s
from cotenant.model.fleet.group import GroupOutcome
from cotenant.model.fleet.refusal import NobodyAnswers, Overdue
from cotenant.model.fleet.requests import Down, List, Listed, Restart, Up
from cotenant.services.fleet.places import BusOptions, access_of
from cotenant.services.fleet.rpc import LONGEST_S, call, new_key
from cotenant.services.fleet.templates.group_file import named_by_file

T = TypeVar("T")
_CONNECT_S = 3.0
CONTROLLER_S = 5.0  # for a controller to be there, or there again
_AGAIN_S, _SAID_S = 0.25, 1.0
ANEW_S = 5.0  # of a group


def ask_controller(options: BusOptions, verb: str, request: object, form: type[T], deadline_s: float = 5.0) -> T:
    """The answer. Raises what was answered, and `Transient` where there is no bus."""
    return asyncio.run(_ask(options, verb, request, form, deadline_s))


@dataclass(frozen=True, slots=True)
class GroupWait:
    """How long a command waits: `wait_s` for a bus and a controller to be there, `timeout_s` for the outcome."""

    wait_s: float = CONTROLLER_S
    timeout_s: float = LONGEST_S

    @classmethod
    def read(cls, wait: str, timeout: str) -> GroupWait:
        """As a command was told. Raises `InvalidInput`."""
        wait_s, timeout_s = duration_s("--wait", wait), duration_s("--timeout", timeout)
        if not 1 <= timeout_s <= LONGEST_S:
            raise InvalidInput("--timeout", timeout, f"1s to {LONGEST_S / 60:g}m")
        return cls(wait_s, timeout_s)


def bring_group(options: BusOptions, verb: str, request: Up | Down | Restart, waits: GroupWait) -> GroupOutcome:
    """As `ask_controller`; whichever controller is there then answers. What is waited for is said on stderr."""

    async def asked() -> GroupOutcome:
        async with connected(options, max(_CONNECT_S, waits.wait_s)) as (bus, operator):
            waiting = Waiting(waits.wait_s, lambda text: print(f"cotenant: {text}", file=sys.stderr, flush=True))
            return await ask(
                bus, operator, verb, request, GroupOutcome, waits.timeout_s, anew_s=ANEW_S, waiting=waiting
            )

    try:
        return asyncio.run(asked())
    except NobodyAnswers as error:
        wait = f"start one (`cotenant fleet serve`), or wait longer (--wait {_longer(waits.wait_s)})"
        raise Transient(f"no controller answered within {waits.wait_s:g} s; {wait}") from error
    except Overdue as error:
        name = request.template.name if isinstance(request, Up) else request.name
        raise Overdue(
            f"group {name} is not where it is to be within {waits.timeout_s:g} s, and it goes on; "
            f"`cotenant fleet inspect {name}` says how far it is, --timeout waits longer"
        ) from error


async def _ask(options: BusOptions, verb: str, request: object, form: type[T], deadline_s: float) -> T:
    async with connected(options) as (bus, operator):
        return await ask(bus, operator, verb, request, form, deadline_s)


@asynccontextmanager
async def connected(options: BusOptions, within_s: float = _CONNECT_S) -> AsyncIterator[tuple[Bus, str]]:
    """The bus, and the operator's name on it. Raises `Transient` where there is none."""
    access = access_of(options)
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of each end of a TLS connection
    bus = await connect(access, within_s=within_s)
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


def _longer(wait_s: float) -> str:
    return "1m" if wait_s < 60 else f"{round(wait_s * 2)}s"


def group_name(given: str) -> str:
    """A group's name, where its file was given."""
    path = Path(given)
    return named_by_file(path, os.environ) if path.suffix in (".yml", ".yaml") else given
