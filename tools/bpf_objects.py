"""Build hook: the eBPF objects are built into the wheel where clang is.

The objects are not in git, so a wheel built from a fresh checkout lacked them, and its users were told to run `make
bpf`, which a wheel does not have. Building a wheel (or an editable installation) runs `make bpf` first, where make,
clang and libbpf's headers are there.
Limits: elsewhere the wheel is built without the objects, with a warning; the probe then names `COTENANT_BPF_OBJECTS`,
and run delay is read from /proc.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WITHIN_S = 120.0


class BpfObjects(BuildHookInterface[Any]):
    """Runs `make bpf` before the files are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build what is missing or old. Never fails a build."""
        why = build(Path(self.root).parents[1])
        if why:
            self.app.display_warning(f"without eBPF objects, so run delay will be read from /proc: {why}")


def build(root: Path) -> str:
    """Build the objects in the repository at `root`; why that was not possible, empty where they are there."""
    if not (root / "Makefile").is_file():
        return "no Makefile here"
    if shutil.which("make") is None:
        return "make is not installed"
    try:
        done = subprocess.run(
            ["make", "-s", "bpf"], cwd=root, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else (done.stderr.strip() or "make bpf failed").splitlines()[0]
