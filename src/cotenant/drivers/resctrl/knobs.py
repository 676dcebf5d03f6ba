"""The schemata of a class of service as a knob: made when first written, gone when restored.

Problem: a class exists only as long as somebody wants it, and hardware has few. Choice: `write` makes the group, `restore` of what stood before
the group existed removes it, and its tasks fall back to the root. A wish may name some resources and domains; the others keep what they have. A
group that is not there reads as "". Limits: a group of somebody else's is turned and put back as any, never removed.
"""

from __future__ import annotations

from cotenant.drivers.resctrl.schemata import parse_schemata
from cotenant.drivers.resctrl.tree import NEEDS, ResctrlTree
from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, Target, Vanished

_ABSENT = "absent"
_STOOD = "stood\n"


class ResctrlKnobs:
    """Meets engine/node/interfaces.KnobPort for `Scope.RESCTRL`."""

    def __init__(self, tree: ResctrlTree | None = None) -> None:
        self._tree = tree if tree is not None else ResctrlTree()

    def supported(self, knob: Knob) -> Gap | None:
        """None where the tree is there."""
        if knob is not Knob.SCHEMATA:
            return Gap(str(knob), "a driver of its own")
        return None if self._tree.present else Gap(str(knob), NEEDS)

    def read(self, target: Target) -> str:
        """All resources of the group; "" where there is none."""
        self._mine(target)
        if not self._tree.exists(target.group):
            return ""
        try:
            return str(parse_schemata(self._tree.read(target.group, "schemata")))
        except Vanished:
            return ""

    def raw(self, target: Target) -> str:
        """The group's schemata, or that there was no group."""
        text = self.read(target)
        return _STOOD + text if text else _ABSENT

    def write(self, target: Target, value: str) -> None:
        """Lay the value over what the group has; a group that is not there is made, with all that the root has."""
        self._mine(target)
        wanted = parse_schemata(value)
        if not wanted.lines:
            raise InvalidInput(str(target), value, "at least one line")
        made = not self._tree.exists(target.group)
        if made:
            parse_schemata(self._tree.read("", "schemata")).with_changes(wanted)  # refused before anything is made
            self._tree.make(target.group)
        try:
            stands = parse_schemata(self._tree.read(target.group, "schemata"))
            self._tree.write(target.group, "schemata", f"{stands.with_changes(wanted)}\n")
        except InvalidInput:
            if made:
                self._tree.remove(target.group)
            raise

    def restore(self, target: Target, raw: str) -> None:
        """Put back what `raw` gave: the schemata, or that there is no group."""
        self._mine(target)
        if raw == _ABSENT:
            if target.group:
                self._tree.remove(target.group)
            return
        if not raw.startswith(_STOOD):
            raise InvalidInput(f"raw value of {target}", raw, "what raw() gave for this knob")
        wanted = parse_schemata(raw.removeprefix(_STOOD))
        if not self._tree.exists(target.group):
            raise Vanished(f"{target}: no such group")
        self._tree.write(target.group, "schemata", f"{wanted}\n")

    def _mine(self, target: Target) -> None:
        if target.knob is not Knob.SCHEMATA:
            raise Unsupported(str(target.knob), "a driver of its own")
