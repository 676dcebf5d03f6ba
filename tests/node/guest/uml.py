"""Runs tests of this repository, or any command, on cgroup v2 with a real systemd and real runtimes, in Debian's
user-mode Linux: fast enough for containerd, runc and a kubelet, where an emulated processor is not.

    COTENANT_TEST_CONTAINERD=DIR python -m tests.node.guest.uml -m pytest tests/node/test_systemd_runtime.py

runs `python` with these arguments in the guest, and prints what it says. The host's root is the guest's, read-only
through hostfs, with folders of its own where programs write; variables named COTENANT_TEST_* reach it. Needs root,
user-mode-linux (`linux.uml` on the path, or COTENANT_TEST_UML names it), a static busybox, systemd and dbus-daemon.
Limits: one CPU; its kernel has neither pressure nor cpusets, and no network but its own loopback.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.node.guest.machine import INSIDE, ROOT
from tests.node.guest.systemd_boot import PROGRAM, UNITS, check
from tools.tree import python_path

from cotenant.drivers.qemu.archive import archive
from cotenant.drivers.qemu.packages import GuestUnavailable

NAMED = "COTENANT_TEST_UML"
MEMORY = "2G"
_INIT = """#!/busybox sh
/busybox mkdir -p /proc /sys /dev /host
/busybox mount -t proc proc /proc
/busybox mount -t hostfs -o ro none /host
/busybox mount -t proc proc /host/proc
/busybox mount -t sysfs sys /host/sys
/busybox mount -t devtmpfs dev /host/dev
for folder in /run /var/lib /var/log; do /busybox mount -t tmpfs tmpfs /host$folder; done
/busybox mkdir -p /host/run/tmp /host/run/lock /host/run/dbus /host/run/systemd/system /host/run/out
/busybox mount -t hostfs -o {out} none /host/run/out
{{ /busybox cat /proc/cpuinfo; echo "cpu MHz : 2000.000"; }} > /host/run/cpuinfo
/busybox mount -o bind /host/run/cpuinfo /host/proc/cpuinfo
/busybox cp /order /host/run/
for unit in {units}; do /busybox cp /$unit /host/run/systemd/system/; done
export SYSTEMD_GENERATOR_PATH=
export SYSTEMD_UNIT_PATH=/run/systemd/system.control:/run/systemd/transient:/run/systemd/system
exec /busybox switch_root /host {systemd} --unit=tests.target --log-level=warning --log-target=console --show-status=no
"""
# A kubelet wants to find `cpu MHz` in /proc/cpuinfo, and a default route.
_ORDER = """ip link set lo up
ip address add 10.99.0.1/24 dev lo
ip route add default dev lo
mount --make-rshared /
cd {root}
env -i {variables} {python} {arguments} > /run/out/said 2>&1
echo $? > /run/out/status
"""
# As on a node, where something asks systemd for each controller: a kubelet wants them below the root.
_TESTS = """[Unit]
DefaultDependencies=no
After=dbus.service
[Service]
StandardOutput=null
StandardError=null
CPUWeight=100
MemoryAccounting=yes
IOAccounting=yes
TasksAccounting=yes
ExecStart=/bin/sh /run/order
ExecStopPost=/bin/sh -c "sync; exec systemctl poweroff -f -f"
"""


def run(arguments: Sequence[str], environment: Mapping[str, str], within_s: float) -> tuple[int, str]:
    """Python's status and what it said. Raises `GuestUnavailable`."""
    program = shutil.which(environment.get(NAMED) or "linux.uml")
    busybox = shutil.which("busybox")
    if program is None or busybox is None:
        raise GuestUnavailable("user-mode-linux and busybox-static are needed")
    check()
    variables = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/run",
        "TMPDIR": "/run/tmp",
        "COTENANT_CACHE": "/run/cache",
        "PYTHONPATH": f"{python_path()}:{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        INSIDE: "1",
        **{name: value for name, value in environment.items() if name.startswith("COTENANT_TEST_")},
    }
    order = _ORDER.format(
        root=shlex.quote(str(ROOT)),
        variables=shlex.join(f"{name}={value}" for name, value in variables.items()),
        python=shlex.quote(sys.executable),
        arguments=shlex.join(arguments),
    )
    with tempfile.TemporaryDirectory(prefix="cotenant-guest-") as name:
        folder = Path(name)
        out = folder / "out"
        out.mkdir()
        files = {
            "init": (_INIT.format(out=out, units=" ".join(UNITS), systemd=PROGRAM).encode(), 0o755),
            "busybox": (Path(busybox).read_bytes(), 0o755),
            "order": (order.encode(), 0o644),
        }
        files.update({name: (text.encode(), 0o644) for name, text in {**UNITS, "tests.service": _TESTS}.items()})
        (folder / "initrd").write_bytes(archive(files))
        command = [
            program,
            f"mem={MEMORY}",
            f"initrd={folder / 'initrd'}",
            "rdinit=/init",
            f"uml_dir={folder}",
            *("con=null", "con0=null,fd:1", "console=tty0", "cgroup_no_v1=all", "quiet"),
        ]
        with (folder / "console").open("wb") as console:
            guest = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={"PATH": os.environ["PATH"], "HOME": "/root", "TMPDIR": str(folder)},
                start_new_session=True,
            )
            try:
                guest.wait(within_s)
            except subprocess.TimeoutExpired:
                pass
            finally:
                if guest.poll() is None:
                    os.killpg(guest.pid, signal.SIGKILL)
                    guest.wait()
        said = (out / "said").read_text(errors="replace") if (out / "said").exists() else ""
        if not (out / "status").exists():
            return 1, f"{said}\nthe guest ended early: {(folder / 'console').read_text(errors='replace')[-2000:]}"
        return int((out / "status").read_text()), said


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no guest is left
    status, text = run(sys.argv[1:], os.environ, 3600.0)
    print(text, end="")
    sys.exit(status)
