"""Kubelet's groups of a node, by either cgroup driver and version."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.node.kubepods import UIDS, layout, make, pod_group

from cotenant.drivers.kubelet.roots import KubeletGroups, roots_here, writable_here
from cotenant.model.errors import Unsupported


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("systemd", "best_effort"), [(False, "kubepods/besteffort"), (True, "kubepods.slice/kubepods-besteffort.slice")]
)
def test_each_driver_has_its_names(tmp_path: Path, version: int, systemd: bool, best_effort: str) -> None:
    make(tmp_path, version, pod_group(UIDS[0], "burstable", systemd))
    make(tmp_path, version, "system.slice/kubepods.service")
    where = layout(tmp_path, version)
    root = best_effort.partition("/")[0]
    assert roots_here(where) == (root,)
    assert writable_here(where, KubeletGroups.BEST_EFFORT) == (best_effort,)
    assert writable_here(where, KubeletGroups.ALL) == (root,)


def test_a_root_below_other_groups_is_found_and_one_that_is_nearer_comes_before(tmp_path: Path) -> None:
    make(tmp_path, 2, "kubelet.slice/kubelet-kubepods.slice")
    where = layout(tmp_path, 2)
    below = "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice"
    assert writable_here(where, KubeletGroups.BEST_EFFORT) == (below,)
    make(tmp_path, 2, "kubepods")
    assert roots_here(where) == ("kubepods",)


def test_a_machine_without_a_kubelet_is_refused_with_what_it_needs(tmp_path: Path) -> None:
    make(tmp_path, 2, "system.slice/some.service")
    assert roots_here(layout(tmp_path, 2)) == ()
    with pytest.raises(Unsupported, match=r"kubepods or kubepods\.slice"):
        writable_here(layout(tmp_path, 2), KubeletGroups.ALL)
