"""A ControlZone with `vm` on a node: its agent's part and a keeper process boot its machine, the object's status has
its pods, a burning objective counts in it, and it is there again after kill -9 of the keeper and of QEMU; deleted,
nothing is left.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from tests.fakes.images import layer_of, save_image
from tests.fakes.node.keeper_process import KeeperProcess
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import eventually
from tests.node.test_zone_pods import fetched
from tests.unit.services.zones.test_cluster_objects import Cluster

from cotenant.cli.zone.of_cluster import lines
from cotenant.drivers.docker.archive import digest_of
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.qemu.kernel import zone_kernel
from cotenant.drivers.qemu.machine import missing
from cotenant.drivers.qemu.packages import GuestUnavailable
from cotenant.model.errors import Unsupported
from cotenant.model.machine.replica_signal import MaxAction, ReplicaSignal
from cotenant.services.zones.agent_pods import ZonePods
from cotenant.services.zones.client import ZoneClient
from cotenant.services.zones.cluster_objects import LiveZones
from cotenant.services.zones.cluster_starts import LONGEST_PAUSE_S
from cotenant.services.zones.log_file import read_log
from cotenant.services.zones.opening import this_host
from cotenant.services.zones.overview import zone_view
from cotenant.services.zones.state_file import read_state

# the page says who the pod is in its spans
SERVE = "echo $OTEL_SERVICE_NAME $OTEL_RESOURCE_ATTRIBUTES > /data/index.html; exec httpd -f -p 8080 -h /data"
BURNS = ReplicaSignal("shop/o", "shop/web", "", "", 5000, 10_000, MaxAction.CAP, True, 9_000_000, 400, 80, 9000, 9000)


@contextmanager
def agent(zone_pods: ZonePods) -> Iterator[str]:
    """The agent's page, for the keeper. Of the zone's pods the one that burns is web."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            for _, uid in zone_pods.traced():
                zone_pods.reported(uid, BURNS, 0)
            body = msgspec.json.encode({"pods": [], "zone_pods": zone_pods.page(0)})
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            """Requests are not logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def is_open(port: int) -> bool:
    with socket.socket() as peer:
        return peer.connect_ex(("127.0.0.1", port)) == 0


class Node:
    """The object, and the agent's part that follows it. `clock` can be moved."""

    def __init__(self, folder: Path, spec: dict[str, Any], listen: str) -> None:
        self.cluster, self.states, self.later_s = Cluster(), folder / "zones", 0.0
        self.cluster.put("box", spec)
        clock = lambda: time.monotonic() + self.later_s  # noqa: E731
        zones = ZoneClient(folder / "zones.sock")
        self.live = LiveZones(cast(Client, self.cluster), "n", zones, self.states, listen, clock)

    def entry(self) -> dict[str, Any]:
        """What the agent says after it looked once."""
        asyncio.run(self.live.follow())
        found: dict[str, Any] = (self.cluster.zones["box"].status or {}).get("nodes", {}).get("n", {})
        return found

    def ready(self) -> dict[str, Any]:
        """Once every condition holds."""

        def found() -> dict[str, Any] | None:
            entry = self.entry()
            assert entry.get("state") != "refused", entry
            holds = [condition["status"] == "True" for condition in entry.get("conditions", ())]
            return entry if len(holds) == 3 and all(holds) else None

        return cast("dict[str, Any]", eventually("the zone is ready", found, 240, interval_s=0.5))

    def qemu(self) -> Path:
        """Of its machine, in /proc."""
        return Path(f"/proc/{read_state(self.states, 'box')['vm']['pid']}")


