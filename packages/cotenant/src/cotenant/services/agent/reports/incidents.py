"""Reports what incidents cost their victims to the process that books credit, each verdict until it is answered.

An agent is killed, the receiver is away for hours, and an answer is lost; no incident may be lost or count twice by
that. An incident and culprit have one key for the life of the agent; a verdict is written to a file before it is sent
and removed after the answer, so a restarted agent sends it again under the same key, which the receiver books once. A
newer verdict of a key replaces one that waits. Verdicts that stand are kept in a second file for an hour: where a later
process clears the same culprit of the same victim, those of the earlier one, whose incident is forgotten, are cleared
too. What an agent finds while it only observes is not reported: nothing was limited, so nothing was proven.
Limits: a verdict that nothing contradicts within the hour stands, and decays as every entry; at most `MAX_WAITING`
verdicts wait, then the oldest is dropped; without a file that can be written they wait in memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from cotenant.engine.framework.backoff import Backoff
from cotenant.engine.node.recovery.harm import Harm, harms
from cotenant.engine.node.recovery.policy import RecoveryMemory
from cotenant.model.errors import CotenantError, InvalidInput, Transient
from cotenant.model.machine.node_state import NodeState
from cotenant.policy.credit.pricing import CauseVerdict
from cotenant.services.agent.reports.outbox import Post
from cotenant.services.agent_settings.config import AgentConfig
from cotenant.services.reporting.incident import PATH, IncidentBody

FILE = "incidents.json"
STANDING_FILE = "incidents-standing.json"
STANDING_MS = 3_600_000  # as long as the receiver remembers pods that left
MAX_WAITING = 256
MAX_ANSWERED = 1024
LOOK_S = 1.0
_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode

Found = Callable[[], tuple[RecoveryMemory, NodeState] | None]


class IncidentReporter:
    """One receiver. `found` gives the incidents and the last state, None where nothing is to be reported; clocks as
    in `Clocks`.
    """

    def __init__(
        self,
        url: str,
        node: str,
        post: Post,
        found: Found,
        wall: Callable[[], float],
        file: Path | None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.counts = {"delivered": 0, "refused": 0, "failed": 0, "dropped": 0}
        self.waiting: dict[str, IncidentBody] = {}
        self._url = url.rstrip("/") + PATH
        self._node = node
        self._post = post
        self._found = found
        self._wall = wall
        self._file = file
        self._sleep = sleep
        self._began_ms = int(wall() * 1000)
        self._known: dict[str, CauseVerdict] = {}  # the last verdict of each key of this process
        self._standing: dict[str, IncidentBody] = {}  # verdicts by key that name a culprit, of this process
        self._earlier: dict[str, IncidentBody] = {}  # of an earlier process
        self._backoff = Backoff(1.0, 60.0)
        self._problem = ""

    async def run(self) -> None:
        """Look for verdicts and deliver them, until cancelled."""
        self.load()
        failures = 0
        while True:
            self.note_verdicts()
            failures = 0 if await self.deliver() else failures + 1
            await self._sleep(self._backoff.rest_s(failures) if failures else LOOK_S)

    def note_verdicts(self) -> None:
        """Put new and changed verdicts into the outbox, and the outbox into the file."""
        found = self._found()
        if found is None:
            return
        memory, state = found
        changed = False
        for harm in harms(memory, state):
            key = self._key(harm)
            before = self._known.get(key)
            if (
                harm.verdict is CauseVerdict.CLEARED
                and before is not CauseVerdict.CLEARED
                and self._clear_earlier(harm)
            ):
                changed = True
            if harm.verdict is before or (harm.verdict is CauseVerdict.CLEARED and before is None):
                continue
            self._known[key] = harm.verdict
            self.waiting[key] = body = self._body(key, harm, state.at_us)
            if harm.verdict is CauseVerdict.CLEARED:
                self._standing.pop(key, None)
            else:
                self._standing[key] = body
            changed = True
        while len(self.waiting) > MAX_WAITING:
            del self.waiting[next(iter(self.waiting))]
            self.counts["dropped"] += 1
        while len(self._known) > MAX_ANSWERED:
            del self._known[next(iter(self._known))]
        if changed:
            self._save()
            self._save_standing()

    def _clear_earlier(self, harm: Harm) -> bool:
        """Clear what an earlier process said of this culprit and victim. Whether it said anything."""
        now_ms = int(self._wall() * 1000)
        found = [
            body
            for body in self._earlier.values()
            if (body.culprit_pod, body.victim_pod) == (harm.culprit, harm.victim) and now_ms - body.at_ms <= STANDING_MS
        ]
        for body in found:
            del self._earlier[body.key]
            self.waiting[body.key] = msgspec.structs.replace(body, verdict=CauseVerdict.CLEARED, at_ms=now_ms)
        return bool(found)

    async def deliver(self) -> bool:
        """Send what waits, in order. False where the receiver does not answer; the rest waits."""
        for key, body in list(self.waiting.items()):
            try:
                await self._post(self._url, _encode(body))
            except (
                Transient,
                InvalidInput,
            ) as error:  # the latter of the token's or the authorities' file, which may come yet
                self.counts["failed"] += 1
                self._note(f"an incident is not delivered: {error}")
                return False
            except CotenantError as error:
                self.counts["refused"] += 1
                self._note(f"an incident is refused: {error}")
            else:
                self.counts["delivered"] += 1
                self._problem = ""
            del self.waiting[key]
            self._save()
        return True

    def load(self) -> None:
        """Continue with what an earlier process had not delivered."""
        if self._file is None:
            return
        earlier = _read(self._file, "its incidents are not reported")
        self.waiting = {**{body.key: body for body in earlier}, **self.waiting}
        standing = _read(self._file.with_name(STANDING_FILE), "what it says is not cleared later")
        self._earlier = {body.key: body for body in standing}

    def _save(self) -> None:
        if self._file is not None:
            self._write(self._file, list(self.waiting.values()))

    def _save_standing(self) -> None:
        """Keep the verdicts that stand, also those of earlier processes, for an hour."""
        now_ms = int(self._wall() * 1000)
        for bodies in (self._standing, self._earlier):
            for key in [key for key, body in bodies.items() if now_ms - body.at_ms > STANDING_MS]:
                del bodies[key]
        if self._file is not None:
            latest = [*self._earlier.values(), *self._standing.values()][-MAX_WAITING:]
            self._write(self._file.with_name(STANDING_FILE), latest)

    def _write(self, to: Path, bodies: list[IncidentBody]) -> None:
        beside = to.with_name(to.name + ".new")
        try:
            with beside.open("wb") as file:
                file.write(_encode(bodies))
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, to)
        except OSError as error:
            with suppress(OSError):
                beside.unlink()
            self._note(f"incidents that wait are kept in memory only: {error}")

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            _log.warning("%s", problem)
        self._problem = problem

    def _key(self, harm: Harm) -> str:
        node = re.sub(r"[^A-Za-z0-9._-]", "-", self._node)[:100]
        pod = sha256(f"{self._node} {harm.culprit}".encode()).hexdigest()[:12]
        return f"{node}:{self._began_ms}:{harm.number}:{pod}"

    def _body(self, key: str, harm: Harm, now_us: int) -> IncidentBody:
        figures: dict[str, int | str] = {
            "signal": harm.signal,
            "level_ppm": harm.level_ppm,
            "threshold_ppm": harm.threshold_ppm,
            "lasted_ms": harm.lasted_us // 1000,
            "began_ms": int(self._wall() * 1000) - max(0, now_us - harm.opened_us) // 1000,
            "objective": harm.objective,
        }
        return IncidentBody(
            key=key,
            at_ms=int(self._wall() * 1000),
            harm_milli_core_hours=harm.milli_core_hours,
            confidence_permille=harm.confidence_ppm // 1000,
            culprit_pod=harm.culprit,
            victim_pod=harm.victim,
            verdict=harm.verdict,
            objective_missed=harm.objective_missed,
            evidence={name: value for name, value in figures.items() if value != ""},
        )


def _read(file: Path, otherwise: str) -> list[IncidentBody]:
    """The incidents in a file; none where it cannot be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[IncidentBody])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        _log.warning("%s cannot be read; %s: %s", file, otherwise, error)
        return []


def incident_reporter(
    config: AgentConfig, node: str, post: Post | None, found: Found, wall: Callable[[], float]
) -> IncidentReporter | None:
    """The reporter that the configuration asks for, if any."""
    if not config.credit.url or post is None:
        return None
    return IncidentReporter(config.credit.url, node, post, found, wall, config.state_dir / FILE)
