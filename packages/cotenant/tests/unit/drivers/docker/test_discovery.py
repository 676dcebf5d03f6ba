"""Docker's containers as pods of the node's agent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from cotenant.drivers.docker.client import DockerClient
from cotenant.drivers.docker.discovery import DockerPods
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import Transient
from cotenant.model.machine.node_pod import NodePod

QOS = "koordinator.sh/qosClass"


class Daemon:
    """Containers by id: labels, process, HostConfig, addresses."""

    def __init__(self) -> None:
        self.containers: dict[str, tuple[dict[str, str], int, dict[str, Any], str]] = {}
        self.gone: set[str] = set()  # listed still, and not there any more
        self.inspected: list[str] = []

    async def listed(self, _: web.Request) -> web.Response:
        return web.json_response(
            [
                {
                    "Id": id_,
                    "Names": [f"/{id_}"],
                    "Labels": labels,
                    "NetworkSettings": {"Networks": {"bridge": {"IPAddress": address}}},
                }
                for id_, (labels, _, _, address) in self.containers.items()
            ]
        )

    async def inspect(self, request: web.Request) -> web.Response:
        id_ = request.match_info["id"]
        self.inspected.append(id_)
        if id_ in self.gone:
            return web.json_response({"message": f"No such container: {id_}"}, status=404)
        _, pid, host, _ = self.containers[id_]
        return web.json_response({"Id": id_, "Name": f"/{id_}", "State": {"Pid": pid}, "HostConfig": host})


def discovered(daemon: Daemon, folder: Path, times: int = 1) -> dict[str, NodePod]:
    for _, pid, _, _ in daemon.containers.values():
        process = folder / "proc" / str(pid)
        process.mkdir(parents=True, exist_ok=True)
        (process / "cgroup").write_text(
            f"5:cpu,cpuacct:/docker/c{pid}\n0::/\n" if pid != 9 else "0::/../../elsewhere\n"
        )

    async def play() -> tuple[NodePod, ...]:
        application = web.Application()
        application.add_routes(
            [web.get("/v1.41/containers/json", daemon.listed), web.get("/v1.41/containers/{id}/json", daemon.inspect)]
        )
        runner = web.AppRunner(application)
        await runner.setup()
        await web.UnixSite(runner, str(folder / "sock")).start()
        client = DockerClient(folder / "sock")
        source = DockerPods(client, str(folder / "proc"))
        try:
            found: tuple[NodePod, ...] = ()
            for _ in range(times):
                found = await source.pods()
            return found
        finally:
            await client.close()
            await runner.cleanup()

    return {pod.name: pod for pod in asyncio.run(play())}


def test_class_tenant_and_objective_are_labels(tmp_path: Path) -> None:
    daemon = Daemon()
    web_labels = {
        "cotenant.io/group": "shop", "cotenant.io/appkey": "front", "cotenant.io/cpu-milli": "500",
        "cotenant.io/objective-p99-ms": "5", "cotenant.io/tenant": "sales", QOS: "LSR",
        "scheduling.koordinator.sh/resource-status": '{"cpuset": "0-1"}',
    }  # fmt: skip
    host = {"NanoCpus": 1_500_000_000, "CpuShares": 256, "Memory": 64 << 20, "MemoryReservation": 32 << 20}
    daemon.containers["web"] = (web_labels, 7, host, "172.17.0.2")
    daemon.containers["job"] = (
        {"com.docker.compose.project": "batch", "com.docker.compose.service": "sort", QOS: "BE"},
        8,
        {"CpuShares": 512, "CpuQuota": 20_000, "CpuPeriod": 0},
        "",
    )
    found = discovered(daemon, tmp_path)
    front, job = found["web"], found["job"]
    assert (front.key, front.qos, front.tenant, front.objective_p99_us) == ("shop/web", QoSClass.LSR, "sales", 5000)
    assert (front.group, front.workload, front.addresses) == ("docker/c7", "Container shop/front", ("172.17.0.2",))
    assert (front.own_cpus, front.host_application, front.is_named) == ((), True, True)
    (container,) = front.containers
    assert (container.cpu_request_m, container.cpu_limit_m) == (500, 1500)
    assert (container.memory_request_bytes, container.memory_limit_bytes) == (32 << 20, 64 << 20)
    assert (job.key, job.qos, job.workload, job.addresses) == ("batch/job", QoSClass.BE, "Container batch/sort", ())
    assert (job.containers[0].cpu_request_m, job.containers[0].cpu_limit_m) == (500, 200)


def test_a_container_without_labels_is_protected(tmp_path: Path) -> None:
    daemon = Daemon()
    daemon.containers["plain"] = ({}, 7, {}, "")
    found = discovered(daemon, tmp_path)["plain"]
    assert (found.key, found.qos, found.objective_p99_us) == ("docker/plain", QoSClass.LS, None)


def test_each_is_asked_once_and_those_without_a_group_are_left_out(tmp_path: Path) -> None:
    daemon = Daemon()
    daemon.containers.update(
        web=({}, 7, {}, ""),
        pod=({"io.kubernetes.pod.uid": "u"}, 8, {}, ""),  # its kubelet's
        elsewhere=({}, 9, {}, ""),  # outside of this process's cgroup namespace
        ending=({}, 0, {}, ""),
        gone=({}, 10, {}, ""),
    )
    daemon.gone.add("gone")
    assert set(discovered(daemon, tmp_path, times=3)) == {"web"}
    assert daemon.inspected.count("web") == 1
    assert "pod" not in daemon.inspected


def test_a_daemon_that_is_away_is_said(tmp_path: Path) -> None:
    async def play() -> None:
        client = DockerClient(tmp_path / "none")
        try:
            await DockerPods(client).pods()
        finally:
            await client.close()

    with pytest.raises(Transient, match="does not answer"):
        asyncio.run(play())
