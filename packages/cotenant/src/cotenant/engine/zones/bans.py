"""Settings that a zone does not try again for a while: refused, ejected, or worse on trial.

What the kernel refuses or ejects is wrong in every scene; what was worse on trial was worse in the scene of its trial,
where the zone knows scenes. Each further ban of the same setting is twice as long, up to `MOST_FACTOR`; after `AGE_S`
it counts as a first one, so that a program that was mended is tried as a new one. A process that starts again goes on
with them (`stored`, `restore`), but for what was refused.
Limits: a ban goes by the caller's clock while it runs, and by the wall clock over a restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cotenant.model.zones.setting import ZoneSetting
from cotenant.policy.zone.scenes import ZoneScene

MOST_FACTOR = 64
MOST_BANS = 256
AGE_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Ban:
    """One setting, in one scene or (None) in all. `until_s`: it is not tried before; `made_s`: when it failed last;
    `number`: how often it failed; `is_kept`: over a restart.
    """

    setting: ZoneSetting
    scene: ZoneScene | None
    until_s: float
    made_s: float
    number: int
    is_kept: bool = True


class Bans:
    """The bans of a zone. `ban_s`: the length of the first one."""

    def __init__(self, ban_s: float) -> None:
        self._ban_s = ban_s
        self._bans: dict[tuple[ZoneSetting, ZoneScene | None], Ban] = {}
        self.changes = 0  # so that whoever stores them sees that there is more

    def add(self, now_s: float, setting: ZoneSetting, scene: ZoneScene | None, *, is_kept: bool = True) -> float:
        """One more failure; the length of the ban in seconds."""
        before = self._bans.pop((setting, scene), None)
        number = 1 if before is None or now_s - before.made_s > AGE_S else before.number + 1
        length_s = self._ban_s * min(2 ** (number - 1), MOST_FACTOR)
        while len(self._bans) >= MOST_BANS:
            del self._bans[next(iter(self._bans))]
        self._bans[setting, scene] = Ban(setting, scene, now_s + length_s, now_s, number, is_kept)
        self.changes += 1
        return length_s

    def lift(self, setting: ZoneSetting) -> None:
        """A user asks for it: no ban of it counts any more."""
        found = [key for key in self._bans if key[0] == setting]
        for key in found:
            del self._bans[key]
        self.changes += bool(found)

    def left_s(self, now_s: float, scene: ZoneScene | None) -> dict[ZoneSetting, float]:
        """The settings that are not tried now, with the seconds left."""
        left: dict[ZoneSetting, float] = {}
        for ban in self._bans.values():
            if ban.scene in (None, scene) and ban.until_s > now_s:
                left[ban.setting] = max(left.get(ban.setting, 0.0), ban.until_s - now_s)
        return left

    def stored(self, now_s: float, wall_s: float) -> tuple[Ban, ...]:
        """Those young enough to be kept, in wall time."""
        return tuple(
            replace(ban, until_s=wall_s + ban.until_s - now_s, made_s=wall_s + ban.made_s - now_s)
            for ban in self._bans.values()
            if ban.is_kept and now_s - ban.made_s <= AGE_S
        )

    def restore(self, now_s: float, wall_s: float, bans: Iterable[Ban]) -> int:
        """Go on with those of an earlier process; how many. A wall clock that was set back makes none longer than it
        was.
        """
        found = 0
        for ban in list(bans)[-MOST_BANS:]:
            age_s = max(0.0, wall_s - ban.made_s)
            if age_s > AGE_S:
                continue
            length_s = min(ban.until_s - ban.made_s, self._ban_s * MOST_FACTOR)
            made_s = now_s - age_s
            self._bans[ban.setting, ban.scene] = replace(ban, made_s=made_s, until_s=made_s + length_s)
            found += 1
        return found
