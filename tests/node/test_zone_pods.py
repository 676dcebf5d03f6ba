"""A zone that is a package: its pods' images, a port of this host that reaches one, and nothing of this host in the
guest but what the zone names.
"""

from __future__ import annotations

import asyncio
import shutil
import urllib.request
from pathlib import Path

import pytest
from tests.fakes.images import layer_of, save_image
from tests.fakes.node.busy_host import unhurried
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import patience
from tests.unit.services.zones.test_runner import MemoryKeeper

from cotenant.cli.zone.showing import inspected
from cotenant.drivers.docker.archive import digest_of
from cotenant.drivers.qemu.kernel import zone_kernel
from cotenant.drivers.qemu.machine import missing
from cotenant.drivers.qemu.packages import GuestUnavailable
from cotenant.model.errors import Unsupported
from cotenant.services.zones.host import ZoneHost
from cotenant.services.zones.log_file import read_log
from cotenant.services.zones.opening import this_host
from cotenant.services.zones.state_file import read_state

__all__ = ["unhurried"]
SHOP = """
zone: shop
vm: {memory_mib: 512, kernel: {preempt: lazy, hz: 250}, host_paths: [@seen@]}
pods:
  - name: web
    image: {archive: web.tar, sha256: @digest@}
    env: {GREETING: hello}
    user: "1000:1000"
    ports: [{container: 8080, host: @port@}]
    probe: {port: 8080, path: /index.html, restart: true}
    volumes: [{path: /data, name: data, mib: 1}]
    memory_mib: 64
    processes: 20
    weight: 400
  - name: once
    kind: batch
    image: {archive: web.tar}
    command: [sh, -c, "id -u; hostname; ls /; cat /proc/1/comm; echo of $GREETING"]
limits: {canary_s: 0.1}
period_ms: 300
"""
# what the service runs, of the image: a page in the volume, then busybox's server
SERVE = "echo $GREETING of $(id -u) > /data/index.html; exec httpd -f -p 8080 -h /data"


def fetched(port: int) -> str:
    """The page at the pod's port, as this host reaches it."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/index.html", timeout=patience(10)) as answer:
        return str(answer.read().decode())


async def monitored(states: Path, port: int) -> None:
    """Until both sides of the machine have figures, with requests meanwhile that make its devices work."""
    async with asyncio.timeout(patience(60)):
        while True:
            await asyncio.to_thread(fetched, port)
            figures = read_state(states, "shop").get("monitors") or {}
            if figures and figures["backEnd"]["kicks_per_s"]:
                break
            await asyncio.sleep(0.05)
    assert figures["frontEnd"]["runnable"] is not None
    assert figures["frontEnd"]["wait_ms"] is not None
    assert figures["frontEnd"]["cpu_pressure"] is not None
    assert figures["backEnd"]["vcpu_cpus"] > 0
    assert figures["backEnd"]["exits_per_s"] is None or figures["backEnd"]["exits_per_s"] > 0  # None under TCG
    print("\n".join(inspected(read_state(states, "shop"))))


@pytest.mark.slow
@pytest.mark.usefixtures("unhurried")
def test_a_package_of_pods_is_reached_by_its_port_and_reads_nothing_of_its_host(tmp_path: Path) -> None:
    if lack := missing():
        pytest.skip(f"a virtual machine needs {lack}")
    try:
        zone_kernel()
        host = this_host()
    except (GuestUnavailable, Unsupported) as error:
        pytest.skip(f"no guest here: {error}")
    secret, seen = tmp_path / "secret", tmp_path / "seen"
    for path in (secret, seen):
        path.write_text(f"content of {path.name}\n")
    busybox = Path(str(shutil.which("busybox"))).read_bytes()
    names = ("sh", "httpd", "id", "hostname", "ls", "cat")
    layer = layer_of({"bin": None, "bin/busybox": busybox, **{f"bin/{name}": "-> busybox" for name in names}})
    archive = save_image(tmp_path / "web.tar", [layer], {"Entrypoint": ["sh", "-c"], "Cmd": [SERVE]})
    port = free_port()
    text = SHOP.replace("@digest@", digest_of(archive)).replace("@port@", str(port)).replace("@seen@", str(seen))

    async def main() -> None:
        zones = ZoneHost(MemoryKeeper(), host, tmp_path / "zones", ("zones",))
        try:
            await zones.create(text, str(tmp_path / "shop.yaml"))
            async with asyncio.timeout(patience(60)):
                while True:
                    pods = read_state(tmp_path / "zones", "shop")["pods"]
                    if pods and pods["web"]["ready"] and pods["once"]["exit"] is not None:
                        break
                    await asyncio.sleep(0.1)
            assert await asyncio.to_thread(fetched, port) == "hello of 1000\n"
            once = pods["once"]
            assert once["log"] == ["0", "once", "bin", "dev", "proc", "tmp", "sh", "of"], once
            assert {name: once[name] for name in ("running", "ready", "restarts", "exit")} == {
                "running": False,
                "ready": False,
                "restarts": 0,
                "exit": 0,
            }
            await monitored(tmp_path / "zones", port)
            look = f"cat {seen}; cat {secret}; ls /etc /root; cat /etc/shadow; cat /sys/fs/cgroup/web/memory.max"
            found = await zones.execute("shop", "once", ["sh", "-c", look])
            assert found["stdout"].splitlines()[0] == "content of seen"
            assert str(64 << 20) in found["stdout"]
            assert "content of secret" not in found["stdout"]
            assert found["stdout"].count("shadow") == 0
            assert found["stderr"].count("No such file") == 2
            # the network leads from the host to the pod, and not back
            reach = "httpd -p 1 -h /; wget -T 2 -O - http://10.0.2.2:@port@/index.html".replace("@port@", str(port))
            found = await zones.execute("shop", "once", ["sh", "-c", reach])
            assert found["exit"] != 0
            assert "hello" not in found["stdout"]
        finally:
            await zones.stop()

    try:
        asyncio.run(main())
    except Exception:
        print("\n".join(entry["text"] for entry in read_log(tmp_path / "zones", "shop", 60)))
        raise
