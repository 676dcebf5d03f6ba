"""Modules of a packaged kernel, in the order in which a guest loads them.

Which drivers are built in differs by kernel and by package, and a guest's first root has no tool that resolves
dependencies: what a module needs is read from the module itself (its `depends=` in .modinfo).
"""

from __future__ import annotations

import lzma
import re
import subprocess
from collections.abc import Callable, Iterable

from cotenant.drivers.qemu.packages import GuestUnavailable

_KO = re.compile(r"(?P<name>[^/]+)\.ko(?P<packed>\.xz|\.zst)?")


def module_name(path: str) -> str:
    """The module's name of a file such as `net/virtio_net.ko.xz`; "" of another file."""
    found = _KO.fullmatch(path.rpartition("/")[2])
    return "" if found is None else found["name"].replace("-", "_")


def unpacked_module(path: str, data: bytes) -> bytes:
    """The module itself. Raises `GuestUnavailable` where it cannot be unpacked."""
    if path.endswith(".xz"):
        return lzma.decompress(data)
    if path.endswith(".zst"):
        done = subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=False)
        if done.returncode:
            raise GuestUnavailable(f"{path}: {done.stderr.decode(errors='replace').strip()[-200:]}")
        return done.stdout
    return data


def in_order(load: Callable[[str], bytes | None], wanted: Iterable[str]) -> dict[str, bytes]:
    """The wanted modules, each after those that it needs. `load`: the unpacked module; None: it is built in."""
    order: dict[str, bytes] = {}

    def add(name: str) -> None:
        data = None if name in order else load(name)
        if data is None:
            return
        depends = re.search(rb"\0depends=([^\0]*)\0", data)
        for needed in filter(None, depends[1].decode().split(",") if depends is not None else ()):
            add(needed.replace("-", "_"))
        order[name] = data

    for name in wanted:
        add(name)
    return order