@pytest.mark.slow
def test_a_machine_of_the_cluster_from_its_object_to_its_end(tmp_path: Path) -> None:
    if lack := missing():
        pytest.skip(f"a virtual machine needs {lack}")
    try:
        zone_kernel()
        this_host()
    except (GuestUnavailable, Unsupported) as error:
        pytest.skip(f"no guest here: {error}")
    files, port = tmp_path / "files", free_port()
    files.mkdir()
    busybox = Path(str(shutil.which("busybox"))).read_bytes()
    layer = layer_of({"bin": None, "bin/busybox": busybox, "bin/sh": "-> busybox", "bin/httpd": "-> busybox"})
    archive = save_image(files / "web.tar", [layer], {"Entrypoint": ["sh", "-c"], "Cmd": [SERVE]})
    web = {
        "name": "web",
        "image": {"archive": "web.tar", "sha256": digest_of(archive)},
        "ports": [{"container": 8080, "host": port}],
        "probe": {"port": 8080, "path": "/index.html", "restart": True},
        "volumes": [{"path": "/data", "name": "data", "mib": 1}],
        "memoryMib": 64,
    }
    once = {"name": "once", "kind": "batch", "image": {"archive": "web.tar"}, "args": ["exit 0"]}
    spec = {
        "vm": {"memoryMib": 384, "namespace": "shop", "kernel": {"preempt": "lazy"}},
        "pods": [web, once],
        "limits": {"canaryS": 0.1},
        "periodMs": 300,
    }
    (tmp_path / "keeper").mkdir()
    given = ["--zones", f"--zone-socket={tmp_path / 'zones.sock'}", f"--zone-state-dir={tmp_path / 'zones'}"]
    given.append(f"--zone-files={files}")

    def keeper() -> KeeperProcess:
        return KeeperProcess(tmp_path / "keeper", ["cotenant-test-none"], *given)

    try:
        with agent(ZonePods(lambda: tmp_path / "zones")) as listen:
            with keeper() as first:
                first.ready()
                node = Node(tmp_path, json.loads(json.dumps(spec)), listen)
                assert node.entry()["state"] == "starting"
                node.ready()
                ended = lambda: [pod for pod in node.entry()["pods"] if pod.get("exit") == 0]  # noqa: E731
                assert [pod["name"] for pod in eventually("once is done", ended, interval_s=0.5)] == ["once"]
                told = "\n".join(lines(zone_view(node.cluster.zones["box"])))
                assert "pod once: ended with status 0" in told
                assert f"pod web (127.0.0.1:{port} -> 8080): runs, ready" in told
                uid = read_state(node.states, "box")["pods"]["web"]["uid"]
                names = f"k8s.namespace.name=shop,k8s.pod.name=box-web,k8s.pod.uid={uid}"
                assert fetched(port) == f"web {names}\n"
                # 80 of 400 requests missed an objective of 99 %: the zone's service is pressed
                reading = lambda: (read_state(node.states, "box")["reading"] or {}).get("burn")  # noqa: E731
                assert eventually("the burn rate counts", reading, 60) == 20.0
                machine = node.qemu()
            # kill -9: the machine ends with its keeper, and the next one starts it again
            eventually("the machine ended with its keeper", lambda: not machine.exists())
            with keeper() as second:
                second.ready()
                entry = node.ready()
                assert "restarts" not in entry  # by the keeper, from what it stored
                assert node.qemu() != machine
                assert uid not in fetched(port)  # another start, another replica
                # a machine that ends by itself is started again by the agent, after a pause
                machine = node.qemu()
                os.kill(int(machine.name), signal.SIGKILL)
                assert eventually("the end is seen", lambda: node.entry()["state"] == "refused")
                node.later_s = LONGEST_PAUSE_S
                assert node.entry()["state"] == "starting"
                assert node.ready()["restarts"] == 1
                machine = node.qemu()
                del node.cluster.zones["box"]
                asyncio.run(node.live.follow())
                eventually("the machine is gone", lambda: not machine.exists())
                assert not is_open(port)
                assert [path.name for path in (node.states / "vm").iterdir()] == []
                assert not (node.states / "box.zone").exists()
    except BaseException:
        print("\n".join(entry["text"] for entry in read_log(tmp_path / "zones", "box", 80)))
        raise
