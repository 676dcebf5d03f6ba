"""A stand-in for `nvidia-smi compute-policy`, a program that keeps each card's time-slice in a file.

It behaves as its help says: `-i` names the card by UUID, `--list` shows, `--set-timeslice` takes 0 to 3. How the list
is laid out NVIDIA documents nowhere, so a test may ask for several forms.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FORMS = {
    "table": "+---------------------------+\\n| GPU compute policies:     |\\n|   GPU   Name      Value   |\\n"
    "|   {index}     Timeslice   {name}   |\\n+---------------------------+",
    "line": "GPU {index}: timeslice: {name}",
    "number": "GPU {index}: Time-slice = {number}",
    "other": "nothing that is understood",
}
_PROGRAM = """#!{python}
import json, sys
from pathlib import Path
state = json.loads(Path({state!r}).read_text())
arguments = sys.argv[1:]
if arguments == ["--help"]:
    print("NVIDIA System Management Interface")
    sys.exit(0)
assert arguments[:2] == ["compute-policy", "-i"], arguments
card, rest = arguments[2], arguments[3:]
state["asked"] += 1
Path({state!r}).write_text(json.dumps(state))
if state["says"]:
    print(state["says"], file=sys.stderr)
    sys.exit(state["status"])
if card not in state["slices"]:
    print("No devices were found")
    sys.exit(6)
if rest == ["--list"]:
    number = state["slices"][card]
    name = ("Default", "Short", "Medium", "Long")[number]
    print({forms!r}[state["form"]].format(index=0, name=name, number=number))
else:
    assert rest[0] == "--set-timeslice" and rest[1] in "0123", rest
    state["slices"][card] = int(rest[1])
    Path({state!r}).write_text(json.dumps(state))
"""


class FakeSmi:
    """`program`: the stand-in, with one card, `GPU-a`."""

    def __init__(self, folder: Path, form: str = "table") -> None:
        self.program = folder / "nvidia-smi"
        self._state = folder / "slices.json"
        self._state.write_text(json.dumps({"slices": {"GPU-a": 0}, "form": form, "says": "", "status": 0, "asked": 0}))
        forms = {name: form.replace("\\n", "\n") for name, form in FORMS.items()}
        self.program.write_text(_PROGRAM.format(python=sys.executable, state=str(self._state), forms=forms))
        self.program.chmod(0o755)

    def set(self, **values: object) -> None:
        """Change what it keeps or says."""
        self._state.write_text(json.dumps(json.loads(self._state.read_text()) | values))

    @property
    def slice(self) -> int:
        return int(json.loads(self._state.read_text())["slices"]["GPU-a"])

    @property
    def asked(self) -> int:
        return int(json.loads(self._state.read_text())["asked"])
