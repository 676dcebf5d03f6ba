"""The limit of CPU time of a zone's machine, in a real group of this host."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.services.zones.vm_definition import VmDefinition
from cotenant.services.zones.vm_host_group import host_group


def limit(layout: CgroupLayout, group: str) -> tuple[int, int]:
    """Quota and period of a group as the kernel has them, microseconds."""
    tree = layout.by_controller["cpu"]
    folder = Path(tree.path) / group
    if tree.version == 2:
        quota, period = (folder / "cpu.max").read_text().split()
        return int(quota), int(period)
    return int((folder / "cpu.cfs_quota_us").read_text()), int((folder / "cpu.cfs_period_us").read_text())


def test_a_group_that_is_made_for_a_machine_has_its_limit(layout: CgroupLayout, group: str, tmp_path: Path) -> None:
    vm = VmDefinition(group=f"{group}/box", cpu_milli=250)
    with host_group(layout, vm, tmp_path / "box.groups") as procs:
        assert limit(layout, vm.group) == (25_000, 100_000)
        joining = 'for file in "$@"; do echo $$ > "$file" || exit 1; done; cat /proc/self/cgroup'
        said = subprocess.run(
            ["sh", "-c", joining, "sh", *map(str, procs)], capture_output=True, text=True, check=True
        ).stdout
        assert f"/{vm.group}" in said  # what joins it is in it, in every tree
    assert not any((Path(tree.path) / vm.group).exists() for tree in layout.by_controller.values())
