"""Archives that a kernel unpacks as its first root (initramfs)."""

from __future__ import annotations


def archive(files: dict[str, tuple[bytes, int]]) -> bytes:
    """A cpio archive in the kernel's "newc" form (Documentation/driver-api/early-userspace/buffer-format.rst)."""
    parts = []
    for number, (name, (data, mode)) in enumerate([*files.items(), ("TRAILER!!!", (b"", 0))], start=1):
        path = name.encode() + b"\0"
        kind = 0 if name == "TRAILER!!!" else 0o100000
        fields = (number, kind | mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
        parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]
    return b"".join(parts)
