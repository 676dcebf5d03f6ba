"""The floors of services: what stands on which, read from the sources and compared with the contract in
pyproject.toml.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[5]
SOURCE = ROOT / "packages" / "cotenant" / "src" / "cotenant"
SERVICES = SOURCE / "services"
IMPORT = re.compile(r"^\s*(?:from|import) cotenant\.services\.(\w+)", re.MULTILINE)
CONTRACT = "floors of services"


def contract() -> dict[str, object]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = (one for one in contracts if one["name"].startswith(CONTRACT))
    return dict(found)


def floors() -> dict[str, int]:
    """The number of each folder's floor, the lowest 0."""
    layers = contract()["layers"]
    assert isinstance(layers, list)
    return {
        name.strip(" ()"): number for number, layer in enumerate(reversed(layers)) for name in str(layer).split("|")
    }


def arrows() -> Iterator[tuple[str, str]]:
    """Which folder of services imports which, wherever in a file."""
    for path in SERVICES.rglob("*.py"):
        source = path.relative_to(SERVICES).parts[0].removesuffix(".py")
        for target in IMPORT.findall(path.read_text()):
            if target != source:
                yield source, target


def test_every_import_between_services_goes_to_a_lower_floor() -> None:
    floor = floors()
    assert not {(a, b) for a, b in arrows() if floor[a] <= floor[b]}


def test_every_service_has_a_floor() -> None:
    names = {path.stem for path in SERVICES.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert names - {"__init__"} <= set(floors())
    assert contract()["exhaustive"] is True


def test_agent_keeper_and_zones_stand_on_shared_parts_only() -> None:
    between = {(a, b) for a, b in arrows() if {a, b} <= {"agent", "keeper", "zones"}}
    assert between == {("agent", "zones"), ("keeper", "zones")}


def test_control_zones_live_in_one_folder_a_floor() -> None:
    files = {path for path in SOURCE.rglob("*.py") if any("zone" in part for part in path.relative_to(SOURCE).parts)}
    others = {
        "drivers/kube/kinds/custom/control_zone.py",  # the kind, with all kinds
        "drivers/kube/kinds/storage/zones.py",  # zones of a cloud
        "engine/manager/zone_writes.py",  # NUMA zones, as are the next three
        "engine/manager/zones.py",
        "model/machine/zones.py",
        "policy/overcommit/zones.py",
        "services/console/views/zone_monitors.py",  # a view, with all views
    }
    folders = {str(path.parent.relative_to(SOURCE)) for path in files if str(path.relative_to(SOURCE)) not in others}
    assert folders == {"cli/zone", "drivers/ebpf", "engine/zones", "model/zones", "policy/zone", "services/zones"}
