"""What a zone has learned of its scenes, reading by reading.

A reading counts for the mode that ran all of it: the first one after a change has the change in it, and one in which
the scene changed is of two scenes. Only a scene that two readings in a row show is acted on.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.model.machine.node_decision import Reason
from cotenant.model.zones.setting import ZoneMode, ZoneSetting
from cotenant.model.zones.zone_reading import SwitchTo, ZoneReading
from cotenant.policy.zone.scenes import SceneTable, ZoneScene, choose, outcome_of, recognise


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
        self._changed = True

    def restore(self, table: SceneTable) -> None:
        """Go on with what an earlier process learned, before the first reading."""
        self.table, self.restored = table, table.readings

    def seen(self, reading: ZoneReading, setting: ZoneSetting) -> None:
        """A reading under this setting."""
        scene, self.evidence = recognise(reading)
        self._steady = scene == self.scene
        self.scene = scene
        changed, self._changed = self._changed, False
        if self._steady and not changed and setting.mode is not None:
            self.table = self.table.learned(scene, setting.mode, outcome_of(reading, *self._limits))

    def changed(self) -> None:
        """Rows or setting were changed: the reading under way is of both."""
        self._changed = True

    def wish(self, setting: ZoneSetting, modes: Iterable[ZoneMode]) -> SwitchTo | None:
        """The switch that the scene asks for; None where the setting is the one, or the scene is not steady."""
        if self.scene is None or not self._steady or setting.mode is None:
            return None
        found = choose(self.table, self.scene, modes, setting.mode)
        if found is None or found[0] is setting.mode:
            return None
        return SwitchTo(ZoneSetting(setting.backend, found[0]), found[1])
