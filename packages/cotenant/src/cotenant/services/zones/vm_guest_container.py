"""What becomes a pod's program in a zone's guest: its group, its namespaces, its root, its user, then `exec`.

Run as a program with one JSON argument, by the guest's agent: an agent with threads must not run Python between fork
and exec. Mounts, processes, names and IPC are the pod's own, the network is the guest's. The program keeps no
capability that reaches the guest's devices or mounts, so a pod of user 0 cannot speak to the host as the guest's agent.
Standard library only.

Source: Linux manual pages unshare(2), pivot_root(2), capabilities(7).
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import stat
import sys
from pathlib import Path
from types import FrameType
from typing import Any

_NEW_NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000  # mount, names, IPC, processes
_RECURSIVE, _PRIVATE, _DETACH = 0x4000, 1 << 18, 2
_NOSUID, _NODEV, _NOEXEC = 2, 4, 8
_PIVOT_ROOT = 155  # of x86-64
_CAPABILITY_BOUND_DROP = 24
# chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, net_raw, sys_chroot,
# audit_write, setfcap: what container engines leave, without mknod
_KEPT = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 29, 31})
_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
NOT_STARTED = 127
_libc = ctypes.CDLL(None, use_errno=True)


def main(spec: dict[str, Any]) -> int:
    """Run the program and wait; its exit status, 128 and the signal where one ended it."""
    Path(spec["procs"]).write_text(str(os.getpid()))
    _check(_libc.unshare(_NEW_NAMESPACES), "unshare")
    child = os.fork()
    if child == 0:
        try:
            _become(spec)
        except (OSError, LookupError, ValueError) as error:
            print(f"the pod's program was not started: {error}", file=sys.stderr, flush=True)
        os._exit(NOT_STARTED)

    def passed_on(number: int, frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, passed_on)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else 128 - status


def _become(spec: dict[str, Any]) -> None:
    """Never returns where it succeeds."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    _mount("none", "/", "", _RECURSIVE | _PRIVATE)
    os.chdir(spec["root"])
    here = ctypes.c_char_p(b".")
    _check(_libc.syscall(_PIVOT_ROOT, here, here), "pivot_root")
    _check(_libc.umount2(here, _DETACH), "umount")
    os.chdir("/")
    _folders()
    _libc.sethostname(spec["name"].encode(), len(spec["name"]))
    user, group, home = _user(spec["user"])
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home}
    environment |= dict(word.partition("=")[::2] for word in spec["env"])
    Path(spec["workdir"]).mkdir(parents=True, exist_ok=True)
    os.chdir(spec["workdir"])
    for capability in range(_last_capability() + 1):
        if capability not in _KEPT:
            _check(_libc.prctl(_CAPABILITY_BOUND_DROP, capability, 0, 0, 0), "prctl")
    os.setgroups([group])
    os.setgid(group)
    os.setuid(user)
    os.execvpe(spec["command"][0], spec["command"], environment)


def _folders() -> None:
    for name in ("proc", "dev", "tmp"):
        Path(f"/{name}").mkdir(exist_ok=True)
    _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    _mount("tmpfs", "/dev", "tmpfs", _NOSUID, "size=64k,mode=755")
    for name, (major, minor) in _DEVICES.items():
        os.mknod(f"/dev/{name}", stat.S_IFCHR | 0o666, os.makedev(major, minor))
        os.chmod(f"/dev/{name}", 0o666)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"/dev/{name}")
    os.symlink("/proc/self/fd", "/dev/fd")
    Path("/dev/shm").mkdir()
    _mount("tmpfs", "/dev/shm", "tmpfs", _NOSUID | _NODEV, "size=16m,mode=1777")


def _last_capability() -> int:
    return int(Path("/proc/sys/kernel/cap_last_cap").read_text())


def _user(text: str) -> tuple[int, int, str]:
    """User, group and home folder of `USER[:GROUP]`, by the image's own files. Raises `LookupError`."""
    name, _, group_name = text.partition(":")
    rows = {row[0]: row for row in _rows("/etc/passwd", 7)}
    by_number = {row[2]: row for row in rows.values()}
    row = rows.get(name or "root") or by_number.get(name or "0")
    if row is None and name and not name.isdecimal():
        raise LookupError(f"the image has no user {name}")
    user = int(row[2]) if row is not None else int(name or 0)
    group = int(row[3]) if row is not None else user if not name else 0
    if group_name:
        groups = {row[0]: row[2] for row in _rows("/etc/group", 3)}
        found = groups.get(group_name, group_name)
        if not found.isdecimal():
            raise LookupError(f"the image has no group {group_name}")
        group = int(found)
    return user, group, (row[5] if row is not None else "") or "/"


def _rows(path: str, fields: int) -> list[list[str]]:
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [row for row in (line.split(":") for line in lines) if len(row) >= fields]


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    words = (ctypes.c_char_p(word.encode()) for word in (source, target, kind))
    _check(_libc.mount(*words, ctypes.c_ulong(flags), ctypes.c_char_p(data.encode())), f"mount {target}")


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    raise SystemExit(main(json.loads(sys.argv[1])))
