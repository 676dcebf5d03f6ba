"""Which of root's powers a keeper keeps, by what it is asked to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cotenant.services.keeper.keeper_arguments import KeeperArguments
from cotenant.services.keeper.privileges import KernelCapability, join_group, needed

# linux/capability.h
NUMBERS = {
    "CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "SETGID": 6, "SETUID": 7, "SETPCAP": 8, "NET_ADMIN": 12,
    "SYS_CHROOT": 18, "SYS_ADMIN": 21, "SYS_NICE": 23, "SYS_RESOURCE": 24, "MKNOD": 27, "SETFCAP": 31, "PERFMON": 38,
    "BPF": 39,
}  # fmt: skip
FILES = {"DAC_OVERRIDE", "SYS_RESOURCE"}


def test_capabilities_have_the_kernels_numbers() -> None:
    assert {capability.name: int(capability) for capability in KernelCapability} == NUMBERS


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ({}, set()),
        ({"interfaces": ("eth0",)}, {"NET_ADMIN"}),
        ({"gpus": True}, {"SYS_ADMIN"}),
        ({"idle_slice_ms": 1}, {"SYS_NICE"}),
        ({"waits": True}, {"BPF", "PERFMON"}),
        ({"zones": True}, set(NUMBERS) - FILES - {"NET_ADMIN"}),
        ({"waits": True, "interfaces": ("eth0",)}, {"BPF", "PERFMON", "NET_ADMIN"}),
        ({"zones": True, "interfaces": ("eth0",)}, set(NUMBERS) - FILES),
        ({"dry_run": True, "raise_roots": True, "freeze": True}, set()),
    ],
)
def test_only_what_the_arguments_call_for_is_kept(given: dict[str, Any], more: set[str]) -> None:
    assert {capability.name for capability in needed(KeeperArguments(**given))} == FILES | more


def test_a_group_that_one_is_in_already_is_not_joined() -> None:
    groups = Path("/proc/self/status").read_text().partition("Groups:")[2].partition("\n")[0].split()
    own = Path("/proc/self/status").read_text().partition("Gid:")[2].split()[1]
    for group in (None, int(own), *map(int, groups)):
        join_group(group)
    assert Path("/proc/self/status").read_text().partition("Groups:")[2].partition("\n")[0].split() == groups
