"""The schemata of a class of service as a knob: the class is created at the first write and removed at the restore.

A class is needed only while a policy uses it, and hardware has few. `write` creates the group; `restore` to the state
before the group existed removes it, and its tasks fall back to the root. A value may name some resources and domains;
the others keep what they have. A group that does not exist reads as "".
Limits: an existing foreign group is written and restored like any, never removed.
"""

from __future__ import annotations

from cotenant.drivers.resctrl.schemata import parse_schemata
from cotenant.drivers.resctrl.tree import NEEDS, ResctrlTree
from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, KnobTarget, Vanished

_ABSENT = "absent"
_STOOD = "stood\n"


class ResctrlKnobs:
    """Implements engine/node/interfaces.KnobPort for `KnobScope.RESCTRL`."""

    def __init__(self, tree: ResctrlTree | None = None) -> None:
        self._tree = tree if tree is not None else ResctrlTree()

    def supported(self, knob: Knob) -> Gap | None:
        """None where the tree exists."""
        if knob is not Knob.SCHEMATA:
            return Gap(str(knob), "a driver of its own")
        return None if self._tree.present else Gap(str(knob), NEEDS)

    def read(self, target: KnobTarget) -> str:
        """All resources of the group; "" where there is none."""
        self._check_knob(target)
        if not self._tree.exists(target.group):
            return ""
        try:
            return str(parse_schemata(self._tree.read(target.group, "schemata")))
        except Vanished:
            return ""

    def raw(self, target: KnobTarget) -> str:
        """The group's schemata, or that there was no group."""
        text = self.read(target)
        return _STOOD + text if text else _ABSENT

    def write(self, target: KnobTarget, value: str) -> None:
        """Merge the value into the group's schemata; a missing group is created, with the root's schemata."""
        self._check_knob(target)
        wanted = parse_schemata(value)
        if not wanted.lines:
            raise InvalidInput(str(target), value, "at least one line")
        made = not self._tree.exists(target.group)
        if made:
            parse_schemata(self._tree.read("", "schemata")).with_changes(wanted)  # refused before anything is created
            self._tree.make(target.group)
        try:
            current = parse_schemata(self._tree.read(target.group, "schemata"))
            self._tree.write(target.group, "schemata", f"{current.with_changes(wanted)}\n")
        except InvalidInput:
            if made:
                self._tree.remove(target.group)
            raise

    def restore(self, target: KnobTarget, raw: str) -> None:
        """Write back what `raw` returned: the schemata, or the absence of the group."""
        self._check_knob(target)
        if raw == _ABSENT:
            if target.group:
                self._tree.remove(target.group)
            return
        if not raw.startswith(_STOOD):
            raise InvalidInput(f"raw value of {target}", raw, "what raw() returned for this knob")
        wanted = parse_schemata(raw.removeprefix(_STOOD))
        if not self._tree.exists(target.group):
            raise Vanished(f"{target}: no such group")
        self._tree.write(target.group, "schemata", f"{wanted}\n")

    def _check_knob(self, target: KnobTarget) -> None:
        if target.knob is not Knob.SCHEMATA:
            raise Unsupported(str(target.knob), "a driver of its own")
