"""What a zone's guest starts from: its first root (initramfs), and the paths of this host that its root shows.

The guest's agent is this package run by this process's interpreter, so the guest must see both, at the places where
they are here, and the libraries that they load; a zone's file may name more. Everything else of the host is not there.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from cotenant.drivers.qemu.archive import archive
from cotenant.drivers.qemu.guest_root import WHOLE, libraries

FIRST_LINE = "cotenant: the guest has booted"
# the addresses of QEMU's user network (manual, system/devices/net)
_INIT = f"""#!/busybox sh
/busybox mkdir -p /proc /sys /dev /host
/busybox mount -t proc proc /proc
/busybox mount -t devtmpfs dev /dev
/busybox echo "{FIRST_LINE}"
@modules@
/busybox mount -t virtiofs -o ro host /host
/busybox mount -t proc proc /host/proc
/busybox mount -t sysfs sys /host/sys
/busybox mount -t devtmpfs dev /host/dev
/busybox mount -t tmpfs tmpfs /host/run
@own_tmp@
/busybox mount -t cgroup2 cgroup2 /host/sys/fs/cgroup
/busybox mount -t bpf bpf /host/sys/fs/bpf
/busybox mount -t debugfs debug /host/sys/kernel/debug
/busybox ip link set lo up
@network@
/busybox cp /run-agent /host/run/
/busybox chroot /host /bin/sh /run/run-agent
/busybox sync
/busybox poweroff -f
"""
_NETWORK = """/busybox ip addr add 10.0.2.15/24 dev eth0
/busybox ip link set eth0 up
/busybox ip route add default via 10.0.2.2"""


def shared_paths(host_paths: Sequence[str]) -> tuple[Path, ...]:
    """The paths of this host that the guest's root shows. Raises `Unsupported` as `libraries`."""
    named = tuple(Path(path) for path in host_paths)
    if WHOLE in named:
        return (WHOLE,)
    interpreter = Path(os.path.realpath(sys.executable))
    standard = Path(sysconfig.get_path("stdlib"))
    bpf = importlib.util.find_spec("pylibbpf")
    wheels = [Path(place) for place in (bpf.submodule_search_locations or ())] if bpf is not None else []
    programs = [interpreter, *sorted(standard.glob("lib-dynload/*.so"))]
    programs += [library for wheel in wheels for library in sorted(wheel.glob("*.so*"))]
    return (interpreter, standard, _package(), *_packages(), *libraries(programs), *named)


def first_root(modules: Sequence[Path], network: bool, shared: Sequence[Path]) -> bytes:
    """The first root: busybox, the kernel's modules, and what starts the agent."""
    code = os.pathsep.join(map(str, (_package().parent, *_packages())))
    run = (
        "cd /run && exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run"
        f" PYTHONPATH={shlex.quote(code)} PYTHONDONTWRITEBYTECODE=1 {shlex.quote(os.path.realpath(sys.executable))}"
        " -S -u -m cotenant.services.zones.vm_guest_agent\n"
    )
    # a temporary folder of the guest's own, unless something that it sees is in this host's
    in_tmp = any(path.is_relative_to("/tmp") for path in (*shared, _package(), Path(sys.executable)))
    replaced = {
        "@own_tmp@": "" if in_tmp else "/busybox mount -t tmpfs tmpfs /host/tmp",
        "@modules@": "\n".join(f"/busybox insmod /modules-{number}" for number in range(len(modules))),
        "@network@": _NETWORK if network else "",
    }
    text = _INIT
    for mark, lines in replaced.items():
        text = text.replace(mark, lines)
    return archive(
        {
            "init": (text.encode(), 0o755),
            "busybox": (Path(str(shutil.which("busybox"))).read_bytes(), 0o755),
            "run-agent": (run.encode(), 0o644),
            **{f"modules-{number}": (module.read_bytes(), 0o644) for number, module in enumerate(modules)},
        }
    )


def _package() -> Path:
    """The folder of this package."""
    spec = importlib.util.find_spec("cotenant")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _packages() -> tuple[Path, ...]:
    """Where installed packages are."""
    return tuple(sorted({Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}))
