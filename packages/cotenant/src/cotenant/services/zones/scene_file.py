"""What a zone learned of its scenes as a file, so that a keeper that starts again does not try every mode anew.

One small JSON file beside the zone's state, written beside its place and renamed, whenever there is more in it. What is
read is checked whole before any of it is used: another version, a zone of another definition, or one value that cannot
be is a line in the log, and the zone learns anew.
Limits: the folder is lost at a reboot, as zones are; outcomes of a changed definition are not carried over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from cotenant.engine.zones.zone import Zone
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject
from cotenant.model.zones.setting import ZoneMode
from cotenant.model.zones.table import LONGEST_LATE_US
from cotenant.policy.zone.scenes import Outcomes, SceneTable, ServiceUseBand, ZoneScene
from cotenant.services.zones.definition import ZoneDefinition

VERSION = 2
MAX_BYTES = 128 << 10  # all scenes with all modes are less than half of it
_MOST_READINGS = 1 << 40
_SIGNS = ("batch", "several", "network", "siblings")
_SHARES = ("mean", "room", "last")


class KeptScenes:
    """The file of one zone: read here, where the zone learns scenes, and written by `save`."""

    def __init__(self, folder: Path, definition: ZoneDefinition, zone: Zone, log: Callable[[str], None]) -> None:
        self._path = folder / f"{definition.zone}.scenes"
        self._of = basis(definition)
        self._memory = zone.scenes
        self._saved: SceneTable | None = None
        if self._memory is None:
            return
        self._saved = self._memory.table
        try:
            table = read_table(self._path, self._of)
        except InvalidInput as error:
            log(f"scenes are learned anew: {error}")
            return
        if table is not None:
            self._memory.restore(table)
            self._saved = self._memory.table
            log(f"scenes: {table.readings} readings of an earlier process are kept")

    def save(self) -> None:
        """Write what was learned since. Raises `OSError`."""
        if self._memory is None or self._memory.table is self._saved:
            return
        beside = self._path.with_suffix(".scenes.new")
        beside.write_text(json.dumps(_stored(self._memory.table, self._of)))
        beside.replace(self._path)
        self._saved = self._memory.table


def basis(definition: ZoneDefinition) -> str:
    """A digest of what outcomes depend on: the groups with their rows, and the limits beyond which services are
    late.
    """
    policy = definition.policy
    parts = (definition.groups, definition.applications, definition.rules, [pod.group() for pod in definition.pods])
    return hashlib.sha256(repr((*parts, policy.late_per_s, policy.burn)).encode()).hexdigest()[:32]


def read_table(path: Path, of: str) -> SceneTable | None:
    """The table; None where there is no file. `of`: the definition's `basis`. Raises `InvalidInput` where it cannot be
    used.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(str(path), "unreadable", f"a file that can be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise InvalidInput(str(path), f"more than {MAX_BYTES} bytes", f"at most {MAX_BYTES}")
    try:
        stored = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(str(path), "no JSON", "what a keeper wrote") from error
    if not isinstance(stored, dict) or stored.get("version") != VERSION:
        version = stored.get("version") if isinstance(stored, dict) else None
        raise InvalidInput(f"{path}: version", version, str(VERSION))
    if stored.get("of") != of:
        raise InvalidInput(f"{path}: of", stored.get("of"), "the zone's present definition", "its groups were changed")
    entries = stored.get("scenes")
    if not isinstance(entries, list):
        raise InvalidInput(f"{path}: scenes", entries, "a list")
    scenes: dict[ZoneScene, dict[ZoneMode, Outcomes]] = {}
    for at, entry in enumerate(entries):
        field = f"{path}: scenes[{at}]"
        if not isinstance(entry, dict):
            raise InvalidInput(field, entry, "a scene with its modes")
        scene = scene_of(field, entry)
        if scene in scenes:
            raise InvalidInput(field, str(scene), "each scene once")
        scenes[scene] = _modes(f"{field}.modes", entry.get("modes"))
    return SceneTable(scenes)


def scene_of(field: str, entry: JsonObject) -> ZoneScene:
    """A scene as `scene_stored` writes it. Raises `InvalidInput`."""
    bands = {band.name.lower(): band for band in ServiceUseBand}
    name = entry.get("services")
    if not isinstance(name, str) or name not in bands:
        raise InvalidInput(f"{field}.services", name, ", ".join(bands))
    for sign in _SIGNS:
        if not isinstance(entry.get(sign), bool):
            raise InvalidInput(f"{field}.{sign}", entry.get(sign), "true or false")
    late_us = entry.get("lateUs")
    if not isinstance(late_us, int) or isinstance(late_us, bool) or not 0 <= late_us <= LONGEST_LATE_US:
        raise InvalidInput(f"{field}.lateUs", late_us, f"0 to {LONGEST_LATE_US}")
    signs: dict[str, bool] = {sign: entry[sign] for sign in _SIGNS}
    return ZoneScene(bands[name], late_us=late_us, **signs)


def scene_stored(scene: ZoneScene) -> JsonObject:
    """A scene as plain values."""
    signs = {sign: getattr(scene, sign) for sign in _SIGNS}
    return {"services": scene.services.name.lower(), **signs, "lateUs": scene.late_us}


def _modes(field: str, entry: object) -> dict[ZoneMode, Outcomes]:
    if not isinstance(entry, dict):
        raise InvalidInput(field, entry, "outcomes by mode")
    found: dict[ZoneMode, Outcomes] = {}
    for mode, known in entry.items():
        if mode not in set(ZoneMode) or not isinstance(known, dict):
            raise InvalidInput(field, mode, f"outcomes of {', '.join(ZoneMode)}")
        readings = known.get("readings")
        if not isinstance(readings, int) or isinstance(readings, bool) or not 0 < readings <= _MOST_READINGS:
            raise InvalidInput(f"{field}.{mode}.readings", readings, f"1 to {_MOST_READINGS}")
        shares: list[float] = []
        for name in _SHARES:
            share = known.get(name)
            if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share <= 1:  # refuses NaN, too
                raise InvalidInput(f"{field}.{mode}.{name}", share, "0 to 1")
            shares.append(float(share))
        found[ZoneMode(mode)] = Outcomes(readings, *shares)
    return found


def _stored(table: SceneTable, of: str) -> JsonObject:
    return {
        "version": VERSION,
        "of": of,
        "scenes": [
            {
                **scene_stored(scene),
                "modes": {
                    mode.value: {"readings": found.number, **{name: getattr(found, name) for name in _SHARES}}
                    for mode, found in modes.items()
                },
            }
            for scene, modes in table.scenes.items()
        ],
    }
