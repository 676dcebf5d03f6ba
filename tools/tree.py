"""Where the three packages lie in this repository, for programs and tests that read or run their sources."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The folder of each package, by the name that is imported.
PACKAGES = {
    name: ROOT / "packages" / name.replace("_", "-") / "src" / name
    for name in ("cotenant", "cotenant_lab", "cotenant_local")
}


def python_path(root: Path = ROOT) -> str:
    """PYTHONPATH of a process that runs the sources of the tree at `root`."""
    return os.pathsep.join(str(root / folder.parent.relative_to(ROOT)) for folder in PACKAGES.values())
