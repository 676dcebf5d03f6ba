"""`cotenant zone run`: a zone of the keeper for as long as a command runs.

To try a zone a user wants to see its changes as they come and to end it with Ctrl-C, and a kernel scheduler is loaded
by the keeper alone. The zone is created in the keeper as by `create`, its changes are read from its state file and
printed, and it is destroyed at the end.
Limits: a zone whose command was killed (SIGKILL) goes on in the keeper until `cotenant zone destroy`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from cotenant.model.errors import CotenantError, InvalidInput, Permanent
from cotenant.model.json_object import JsonMapping
from cotenant.services.running import run_until_signal
from cotenant.services.zones.client import ZoneClient
from cotenant.services.zones.state_file import read_state
from cotenant.services.zones.zone_files import definition_of, read_text

_LOOK_S = 0.2


def run(
    file: Path, socket: Path, state_dir: Path, seconds: float | None, as_json: bool, agent: str | None = None
) -> int:
    """Run the zone until a signal, or for so many seconds. `socket`, `state_dir`: of the keeper. Raises
    `InvalidInput` for a wrong file, and as `ZoneClient.create`.
    """
    text = read_text(file)
    zone = definition_of(text, str(file)).zone
    client = ZoneClient(socket)
    show = _line(as_json, zone)
    run_until_signal(
        lambda stop: follow(stop, client, zone, text.decode(), str(file.absolute()), agent, state_dir, seconds, show)
    )
    return 0


async def follow(
    stop: asyncio.Event,
    client: ZoneClient,
    zone: str,
    text: str,
    name: str,
    agent: str | None,
    state_dir: Path,
    seconds: float | None,
    show: Callable[[Mapping[str, object]], None],
) -> None:
    """Create the zone, call `show` with each change once it is settled, and destroy the zone. Raises as
    `ZoneClient`, `Permanent` where the zone ends by itself or its state is not in `state_dir`.
    """
    await asyncio.to_thread(client.create, text, name, agent)
    loop = asyncio.get_running_loop()
    end_s = None if seconds is None else loop.time() + seconds
    shown: set[tuple[float, str]] = set()
    try:
        while True:
            try:
                state = await asyncio.to_thread(read_state, state_dir, zone)
            except InvalidInput as error:
                raise Permanent(
                    f"zone {zone} runs, and its state is not in {state_dir}: give the keeper's --zone-state-dir as "
                    "--state-dir"
                ) from error
            shown = _show_settled(state["history"], shown, show)
            if not state["running"]:
                raise Permanent(f"zone {zone} ended; cotenant zone logs {zone} has more")
            if stop.is_set() or (end_s is not None and loop.time() >= end_s):
                return
            left_s = _LOOK_S if end_s is None else max(0.0, min(_LOOK_S, end_s - loop.time()))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), left_s)
    finally:
        with contextlib.suppress(CotenantError):  # it may have ended, or the keeper
            await asyncio.to_thread(client.destroy, zone)


def _show_settled(
    history: list[JsonMapping], shown: set[tuple[float, str]], show: Callable[[JsonMapping], None]
) -> set[tuple[float, str]]:
    settled = {(change["at"], change["what"]): change for change in history if change["kept"] is not None}
    for key, change in settled.items():
        if key not in shown:
            show(change)
    return set(settled)


def _line(as_json: bool, zone: str) -> Callable[[Mapping[str, object]], None]:
    def show(change: JsonMapping) -> None:
        if as_json:
            text = json.dumps({"zone": zone, **{key: change[key] for key in ("what", "reason", "kept", "outcome")}})
        else:
            verdict = "" if change["kept"] else "undone: "
            text = f"{zone}: {change['what']}: {change['reason']}; {verdict}{change['outcome']}"
        print(text, flush=True)

    return show
