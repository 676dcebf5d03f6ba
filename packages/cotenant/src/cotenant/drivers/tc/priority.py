"""Puts packets of a group's programs into a traffic class.

A packet at the uplink's root does not carry its group, and the kernel's own classifier by group is seldom built in. A
program of four BPF instructions at the group's egress sets each packet's priority to the class's handle; HTB takes such
a packet into that class without a filter. It is attached by a link that the kernel removes when this process ends,
however it ends.
Limits: groups of the cgroup v2 tree (a hybrid machine has one); programs in the host's own network: a packet that
leaves a pod's namespace by a veth loses its priority, and is classified by its address instead (`TcKnobs.steer`).
Children of the group are included.

Source: Linux include/uapi/linux/bpf.h (struct __sk_buff, union bpf_attr); net/sched/sch_htb.c (htb_classify);
net/core/dev.c (____dev_forward_skb).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from pathlib import Path

from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.machine.knob import Vanished

NEEDS = "Linux 5.7 with CONFIG_CGROUP_BPF, a cgroup v2 tree, and the rights of CAP_BPF and CAP_NET_ADMIN"
_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
_PROG_LOAD, _LINK_CREATE = 5, 28
_CGROUP_SKB, _CGROUP_INET_EGRESS = 8, 1
_PRIORITY_AT = 32  # of struct __sk_buff
_MOV32, _STORE32, _MOV64, _EXIT = 0xB4, 0x63, 0xB7, 0x95


class PriorityMarks:
    """Marks of groups below the cgroup v2 tree at `root`. They last until `clear`, `close` or the end of this
    process.
    """

    def __init__(self, root: str) -> None:
        self._root = Path(root)
        self._links: dict[str, tuple[int, int]] = {}  # group -> priority, descriptor of the link
        self._call = ctypes.CDLL(None, use_errno=True).syscall

    def groups(self) -> dict[str, int]:
        """Which groups are marked, and with which priority."""
        return {group: priority for group, (priority, _) in self._links.items()}

    def mark(self, group: str, priority: int) -> None:
        """Set this priority on everything that the group's programs send from now on. Idempotent.

        Raises `Vanished` where the group is gone, `Unsupported` where the kernel lacks it, `Permanent` without
        permission.
        """
        if not 0 <= priority < 1 << 32:
            raise InvalidInput("packet priority", priority, "32 bits")
        current = self._links.get(group)
        if current is not None and current[0] == priority:
            return
        made = self._link(group, priority)
        self.clear(group)
        self._links[group] = (priority, made)

    def clear(self, group: str) -> None:
        """Remove the mark, if there is one."""
        current = self._links.pop(group, None)
        if current is not None:
            os.close(current[1])

    def close(self) -> None:
        """Remove all marks."""
        for group in tuple(self._links):
            self.clear(group)

    def _link(self, group: str, priority: int) -> int:
        try:
            folder = os.open(self._root / group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise Vanished(f"/{group}: no such group") from error
        except OSError as error:
            raise Permanent(f"/{group}: {error.strerror}") from error
        try:
            program = self._load(priority)
            try:
                return self._bpf(_LINK_CREATE, struct.pack("=IIII", program, folder, _CGROUP_INET_EGRESS, 0), group)
            finally:
                os.close(program)
        finally:
            os.close(folder)

    def _load(self, priority: int) -> int:
        # r2 = priority; skb->priority = r2; return 1 (pass)
        code = b"".join(
            struct.pack("=BBhi", opcode, registers, offset, value - (1 << 32) if value >= 1 << 31 else value)
            for opcode, registers, offset, value in (
                (_MOV32, 0x02, 0, priority),
                (_STORE32, 0x21, _PRIORITY_AT, 0),
                (_MOV64, 0x00, 0, 1),
                (_EXIT, 0x00, 0, 0),
            )
        )
        instructions, licence = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"Apache-2.0")
        attributes = struct.pack(
            "=IIQQIIQII16sII",
            _CGROUP_SKB,
            len(code) // 8,
            ctypes.addressof(instructions),
            ctypes.addressof(licence),
            0,
            0,
            0,
            0,
            0,
            b"cotenant_class",
            0,
            _CGROUP_INET_EGRESS,
        )
        return self._bpf(_PROG_LOAD, attributes, "")

    def _bpf(self, command: int, attributes: bytes, group: str) -> int:
        number = _BPF.get(platform.machine())
        if number is None:
            raise Unsupported("marks of packets", f"{NEEDS}, on one of {', '.join(_BPF)}")
        memory = ctypes.create_string_buffer(attributes, len(attributes))
        answer = self._call(number, command, memory, len(attributes))
        if answer >= 0:
            return int(answer)
        code = ctypes.get_errno()
        if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF):
            raise Unsupported("marks of packets", f"{NEEDS} (/{group}: {os.strerror(code)})")
        if code in (errno.EPERM, errno.EACCES):
            raise Permanent(f"marks of packets: {os.strerror(code)}: {NEEDS}")
        if code == errno.ENOENT:
            raise Vanished(f"/{group}: no such group")
        raise Transient(f"marks of packets: {os.strerror(code)}")
