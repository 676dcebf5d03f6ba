"""The picture of the rooms: which imports are found, which become arrows, and that boxes do not overlap."""

import re
from pathlib import Path
from xml.etree import ElementTree

from tools.graph import levels, reduced, split
from tools.imports import Rooms, rooms
from tools.rooms import BOX, FLOORS, picture

SVG = "{http://www.w3.org/2000/svg}"


def test_imports_between_rooms_are_found_wherever_they_are(tmp_path: Path) -> None:
    source = tmp_path / "cotenant"
    files = {
        "__init__.py": "",
        "model/errors.py": "",
        "model/cluster/__init__.py": "",
        "model/cluster/pod.py": "from cotenant.model.errors import InvalidInput\nimport os\n",
        "engine/cluster.py": "def later():\n    from cotenant.model.cluster import pod\n    import "
        "cotenant.model.errors\n",
    }
    for name, text in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    found = rooms([source])
    assert found.files == {"engine": 1, "model": 1, "model/cluster": 1}
    assert found.imports == {("model/cluster", "model"): 1, ("engine", "model/cluster"): 1, ("engine", "model"): 1}


def test_the_lightest_import_of_a_circle_goes_backward() -> None:
    forward, backward = split({("a", "b"): 5, ("b", "c"): 4, ("c", "a"): 1})
    assert forward == [("a", "b"), ("b", "c")]
    assert backward == [("c", "a")]


def test_an_edge_that_a_chain_implies_is_left_out() -> None:
    assert reduced([("a", "b"), ("b", "c"), ("c", "d"), ("a", "c"), ("a", "d")]) == [("a", "b"), ("b", "c"), ("c", "d")]


def test_levels_are_longest_paths() -> None:
    assert levels("abcd", [("a", "b"), ("b", "c"), ("a", "c")]) == {"a": 0, "b": 1, "c": 2, "d": 0}


def test_every_room_has_a_box_of_its_own_and_nothing_leaves_the_page() -> None:
    floors = list(FLOORS)
    names = [f"{floor}/room{number}" for floor in floors for number in range(9)]
    imports = {(a, b): 1 for a in names for b in names if a.split("/")[0] < b.split("/")[0] and names.index(b) % 5 == 0}
    stacked = {
        (a, b): n for (a, b), n in imports.items() if floors.index(a.split("/")[0]) < floors.index(b.split("/")[0])
    }
    text = picture(Rooms(dict.fromkeys(names, 3), stacked))
    assert text == picture(Rooms(dict.fromkeys(names, 3), stacked))
    tree = ElementTree.fromstring(text)
    width, height = (float(number) for number in tree.attrib["viewBox"].split()[2:])
    boxes = [
        (float(box.attrib["x"]), float(box.attrib["y"]))
        for box in tree.iter(f"{SVG}rect")
        if box.attrib.get("height") == str(BOX[1]) and box.attrib.get("width") == str(BOX[0])
    ]
    assert len(boxes) == len(names)
    for at, (x, y) in enumerate(boxes):
        assert 0 <= x <= width - BOX[0]
        assert 0 <= y <= height - BOX[1]
        assert not any(abs(x - other) < BOX[0] and abs(y - below) < BOX[1] for other, below in boxes[at + 1 :])
    numbers = [
        float(number) for path in tree.iter(f"{SVG}path") for number in re.findall(r"-?\d+\.\d", path.attrib["d"])
    ]
    assert min(numbers) >= 0
