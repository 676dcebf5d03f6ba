"""Which of root's powers a keeper keeps, by what it is asked to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cotenant.model.errors import Permanent
from cotenant.services.keeper import privileges
from cotenant.services.keeper.keeper_arguments import KeeperArguments
from cotenant.services.keeper.privileges import KernelCapability, give_up, join_group, needed

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


class Kernel:
    """What prctl, capget and capset do to a process that may do everything, or refuse with a status."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses
        self.bounding = set(range(41))
        self.no_new_privileges = False
        self.effective = self.permitted = self.inheritable = (1 << 41) - 1
        self.dropped: list[int] = []

    def prctl(self, option: int, first: int, *rest: int) -> int:
        assert rest == (0, 0, 0)
        if option == 38:
            assert first == 1
            self.no_new_privileges = self.refuses != "no new privileges"
            return 0 if self.no_new_privileges else -1
        if option == 23:
            return int(first in self.bounding) if first < 41 else -1
        assert option == 24
        self.dropped.append(first)
        return 0

    def capget(self, header: Any, data: Any) -> int:
        assert (header._obj.version, header._obj.pid) == (0x20080522, 0)
        for half, entry in enumerate(data):
            for name in ("effective", "permitted", "inheritable"):
                setattr(entry, name, getattr(self, name) >> 32 * half & 0xFFFFFFFF)
        return -1 if self.refuses == "reading capabilities" else 0

    def capset(self, header: Any, data: Any) -> int:
        for name in ("effective", "permitted", "inheritable"):
            setattr(self, name, sum(getattr(entry, name) << 32 * half for half, entry in enumerate(data)))
        return -1 if self.refuses == "dropping capabilities" else 0


def given_up(
    monkeypatch: pytest.MonkeyPatch, kernel: Kernel, keep: frozenset[int] | None = None, user: int = 0
) -> None:
    monkeypatch.setattr(privileges.ctypes, "CDLL", lambda name, use_errno: kernel)
    monkeypatch.setattr(privileges.os, "geteuid", lambda: user)
    give_up(*(() if keep is None else (frozenset(map(KernelCapability, keep)),)))


@pytest.mark.parametrize("keep", [{1, 24}, {1, 24, 38, 39}, {0}, {31}, set(), set(NUMBERS.values())])
def test_all_but_what_is_kept_is_given_up_and_nothing_is_inherited(
    monkeypatch: pytest.MonkeyPatch, keep: set[int]
) -> None:
    kernel = Kernel()
    given_up(monkeypatch, kernel, frozenset(keep))
    assert kernel.no_new_privileges
    assert kernel.effective == kernel.permitted == sum(1 << number for number in keep)
    assert kernel.inheritable == 0
    assert kernel.dropped == sorted(set(range(41)) - keep)  # those that a process started later could not regain


def test_files_and_traffic_are_kept_where_nothing_is_said_and_what_is_absent_is_not_gained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = Kernel()
    kernel.effective = kernel.permitted = 1 << 12 | 1 << 40
    given_up(monkeypatch, kernel)
    assert kernel.effective == kernel.permitted == 1 << 12
    assert {1, 12, 24}.isdisjoint(kernel.dropped)


def test_without_root_there_is_nothing_to_give_up_but_new_privileges(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    given_up(monkeypatch, kernel, user=1000)
    assert (kernel.no_new_privileges, kernel.dropped, kernel.inheritable) == (True, [], (1 << 41) - 1)


@pytest.mark.parametrize("step", ["no new privileges", "reading capabilities", "dropping capabilities"])
def test_a_kernel_that_refuses_is_not_passed_over(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    with pytest.raises(Permanent, match=step):
        given_up(monkeypatch, Kernel(step))


def test_a_group_is_joined_beside_the_others_where_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[list[int]] = []
    monkeypatch.setattr(privileges.os, "getgroups", lambda: [5, 6])
    monkeypatch.setattr(privileges.os, "getegid", lambda: 7)
    monkeypatch.setattr(privileges.os, "setgroups", joined.append)
    for group in (None, 5, 7, 8):
        join_group(group)
    assert joined == [[5, 6, 8]]

    def refused(groups: list[int]) -> None:
        raise PermissionError

    monkeypatch.setattr(privileges.os, "setgroups", refused)
    join_group(8)
