"""Where runtimes put a container's cgroup:

Found by its id below their usual folders, without asking for its process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from cotenant.drivers.cgroup.layout import CgroupLayout

PARENTS = ("docker", "system.slice", "machine.slice", "libpod_parent", "k8s.io")
_PLACES = (
    "docker/{id}",
    "system.slice/docker-{id}.scope",
    "machine.slice/libpod-{id}.scope",
    "libpod_parent/libpod-{id}",
    "k8s.io/{id}",
)


def group_paths(layout: CgroupLayout, containers: Mapping[str, str]) -> dict[str, str]:
    """Group by guid, of those that are found. `containers`: full ids by guid."""
    tree = layout.by_controller.get("cpu") or layout.unified
    if tree is None:
        return {}
    found = {}
    for guid, container in containers.items():
        places = (place.format(id=container) for place in _PLACES)
        group = next((place for place in places if os.path.isdir(os.path.join(tree.path, place))), "")
        if group:
            found[guid] = group
    return found
