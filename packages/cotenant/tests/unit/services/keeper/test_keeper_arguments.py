"""The keeper's roots: named, or those of this node's kubelet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from tests.fakes.node.kubepods import UIDS, make, pod_group

from cotenant.cli.main import app
from cotenant.drivers.kubelet.roots import KubeletGroups
from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.services.keeper.keeper_arguments import KeeperArguments, check
from cotenant.services.keeper.main import rules_of, with_kubelet_groups


def arguments(folder: Path, groups: Literal["", "best-effort", "all"], *roots: str) -> KeeperArguments:
    return KeeperArguments(
        roots=roots,
        state_dir=folder / "state",
        socket=folder / "socket",
        kubelet_groups=groups,
        cgroup_root=folder / "cgroup",
    )


def test_groups_of_the_kubelet_are_roots_beside_those_that_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "cgroup"
    make(folder, 2, pod_group(UIDS[0], "besteffort", True))
    (folder / "cgroup.controllers").write_text("cpu memory\n")
    request = with_kubelet_groups(arguments(tmp_path, "best-effort", "batch.slice"))
    assert rules_of(request).roots == ("batch.slice", "kubepods.slice/kubepods-besteffort.slice")
    everything = with_kubelet_groups(replace(request, roots=(), kubelet_groups="all"))
    assert rules_of(everything).roots == ("kubepods.slice",)


def test_a_node_without_kubelets_groups_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "cgroup"
    folder.mkdir()
    (folder / "cgroup.controllers").write_text("cpu memory\n")
    with pytest.raises(Unsupported, match="kubepods"):
        with_kubelet_groups(arguments(tmp_path, "all"))
    with pytest.raises(InvalidInput, match="--kubelet-groups"):
        check(arguments(tmp_path, ""))


def test_the_command_takes_the_names_of_the_groups() -> None:
    _, bound, unused, *_ = app.parse_known_args(["keeper", "--kubelet-groups=best-effort"])
    assert not unused
    assert KubeletGroups(bound.arguments["request"].kubelet_groups) is KubeletGroups.BEST_EFFORT


def test_gpus_are_named_by_their_uuid_and_daemons_of_nvidias_plugins_are_left_to_them(tmp_path: Path) -> None:
    (tmp_path / "cgroup").mkdir()
    request = replace(arguments(tmp_path, "", "batch.slice"), gpus=("GPU-5ce1a2",), mps=Path("/tmp/offline-mps"))
    check(request)
    assert (rules_of(request).gpus, rules_of(request).mps) == (frozenset({"GPU-5ce1a2"}), True)
    for uuid in ("0", "GPU-../../etc", "MIG-5ce1a2"):
        with pytest.raises(InvalidInput, match="--gpu"):
            check(replace(request, gpus=(uuid,)))
    assert (rules_of(request).timeslices, rules_of(request).mig) == (False, False)
    more = replace(request, gpu_timeslices=True, gpu_mig=True)
    check(more)
    assert (rules_of(more).timeslices, rules_of(more).mig) == (True, True)
    for option in ("gpu_timeslices", "gpu_mig"):
        with pytest.raises(InvalidInput, match="without --gpu"):
            check(replace(request, gpus=(), **{option: True}))
    for owned in ("/run/nvidia/mps/nvidia.com/gpu/pipe", "/var/lib/kubelet/plugins/gpu.nvidia.com/mps/1/pipe"):
        with pytest.raises(InvalidInput, match="device plugin and DRA driver set the limits"):
            check(replace(request, mps=Path(owned)))
