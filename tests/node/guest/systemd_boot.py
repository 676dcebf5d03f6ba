"""The guest's boot with systemd as its first process, and a bus: what owns the slices of a node with the systemd
driver.

What systemd rewrites in a slice is seen only where it runs. Debian's own systemd and dbus-daemon from the host's root,
which the guest shares, with a handful of units of ours in place of the host's; the tests are one of them.
Limits: no journal, no udev, no login.
"""

from __future__ import annotations

import os
import shutil

from cotenant.drivers.qemu.packages import GuestUnavailable

PROGRAM = "/usr/lib/systemd/systemd"
_FOLDER = "/run/systemd"

# the usual order of folders, without the host's own units and generators
BOOT = f"""
/busybox mkdir -p /host{_FOLDER}/system /host/run/dbus
for unit in dbus.socket dbus.service tests.service tests.target bus.conf; do
  /busybox cp /$unit /host{_FOLDER}/system/; done
export SYSTEMD_UNIT_PATH={_FOLDER}/system.control:{_FOLDER}/transient:{_FOLDER}/system SYSTEMD_GENERATOR_PATH=
exec /busybox switch_root /host {PROGRAM} --unit=tests.target --log-level=warning --log-target=console --show-status=no
"""

UNITS = {
    "tests.target": "[Unit]\nDefaultDependencies=no\nWants=dbus.service tests.service\n",
    # systemd joins the bus only where both of these units run
    "dbus.socket": "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=/run/dbus/system_bus_socket\n",
    "dbus.service": f"""[Unit]
DefaultDependencies=no
Requires=dbus.socket
[Service]
Type=notify
ExecStart=/usr/bin/dbus-daemon --config-file={_FOLDER}/system/bus.conf --address=systemd: --nofork --nopidfile
StandardOutput=null
StandardError=null
""",
    "tests.service": """[Unit]
DefaultDependencies=no
After=dbus.service
[Service]
StandardOutput=null
StandardError=null
ExecStart=/bin/sh -c "/bin/sh /run/order > /dev/ttyS0 2>&1"
ExecStopPost=/bin/sh -c "echo ended > /dev/ttyS1; sync; exec systemctl poweroff -f -f"
""",
    "bus.conf": """<busconfig><type>system</type>
<listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
<policy context="default">
<allow user="*"/><allow own="*"/><allow send_type="*"/><allow receive_type="*"/></policy></busconfig>
""",
}


def check() -> None:
    """Raises `GuestUnavailable` where the host has no systemd or bus to boot the guest with."""
    for name, package in ((PROGRAM, "systemd"), ("dbus-daemon", "dbus-daemon"), ("busctl", "systemd")):
        if not (os.path.exists(name) if name.startswith("/") else shutil.which(name)):
            raise GuestUnavailable(f"{package} is not installed")
