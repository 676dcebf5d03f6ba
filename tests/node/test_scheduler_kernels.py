"""Our objects and two of the schedulers on a kernel that is older than the newest, in a guest: the oldest packaged one
with sched_ext that Debian keeps. All kernels and all schedulers: `cotenant node experiment schedulers --linux all`.
"""

from __future__ import annotations

import asyncio

import pytest

from cotenant.drivers.ebpf.libbpf import objects_folder
from cotenant.drivers.qemu.kernel_archive import archive_kernels
from cotenant.drivers.qemu.machine import missing
from cotenant.drivers.qemu.packages import GuestUnavailable
from cotenant.model.zones.setting import ZoneMode
from cotenant_lab.experiments.site.kernel_guest import run_in_guest
from cotenant_lab.experiments.studies.scheduler_kernels import measure

OLDEST = "6.16"


@pytest.mark.long
def test_objects_load_and_schedulers_behave_on_an_older_kernel() -> None:
    if lack := missing():
        pytest.skip(f"a virtual machine needs {lack}")
    if not (objects_folder() / "zone_apart.bpf.o").is_file():
        pytest.skip("no built objects (make bpf)")
    try:
        kernels = archive_kernels([OLDEST])
    except GuestUnavailable as error:
        pytest.skip(f"no kernel of Linux {OLDEST}: {error}")
    found = asyncio.run(measure(kernels, run_in_guest, print, [ZoneMode.WEIGHTED, ZoneMode.APART]))
    for row in found.rows:
        print(*row, sep=" | ")
    assert [check.what for check in found.checks if not check.passed] == [], found.notes
    assert sum(row[3] == "yes" for row in found.rows) == 5, found.rows
