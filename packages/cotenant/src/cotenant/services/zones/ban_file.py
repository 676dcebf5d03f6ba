"""Settings that hurt a zone as a file, so that a keeper that starts again does not try each once more.

Beside the zone's state, as its table of scenes is (`scene_file.py`), in wall time, at most `engine/zones/bans.py`'s
number of them, none older than its age. What the kernel refused is not in it: a keeper is often started again because
what was missing is there now. A file that cannot be is a line in the log, and is written over.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from cotenant.engine.zones.bans import AGE_S, MOST_BANS, MOST_FACTOR, Ban
from cotenant.engine.zones.zone import Zone
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject
from cotenant.model.zones.setting import Backend, ZoneMode, ZoneSetting
from cotenant.services.zones.definition import ZoneDefinition
from cotenant.services.zones.scene_file import basis, scene_of, scene_stored

VERSION = 1
MAX_BYTES = 128 << 10
_MOST_NUMBER = 1 << 20
_LATEST_S = 1e11  # a Unix time far beyond any use


class KeptBans:
    """The file of one zone: read here, and written by `save`. `wall`: Unix time; `clock`: the zone's."""

    def __init__(
        self,
        folder: Path,
        definition: ZoneDefinition,
        zone: Zone,
        log: Callable[[str], None],
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = folder / f"{definition.zone}.bans"
        self._of = basis(definition)
        self._bans, self._wall, self._clock = zone.bans, wall, clock
        try:
            found = read_bans(self._path, self._of)
        except InvalidInput as error:
            log(f"settings that hurt are not known any more: {error}")
            found = ()
        number = zone.bans.restore(clock(), wall(), found)
        if number:
            log(f"bans: {number} of an earlier process are kept")
        self._saved = zone.bans.changes

    def save(self) -> None:
        """Write them where one came or went. Raises `OSError`."""
        if self._bans.changes == self._saved:
            return
        bans = self._bans.stored(self._clock(), self._wall())
        beside = self._path.with_suffix(".bans.new")
        beside.write_text(json.dumps({"version": VERSION, "of": self._of, "bans": [_stored(ban) for ban in bans]}))
        beside.replace(self._path)
        self._saved = self._bans.changes


def read_bans(path: Path, of: str) -> tuple[Ban, ...]:
    """The bans of a file, in wall time; none where there is no file. `of`: the definition's `basis`. Raises
    `InvalidInput` where it cannot be used.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise InvalidInput(str(path), "unreadable", f"a file that can be read: {error.strerror}") from error
    try:
        stored = json.loads(data) if len(data) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        stored = None
    if not isinstance(stored, dict) or stored.get("version") != VERSION:
        raise InvalidInput(str(path), "no bans", f"what a keeper wrote, version {VERSION}, at most {MAX_BYTES} bytes")
    if stored.get("of") != of:
        raise InvalidInput(f"{path}: of", stored.get("of"), "the zone's present definition", "its groups were changed")
    entries = stored.get("bans")
    if not isinstance(entries, list) or len(entries) > MOST_BANS:
        raise InvalidInput(f"{path}: bans", "no list of them", f"at most {MOST_BANS}")
    return tuple(_ban(f"{path}: bans[{at}]", entry) for at, entry in enumerate(entries))


def _ban(field: str, entry: object) -> Ban:
    if not isinstance(entry, dict):
        raise InvalidInput(field, entry, "a setting with its times")
    try:
        backend, _, mode = str(entry.get("setting")).partition("/")
        setting = ZoneSetting(Backend(backend), ZoneMode(mode) if mode else None)
    except ValueError:
        raise InvalidInput(f"{field}.setting", entry.get("setting"), "as root/latency") from None
    made_s, until_s = (_number(f"{field}.{name}", entry.get(name), _LATEST_S) for name in ("made", "until"))
    if not made_s <= until_s <= made_s + MOST_FACTOR * AGE_S:
        raise InvalidInput(f"{field}.until", until_s, "after made")
    number = entry.get("number")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= _MOST_NUMBER:
        raise InvalidInput(f"{field}.number", number, f"1 to {_MOST_NUMBER}")
    scene = entry.get("scene")
    if scene is not None and not isinstance(scene, dict):
        raise InvalidInput(f"{field}.scene", scene, "a scene, or null for all")
    return Ban(setting, None if scene is None else scene_of(f"{field}.scene", scene), until_s, made_s, number)


def _number(field: str, value: object, most: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:  # refuses NaN, too
        raise InvalidInput(field, value, f"0 to {most:g}")
    return float(value)


def _stored(ban: Ban) -> JsonObject:
    return {
        "setting": str(ban.setting),
        "scene": None if ban.scene is None else scene_stored(ban.scene),
        "made": ban.made_s,
        "until": ban.until_s,
        "number": ban.number,
    }
