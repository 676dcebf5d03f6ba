"""What a zone has learned of its scenes, reading by reading.

A reading counts for the mode that ran all of it: the first one after a change has the change in it, and one in which
the scene changed is of two scenes. Only a scene that two readings in a row show is acted on, but for one that is known
where services are late: then it is acted on at once. A mode shares out the CPU time by which services are told to be
light or heavy, so a scene that differs from the one in which a trial began in nothing else is that one, until what is
seen changes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cotenant.model.machine.node_decision import Reason
from cotenant.model.zones.setting import ZoneMode, ZoneSetting
from cotenant.model.zones.table import ZoneRow
from cotenant.model.zones.zone_reading import SwitchTo, ZoneReading
from cotenant.policy.zone.scenes import SceneTable, ZoneScene, choose, outcome_of, recognise, room_of

_URGENT = 0.25  # of room: services are late in a good part of the time


class SceneMemory:
    """`table`: outcomes by scene and mode; `restored`: how many of them an earlier process learned; `evidence`: of the
    last reading's scene.
    """

    def __init__(self, late_per_s: float, burn: float) -> None:
        self.table = SceneTable()
        self.restored = 0
        self.scene: ZoneScene | None = None
        self.evidence: Reason | None = None
        self._limits = late_per_s, burn
        self._steady = False
        self._late = False
        self._changed = True
        self._counted = 0  # readings since the last change
        self._began: ZoneScene | None = None  # the scene of the setting on trial
        self._alias: tuple[ZoneScene, ZoneScene] | None = None  # what is seen since a trial, and where it began

    def tried(self) -> None:
        """A setting goes on trial."""
        self._began, self._alias = self.scene, None

    def settled(self) -> None:
        """Its trial is over."""
        self._began = None

    def restore(self, table: SceneTable) -> None:
        """Go on with what an earlier process learned, before the first reading."""
        self.table, self.restored = table, table.readings

    def seen(self, reading: ZoneReading, setting: ZoneSetting, rows: Mapping[str, ZoneRow]) -> None:
        """A reading under this setting and these rows."""
        scene, self.evidence = recognise(reading, rows)
        if self._began is not None and replace(scene, services=self._began.services) == self._began:
            self._alias = scene, self._began
        if self._alias is not None and scene == self._alias[0]:
            scene = self._alias[1]
        else:
            self._alias = None
        self._steady = scene == self.scene
        self.scene = scene
        outcome = outcome_of(reading, *self._limits)
        self._late = room_of(reading, scene, outcome) > _URGENT
        changed, self._changed = self._changed, False
        if self._steady and not changed and setting.mode is not None:
            self._counted += 1
            self.table = self.table.learned(scene, setting.mode, outcome, room_of(reading, scene, outcome))

    def undone(self, reading: ZoneReading, setting: ZoneSetting) -> None:
        """The trial of a setting ended so early that no reading counted: what it brought is known all the same."""
        if self._counted or self.scene is None or setting.mode is None:
            return
        outcome = outcome_of(reading, *self._limits)
        self.table = self.table.learned(self.scene, setting.mode, outcome, room_of(reading, self.scene, outcome))

    def worse_than(self, setting: ZoneSetting) -> Reason | None:
        """Why the trial of a setting need not go on: another mode was clearly better in this scene; else None."""
        known = self.table.of(self.scene) if self.scene is not None else {}
        found = known.get(setting.mode) if setting.mode is not None else None
        if found is None or not self._counted:
            return None
        best = max(known, key=lambda mode: known[mode].mean)
        if not found.clearly_worse(known[best]) or found.last >= known[best].mean:
            return None
        text = f"clearly worse: {found.mean:.3f} where {best.value} brought {known[best].mean:.3f} ({self.scene})"
        return Reason("zone-scene", text)

    def changed(self) -> None:
        """Rows or setting were changed: the reading under way is of both."""
        self._changed = True
        self._counted = 0

    def wish(self, setting: ZoneSetting, modes: Iterable[ZoneMode]) -> SwitchTo | None:
        """The switch that the scene asks for; None where the setting is the one, or the scene is not steady."""
        if self.scene is None or setting.mode is None:
            return None
        if not self._steady and not (self._late and self.table.of(self.scene)):
            return None
        found = choose(self.table, self.scene, modes, setting.mode, services_late=self._late)
        if found is None or found[0] is setting.mode:
            return None
        return SwitchTo(ZoneSetting(setting.backend, found[0]), found[1])
