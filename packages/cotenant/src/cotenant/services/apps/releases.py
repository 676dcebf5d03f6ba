"""Changes of releases whose objects we apply ourselves: YAML and kustomizations."""

from __future__ import annotations

import time
from dataclasses import dataclass

from cotenant.engine.apps.ownership import why_not_adopt, why_not_believe
from cotenant.engine.apps.run import ReleaseEnd, RunPlan
from cotenant.engine.apps.stopping import is_stopped
from cotenant.model.apps.objects import ref_of
from cotenant.model.apps.release import Revision, RevisionState, deployed, possibly_there
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.json_object import JsonObject
from cotenant.services.apps.carrying import Carrier

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class How:
    """How a change is made."""

    timeout_s: float
    waits: bool = True
    rolls_back: bool = False
    adopts: bool = False


async def install(carrier: Carrier, documents: list[JsonObject], how: How) -> ReleaseEnd:
    """The first revision, or the next after one that failed."""
    history = await _history(carrier)
    if deployed(history) is not None:
        raise InvalidInput("NAME", carrier.release.name, "a new name", f"{carrier.release} is there: use upgrade")
    return await _change(carrier, history, documents, how)


async def upgrade(carrier: Carrier, documents: list[JsonObject], how: How) -> ReleaseEnd:
    """The next revision; what the release had and this has not is deleted at its end."""
    history = await existing(carrier)
    await refuse_stopped(carrier, possibly_there(history), "an upgrade")
    return await _change(carrier, history, documents, how)


async def roll_back(carrier: Carrier, number: int, how: How) -> ReleaseEnd:
    """The documents of an earlier revision as the next; 0 = of the one that was deployed before the latest."""
    history = await existing(carrier)
    latest = history[-1].number
    if number:
        chosen = next((one for one in history if one.number == number), None)
    else:
        earlier = [one for one in history if one.number < latest]
        chosen = deployed(tuple(earlier)) or next(
            (one for one in reversed(earlier) if one.state is RevisionState.SUPERSEDED), None
        )
    if chosen is None:
        numbers = ", ".join(str(one.number) for one in history)
        raise InvalidInput("--to", number or "the one before", f"a revision that is kept: {numbers}")
    await refuse_stopped(carrier, possibly_there(history), "a roll-back")
    await refuse_unbelieved(carrier, chosen.documents)
    return await _change(carrier, history, list(chosen.documents), how)


async def uninstall(carrier: Carrier, how: How, deletes_data: bool) -> ReleaseEnd:
    """Delete what the release has, except what holds data, and forget it."""
    history = await existing(carrier)
    before = possibly_there(history)
    plan = RunPlan(history[-1].number, (), before, how.waits, how.timeout_s, None, deletes_data)
    return await carrier.carry(plan)


async def existing(carrier: Carrier) -> tuple[Revision, ...]:
    """The revisions of a release that there is. Raises `InvalidInput`."""
    history = await _history(carrier)
    if not history:
        raise InvalidInput("NAME", carrier.release.name, f"a release of namespace {carrier.release.namespace}")
    return history


async def refuse_stopped(carrier: Carrier, documents: tuple[JsonObject, ...], what: str) -> None:
    """Raises `InvalidInput` where objects are stopped: what they were would be lost."""
    for document in documents:
        live = await carrier.live(ref_of(document), str(document["apiVersion"]))
        if live is not None and is_stopped(live):
            hint = "start it first: it would come back at another size than it had"
            raise InvalidInput("NAME", carrier.release.name, f"a release that runs, for {what}", hint)


async def refuse_unbelieved(carrier: Carrier, documents: tuple[JsonObject, ...]) -> None:
    """Raises `Permanent` where a record names what the release may not touch."""
    for document in documents:
        ref = ref_of(document)
        if ref.namespace == carrier.release.namespace:
            continue
        why = why_not_believe(ref, await carrier.live(ref, str(document["apiVersion"])), carrier.release)
        if why:
            raise Permanent(f"{ref}: {why}")


async def _history(carrier: Carrier) -> tuple[Revision, ...]:
    """The revisions. Raises `Permanent` while another command changes the release."""
    history = await carrier.records.history(carrier.release.name)
    last = history[-1] if history else None
    if last is not None and last.state is RevisionState.PENDING and last.until_s > time.time():
        left = f"{last.until_s - time.time():.0f} s"
        raise Permanent(
            f"{carrier.release} is being changed (revision {last.number}); if its command was killed, wait {left}"
        )
    return history


async def _change(carrier: Carrier, history: tuple[Revision, ...], documents: list[JsonObject], how: How) -> ReleaseEnd:
    before = possibly_there(history)
    await _refuse_foreign(carrier, documents, how.adopts)
    standing = deployed(history)
    back_to: tuple[JsonObject, ...] | None = None
    if how.rolls_back:
        back_to = standing.documents if standing is not None else ()
    number = history[-1].number + 1 if history else 1
    plan = RunPlan(number, tuple(documents), before, how.waits, how.timeout_s, back_to)
    return await carrier.carry(plan)


async def _refuse_foreign(carrier: Carrier, documents: list[JsonObject], adopts: bool) -> None:
    foreign = []
    for document in documents:
        ref = ref_of(document)
        live = await carrier.live(ref, str(document["apiVersion"]))
        why = why_not_adopt(live, carrier.release, adopts)
        if why:
            foreign.append(f"{ref}: {why}")
    if foreign:
        more = f"; and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
        raise Permanent("; ".join(foreign[:_SHOWN]) + more)
