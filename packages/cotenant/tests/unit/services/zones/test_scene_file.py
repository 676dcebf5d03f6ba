"""What a zone learned of its scenes outlives its keeper, and a file that cannot be is not used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.services.zones.test_host import SHOP, make, until

from cotenant.cli.zone.showing import inspected
from cotenant.model.errors import InvalidInput
from cotenant.model.zones.setting import ZoneMode
from cotenant.policy.zone.deciding import ZoneConfig
from cotenant.policy.zone.scenes import MOST_SCENES, SceneTable, ServiceUseBand, ZoneScene
from cotenant.services.zones.definition import ZoneDefinition
from cotenant.services.zones.groups import GroupClass, ZoneGroup
from cotenant.services.zones.log_file import read_log
from cotenant.services.zones.scene_file import MAX_BYTES, KeptScenes, basis, read_table
from cotenant.services.zones.state_file import read_state, read_states

DEFINITION = ZoneDefinition(
    "shop",
    (ZoneGroup("web", GroupClass.SERVICE, late_ms=5), ZoneGroup("batch", GroupClass.BATCH)),
    policy=ZoneConfig(scenes=True),
)
LEARNING = SHOP + "policy: {scenes: true}\n"
SCENE = ZoneScene(ServiceUseBand.LIGHT, True)


def learned(table: SceneTable, *outcomes: tuple[ZoneScene, ZoneMode, float]) -> SceneTable:
    for outcome in outcomes:
        table = table.learned(*outcome)
    return table


def kept(folder: Path, table: SceneTable, definition: ZoneDefinition = DEFINITION) -> Path:
    """The file of a zone that learned this."""
    zone = definition.machine(root=True)
    assert zone.scenes is not None
    scenes = KeptScenes(folder, definition, zone, lambda text: None)
    zone.scenes.table = table
    scenes.save()
    return folder / "shop.scenes"


def opened(folder: Path, definition: ZoneDefinition = DEFINITION) -> tuple[SceneTable, list[str]]:
    """What the next process has of it, and its log."""
    zone, log = definition.machine(root=True), list[str]()
    KeptScenes(folder, definition, zone, log.append)
    assert zone.scenes is not None
    assert zone.scenes.restored == zone.scenes.table.readings
    return zone.scenes.table, log


scenes = st.builds(
    ZoneScene,
    st.sampled_from(ServiceUseBand),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from((0, 5_000)),
)


@given(st.lists(st.tuples(scenes, st.sampled_from(ZoneMode), st.floats(0, 1)), min_size=1, max_size=300))
def test_the_next_process_has_exactly_what_was_learned(
    tmp_path_factory: pytest.TempPathFactory, outcomes: list[tuple[ZoneScene, ZoneMode, float]]
) -> None:
    folder = tmp_path_factory.mktemp("zones")
    table = learned(SceneTable(), *outcomes)
    file = kept(folder, table)
    assert read_table(file, basis(DEFINITION)) == table
    assert file.stat().st_size < MAX_BYTES
    assert list(folder.iterdir()) == [file]
    found, log = opened(folder)
    assert found == table
    assert list(found.scenes) == list(table.scenes)  # which scene was seen last, too
    assert log == [f"scenes: {table.readings} readings of an earlier process are kept"]


def test_as_many_scenes_as_are_kept_with_every_mode_fit_twice(tmp_path: Path) -> None:
    every = [
        ZoneScene(band, *(bool(number & bit) for bit in (1, 2, 4, 8)), late_us=late_us)
        for band in ServiceUseBand
        for number in range(16)
        for late_us in (0, 9_999_999)
    ]
    assert len(every) > MOST_SCENES
    table = learned(SceneTable(), *((scene, mode, 1 / 3) for scene in every for mode in ZoneMode))
    assert 2 * kept(tmp_path, table).stat().st_size < MAX_BYTES


def test_a_file_is_written_only_where_there_is_more_in_it(tmp_path: Path) -> None:
    zone = DEFINITION.machine(root=True)
    assert zone.scenes is not None
    file = KeptScenes(tmp_path, DEFINITION, zone, lambda text: None)
    file.save()
    assert not list(tmp_path.iterdir())
    zone.scenes.table = learned(SceneTable(), (SCENE, ZoneMode.LATENCY, 0.5))
    file.save()
    (tmp_path / "shop.scenes").unlink()
    file.save()
    assert not list(tmp_path.iterdir())
    off = replace(DEFINITION, policy=ZoneConfig())
    KeptScenes(tmp_path, off, off.machine(root=True), lambda text: None).save()
    assert not list(tmp_path.iterdir())


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        stored = json.loads(path.read_text())
        change(stored)
        path.write_text(json.dumps(stored))

    return write


def mode_of(stored: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = stored["scenes"][0]["modes"]["latency"]
    return found


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (lambda path: path.write_text(path.read_text()[:40]), "no JSON"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "no JSON"),
        (lambda path: path.write_text("[" * 60_000), "no JSON"),
        (lambda path: path.write_text("[]"), "version"),
        (lambda path: path.write_text(" " * (MAX_BYTES + 1)), f"more than {MAX_BYTES} bytes"),
        (changed(lambda stored: stored.update(version=1)), "version"),
        (changed(lambda stored: stored.update(of="0")), "the zone's present definition"),
        (changed(lambda stored: stored.update(scenes={})), "scenes"),
        (changed(lambda stored: stored.update(scenes=[7])), "a scene with its modes"),
        (changed(lambda stored: stored["scenes"].append(stored["scenes"][0])), "each scene once"),
        (changed(lambda stored: stored["scenes"][0].update(services="busy")), "none, light, heavy"),
        (changed(lambda stored: stored["scenes"][0].update(batch=1)), "true or false"),
        (changed(lambda stored: stored["scenes"][0].pop("network")), "true or false"),
        (changed(lambda stored: stored["scenes"][0].update(modes=[])), "outcomes by mode"),
        (changed(lambda stored: stored["scenes"][0]["modes"].update(fair={"readings": 1, "mean": 1})), "outcomes of"),
        (changed(lambda stored: mode_of(stored).update(readings=0)), "readings"),
        (changed(lambda stored: mode_of(stored).update(readings=True)), "readings"),
        (changed(lambda stored: mode_of(stored).update(readings=1 << 41)), "readings"),
        (changed(lambda stored: mode_of(stored).update(mean=1.01)), "0 to 1"),
        (changed(lambda stored: mode_of(stored).update(mean=float("nan"))), "0 to 1"),
        (changed(lambda stored: mode_of(stored).update(mean=-(10**400))), "0 to 1"),
        (changed(lambda stored: mode_of(stored).update(mean="1")), "0 to 1"),
        (changed(lambda stored: mode_of(stored).pop("room")), "latency.room"),
        (changed(lambda stored: stored["scenes"][0].update(lateUs=True)), "lateUs"),
    ],
)
def test_a_file_that_cannot_be_is_a_line_in_the_log_and_the_zone_learns_anew(
    tmp_path: Path, breaks: Callable[[Path], object], said: str
) -> None:
    path = kept(tmp_path, learned(SceneTable(), (SCENE, ZoneMode.LATENCY, 0.5)))
    breaks(path)
    table, log = opened(tmp_path)
    assert not table.scenes
    assert len(log) == 1
    assert log[0].startswith("scenes are learned anew: ")
    assert said in log[0]
    kept(tmp_path, learned(SceneTable(), (SCENE, ZoneMode.WEIGHTED, 0.5)))  # and is written over
    assert opened(tmp_path)[0].of(SCENE).keys() == {ZoneMode.WEIGHTED}


def test_a_file_that_cannot_be_read_is_a_line_too(tmp_path: Path) -> None:
    (tmp_path / "shop.scenes").mkdir()
    assert opened(tmp_path)[1][0].startswith("scenes are learned anew: ")
    with pytest.raises(InvalidInput, match="a file that can be read"):
        read_table(tmp_path / "shop.scenes", basis(DEFINITION))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (replace(DEFINITION, period_ms=500), True),
        (replace(DEFINITION, modes=(ZoneMode.WEIGHTED, ZoneMode.LATENCY)), True),  # what is known of others waits
        (replace(DEFINITION, policy=ZoneConfig(scenes=True, late_per_s=9.0)), False),
        (replace(DEFINITION, groups=(replace(DEFINITION.groups[0], late_ms=50), DEFINITION.groups[1])), False),
    ],
)
def test_outcomes_are_of_the_groups_and_limits_that_they_were_measured_with(
    tmp_path: Path, other: ZoneDefinition, same: bool
) -> None:
    table = learned(SceneTable(), (SCENE, ZoneMode.LATENCY, 0.5))
    kept(tmp_path, table)
    assert (opened(tmp_path, other)[0] == table) is same


def test_a_zone_goes_on_with_what_it_learned_after_a_restart_of_its_keeper(tmp_path: Path) -> None:
    async def main() -> None:
        first = make(tmp_path)
        await first.create(LEARNING, "shop.yaml")
        await until(lambda: read_state(tmp_path, "shop")["scenes"]["readings"] >= 5)
        # a keeper that is killed writes nothing at its end: what the next one finds is here already
        before = json.loads((tmp_path / "shop.scenes").read_text())
        readings = sum(mode["readings"] for scene in before["scenes"] for mode in scene["modes"].values())
        assert readings >= 4
        await first.stop()
        second = make(tmp_path)
        await second.restore()
        await until(lambda: read_state(tmp_path, "shop")["scenes"]["readings"] > readings)
        state = read_state(tmp_path, "shop")
        assert state["scenes"]["restored"] >= readings
        assert any("before the last start" in line for line in inspected(state))
        texts = [entry["text"] for entry in read_log(tmp_path, "shop", 100)]
        assert any("readings of an earlier process are kept" in text for text in texts)
        await second.destroy("shop")
        await second.destroy("shop")
        assert not list(tmp_path.iterdir())

    asyncio.run(main())


def test_a_zone_that_does_not_learn_says_how_to_switch_it_on(tmp_path: Path) -> None:
    async def main() -> None:
        zones = make(tmp_path)
        await zones.create(SHOP, "shop.yaml")
        (state,) = read_states(tmp_path)
        assert state["scenes"] is None
        assert any("policy: {scenes: true}" in line for line in inspected(state))
        weights = {**state, "setting": "weights"}
        assert not any("scenes" in line for line in inspected(weights))
        await zones.stop()

    asyncio.run(main())
