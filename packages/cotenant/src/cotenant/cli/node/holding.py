"""`cotenant node hold`: one lease by hand, at the keeper."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from cotenant.cli import tables
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import GiveBack, Knob, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.client import KeeperClient

_WHY = Reason("by-hand", "cotenant node hold")
_WELL = frozenset({LeaseState.HELD, LeaseState.INTENDED, LeaseState.RESTORED})


def hold(knob: str, group: str, value: str | None, seconds: float, socket: Path, as_json: bool) -> int:
    """Ask the keeper; `value` None gives back. 1 where it refuses. Raises `InvalidInput`, `Transient`."""
    known = {str(entry): entry for entry in Knob}
    if knob not in known:
        raise InvalidInput("knob", knob, f"one of {', '.join(known)}")
    if not 1 <= seconds <= 86_400:
        raise InvalidInput("--for", seconds, "1 to 86400 seconds")
    target = KnobTarget(group.strip("/"), known[knob])
    answer = asyncio.run(_asked(socket, target, value, round(seconds * 1e6)))
    if as_json:
        print(json.dumps({"knob": knob, "group": target.group, "state": answer.state.value, "detail": answer.detail}))
    else:
        until = f" for {seconds:g} s" if answer.state is LeaseState.HELD else ""
        tables.print_folded(f"{target}: {answer.state}{until}{f': {answer.detail}' if answer.detail else ''}")
    return 0 if answer.state in _WELL else 1


async def _asked(socket: Path, target: KnobTarget, value: str | None, ttl_us: int) -> LeaseAnswer:
    client = KeeperClient(socket)
    try:
        if value is None:
            (answer,) = await client.give_back([GiveBack(target, _WHY)])
        else:
            (answer,) = await client.hold([SetKnob(target, value, _WHY, ttl_us)])
    finally:
        await client.close()
    return answer
