"""Cgroup trees of a kubelet in a folder: either way of naming, either version."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cotenant.drivers.cgroup.layout import CgroupLayout, Hierarchy, arrange

UIDS = tuple(f"{number:08x}-1111-2222-3333-444444444444" for number in range(1, 10))


def container_id(number: int) -> str:
    return f"{number:064x}"


def pod_group(uid: str, qos: str, systemd: bool) -> str:
    """`qos`: burstable, besteffort or "" for guaranteed."""
    if not systemd:
        return "/".join(part for part in ("kubepods", qos, f"pod{uid}") if part)
    of_class = f"kubepods-{qos}" if qos else "kubepods"
    folders = ("kubepods.slice", f"{of_class}.slice" if qos else "", f"{of_class}-pod{uid.replace('-', '_')}.slice")
    return "/".join(part for part in folders if part)


def container_group(pod: str, number: int, systemd: bool) -> str:
    return f"{pod}/cri-containerd-{container_id(number)}.scope" if systemd else f"{pod}/{container_id(number)}"


def layout(folder: Path, version: int) -> CgroupLayout:
    if version == 2:
        folder.mkdir(exist_ok=True)
        return arrange((Hierarchy(str(folder), 2, frozenset(("cpu", "memory"))),))
    for name in ("cpu", "memory"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return arrange(tuple(Hierarchy(str(folder / name), 1, frozenset((name,))) for name in ("cpu", "memory")))


def make(folder: Path, version: int, group: str, files: Mapping[str, str] | None = None) -> None:
    """A group in every tree; files go where their controller is."""
    for tree in [folder] if version == 2 else [folder / "cpu", folder / "memory"]:
        (tree / group).mkdir(parents=True, exist_ok=True)
        for name, text in (files or {}).items():
            if version == 2 or name.startswith(f"{tree.name}."):
                (tree / group / name).write_text(f"{text}\n")
