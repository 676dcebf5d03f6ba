"""The keeper loads a zone's schedulers with the capabilities and the arguments of the chart's DaemonSet
(`node.zoneSchedulers`): created, switched, destroyed through its socket.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cotenant.drivers.ebpf.libbpf import objects_folder
from cotenant.drivers.ebpf.sched_ext import read_state as kernel_state
from cotenant.services.keeper.privileges import KernelCapability, give_up
from cotenant.services.zones.client import ZoneClient
from cotenant.services.zones.executing import execute_in
from cotenant.services.zones.log_file import read_log
from cotenant.services.zones.state_file import read_state

pytestmark = [
    pytest.mark.skipif(
        not (objects_folder() / "zone_latency.bpf.o").is_file(), reason="the schedulers are not built: make bpf"
    ),
    pytest.mark.on_request("starting the keeper takes most of a minute of the guest's time"),
]
GRANTED = frozenset(
    {KernelCapability.SYS_RESOURCE, KernelCapability.BPF, KernelCapability.PERFMON, KernelCapability.SYS_NICE}
)
SHOP = """
zone: shop
groups:
  - {group: service, kind: service, late_ms: 10}
  - {group: batch, kind: batch}
backend: auto
start: throughput
modes: [throughput, latency]
period_ms: 500
limits: {canary_s: 1, dwell_s: 2}
"""


def sleeper() -> None:
    while True:
        time.sleep(0.01)


def until(what: Callable[[], bool], log: Path) -> None:
    """Wait for the keeper. The guest's clock leaps while a file is read from the host, so the time is long; the
    guest as a whole has less.
    """
    end_s = time.monotonic() + 20_000
    while not what():
        assert time.monotonic() < end_s, log.read_text()
        time.sleep(0.1)


def test_a_zone_in_the_keeper(groups, tmp_path: Path):
    service, batch = groups
    socket, states = tmp_path / "zones.sock", tmp_path / "zones"
    arguments = ["--root=service", "--root=batch", f"--state-dir={tmp_path}/lib", f"--socket={tmp_path}/keeper.sock"]
    bpf = tmp_path / "bpf"
    bpf.mkdir()
    subprocess.run(["mount", "-t", "bpf", "bpf", str(bpf)], check=True)
    zones = ["--zones", f"--zone-socket={socket}", f"--zone-state-dir={states}", f"--bpf-root={bpf}"]
    log = tmp_path / "log"
    command = [sys.executable, "-m", "cotenant", "keeper", *arguments, *zones]
    keeper = subprocess.Popen(command, stderr=log.open("w"), preexec_fn=lambda: give_up(GRANTED))
    try:
        until(lambda: socket.exists() or keeper.poll() is not None, log)
        assert socket.exists(), log.read_text()
        client = ZoneClient(socket)
        created = client.create(SHOP, "shop.yaml")
        assert created["setting"] == "root/throughput", read_log(states, "shop", 50)
        assert kernel_state().runs("cotenant_throughput")
        status = Path(f"/proc/{keeper.pid}/status").read_text()
        assert f"CapEff:\t{sum(1 << capability for capability in GRANTED):016x}\n" in status
        assert (bpf / "cotenant-zone-shop" / "zone_policy").exists()
        with service.run(sleeper), batch.burning(2):
            until(lambda: read_state(states, "shop")["setting"] == "root/latency", log)
            until(lambda: read_state(states, "shop")["state"] == "active", log)
            assert kernel_state().runs("cotenant_latency")
        change = read_state(states, "shop")["history"][1]
        assert (change["rule"], change["kept"]) == ("zone-switch", True)
        assert "service: " in change["event"]
        assert "late dispatches a second" in change["event"]
        ran = execute_in(states, "shop", "service", ["cat", "/proc/self/cgroup"], captured=True)
        assert ran["stdout"].strip() == "0::/service"
        assert client.switch("shop", "throughput")["setting"] == "root/throughput"
        assert client.destroy("shop") == "destroyed"
        assert not kernel_state().runs("cotenant_throughput")
        keeper.terminate()
        assert keeper.wait(60) == 0
    finally:
        keeper.kill()
        keeper.wait()
        subprocess.run(["umount", str(bpf)], check=True)
        Path("/sys/fs/cgroup/cgroup.procs").write_text("0")
