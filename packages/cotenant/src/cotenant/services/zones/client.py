"""A client of the process that runs a host's zones, for commands and the agent.

A user must see whether no keeper runs zones, or one refuses. One blocking connection a request; refusals are raised as
what they were.
Limits: as the server's.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path

from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.json_object import JsonObject, JsonValue

_ANSWER_S = 220.0  # a zone has a minute to start, a virtual machine three
_EXEC_S = 650.0


class RefusedInput(InvalidInput):
    """Input that the server refused, in its words."""

    def __init__(self, text: str) -> None:
        field, _, rest = text.partition(": ")
        value, _, expected = rest.partition(": expected ")
        super().__init__(field, value, expected)
        self.args = (text,)

    def __reduce__(self) -> tuple[type[InvalidInput], tuple[str, str, str, str]]:
        """Pickle as the error that it was."""
        return InvalidInput, (self.field, str(self.value), self.expected, "")


@dataclass(frozen=True, slots=True)
class ZoneClient:
    """`path`: the socket of `cotenant keeper --zones`."""

    path: Path

    def create(self, text: str, name: str, agent: str | None = None, wait: bool = True) -> JsonObject:
        """Create a zone from the text of its file; its state, without `wait` none yet: it starts, or is among
        `failures` later. Raises `Transient` where no process answers, `RefusedInput` or `Permanent` with its refusal.
        """
        found: JsonObject = self._ask(do="create", text=text, name=name, agent=agent, wait=wait)
        return found

    def switch(self, zone: str, setting: str) -> JsonObject:
        """Change a zone's setting; its state. Raises as `create`."""
        found: JsonObject = self._ask(do="switch", zone=zone, setting=setting)
        return found

    def execute(self, zone: str, group: str, command: list[str]) -> JsonObject:
        """Run a command in a group of a zone in a virtual machine: `exit`, `stdout`, `stderr`. Raises as `create`."""
        found: JsonObject = self._ask(_EXEC_S, do="exec", zone=zone, group=group, command=command)
        return found

    def destroy(self, zone: str) -> str:
        """End a zone, or forget one that ended; which of both. Raises as `create`."""
        return str(self._ask(do="destroy", zone=zone))

    def sources(self) -> dict[str, str]:
        """The zones that run, each with the name that it was created from. Raises as `create`."""
        found: dict[str, str] = self._ask(do="sources")
        return found

    def failures(self) -> dict[str, tuple[str, str]]:
        """Zones that do not run because they failed, each with the name that it was created from and why. Raises as
        `create`.
        """
        return {zone: (found[0], found[1]) for zone, found in self._ask(do="failures").items()}

    def keeps_back(self, kept_back_bytes: int | None) -> None:
        """Tell how much memory the node keeps back from pods, None unknown. Raises as `create`."""
        self._ask(do="keepsBack", bytes=kept_back_bytes)

    def _ask(self, answer_s: float = _ANSWER_S, /, **request: object) -> JsonValue:
        try:
            with socket.socket(socket.AF_UNIX) as peer:
                peer.settimeout(answer_s)
                peer.connect(str(self.path))
                peer.sendall(json.dumps(request).encode() + b"\n")
                with peer.makefile("rb") as lines:
                    line = lines.readline()
        except OSError as error:
            raise Transient(
                f"no process runs zones at {self.path}: {error.strerror or error}; start `cotenant keeper --zones` as "
                "root"
            ) from error
        if not line:
            raise Transient(f"the keeper at {self.path} closed the connection; is this user allowed to (--allow-user)?")
        answer = json.loads(line)
        if "ok" in answer:
            return answer["ok"]
        if answer.get("invalid"):
            raise RefusedInput(str(answer.get("error")))
        raise Permanent(str(answer.get("error")))
