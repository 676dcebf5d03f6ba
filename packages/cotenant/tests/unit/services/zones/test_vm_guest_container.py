"""How a pod's program in a guest begins: the kernel's numbers, and the user by the image's files."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.services.zones import vm_guest_container as container

# linux/sched.h, sys/mount.h, sys/umount.h, asm/unistd_64.h, linux/prctl.h
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID = 0x00020000, 0x04000000, 0x08000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 16384, 262144
# linux/capability.h: what lets a program reach devices, mounts, modules, other processes and the kernel's settings
DANGEROUS = {
    "LINUX_IMMUTABLE": 9, "NET_BROADCAST": 11, "NET_ADMIN": 12, "IPC_LOCK": 14, "IPC_OWNER": 15, "SYS_MODULE": 16,
    "SYS_RAWIO": 17, "SYS_PTRACE": 19, "SYS_PACCT": 20, "SYS_ADMIN": 21, "SYS_BOOT": 22, "SYS_NICE": 23,
    "SYS_RESOURCE": 24, "SYS_TIME": 25, "SYS_TTY_CONFIG": 26, "MKNOD": 27, "LEASE": 28, "AUDIT_CONTROL": 30,
    "MAC_OVERRIDE": 32, "MAC_ADMIN": 33, "SYSLOG": 34, "WAKE_ALARM": 35, "BLOCK_SUSPEND": 36, "AUDIT_READ": 37,
    "PERFMON": 38, "BPF": 39, "CHECKPOINT_RESTORE": 40, "DAC_READ_SEARCH": 2,
}  # fmt: skip


def test_numbers_are_the_kernels() -> None:
    assert container._NEW_NAMESPACES == CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID
    assert (container._NOSUID, container._NODEV, container._NOEXEC) == (MS_NOSUID, MS_NODEV, MS_NOEXEC)
    assert (container._RECURSIVE, container._PRIVATE) == (MS_REC, MS_PRIVATE)
    assert container._DETACH == 2  # MNT_DETACH
    assert container._PIVOT_ROOT == 155  # __NR_pivot_root
    assert container._CAPABILITY_BOUND_DROP == 24  # PR_CAPBSET_DROP


def test_every_capability_that_reaches_beyond_the_pod_is_dropped() -> None:
    assert set(range(41)) - container._KEPT == set(DANGEROUS.values())


def test_devices_have_the_numbers_of_the_kernels_list() -> None:
    assert container._DEVICES == {
        "null": (1, 3),
        "zero": (1, 5),
        "full": (1, 7),
        "random": (1, 8),
        "urandom": (1, 9),
        "tty": (5, 0),
    }


PASSWD = (
    "root:x:0:0:root:/root:/bin/sh\nweb:x:100:200:Web:/srv/web:/bin/sh\nhomeless:x:7:8:::\n300:x:301:302::/n:/x\nbad\n"
)
GROUP = "root:x:0:\nstaff:x:50:web\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", (0, 0, "/root")),
        ("root", (0, 0, "/root")),
        ("web", (100, 200, "/srv/web")),
        ("100", (100, 200, "/srv/web")),
        ("homeless", (7, 8, "/")),
        ("300", (301, 302, "/n")),  # a name comes before a number
        ("4000", (4000, 0, "/")),
        ("web:staff", (100, 50, "/srv/web")),
        ("web:77", (100, 77, "/srv/web")),
        ("4000:staff", (4000, 50, "/")),
        (":staff", (0, 50, "/root")),
        ("nobody", "the image has no user nobody"),
        ("web:wheel", "the image has no group wheel"),
    ],
)
def test_a_user_is_found_by_name_or_number(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, text: str, found: Any
) -> None:
    for name, content in (("passwd", PASSWD), ("group", GROUP)):
        (tmp_path / name).write_text(content)
    rows = container._rows
    monkeypatch.setattr(container, "_rows", lambda path, fields: rows(path.replace("/etc", str(tmp_path)), fields))
    if isinstance(found, str):
        with pytest.raises(LookupError, match=found):
            container._user(text)
    else:
        assert container._user(text) == found


@pytest.mark.parametrize(("text", "found"), [("", (0, 0, "/")), ("12", (12, 0, "/")), ("12:13", (12, 13, "/"))])
def test_an_image_without_such_files_has_numbers_only(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, text: str, found: Any
) -> None:
    rows = container._rows
    monkeypatch.setattr(container, "_rows", lambda path, fields: rows(f"{tmp_path}{path}", fields))
    assert container._user(text) == found
    with pytest.raises(LookupError, match="no user web"):
        container._user("web")


def test_a_refused_call_says_what_it_was() -> None:
    container._check(0, "mount")
    with pytest.raises(OSError, match="mount: "):
        container._check(-1, "mount")
