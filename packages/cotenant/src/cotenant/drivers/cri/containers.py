"""Containers of a CRI runtime (containerd, CRI-O) without a kubelet: each alone in a pod of its name.

A pod is made before its container; one that has none yet, because its maker was killed, counts as a container that has
died, so that it is removed and made anew.
The runtime restarts nothing and runs no health checks: what these take is noted at the pod (`supervised`), and a
restart is one more container in it, an attempt, of which the last one counts.
Limits: ports of a container need the runtime's network (CNI) with its portmap. It tells no events: changes are looked
for.

Source: Kubernetes cri-api, pkg/apis/runtime/v1/api.proto.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from cotenant.drivers.cri.client import CriClient
from cotenant.drivers.cri.commands import CriCommands
from cotenant.drivers.cri.exec import CriExec
from cotenant.drivers.cri.making import IMAGES, making_messages
from cotenant.drivers.cri.messages import NETWORK_OF_NODE, SERVICE
from cotenant.drivers.cri.recipe import RECIPE, SUPERVISED, recipe_of
from cotenant.model.errors import CotenantError, Permanent, Transient
from cotenant.model.fleet.containers import FleetContainer, ListedContainer
from cotenant.model.fleet.template import ContainerTemplate
from cotenant.model.json_object import JsonObject
from cotenant.model.machine.knob import Vanished

NAMESPACE = "cotenant"
NAME, GRACE = "cotenant.io/name", "cotenant.io/stop-grace-s"  # labels of pods and containers
LOGS = Path("/var/log/cotenant/containers")
_CREATED, _RUNNING, _EXITED = range(3)
_STATUS = {_CREATED: "created", _RUNNING: "running", _EXITED: "exited"}
_CPU_PERIOD_US = 100_000
_PULL_S, _STOP_MARGIN_S, _POLL_S = 600.0, 30.0, 1.0
_PROTOCOLS = {"tcp": 0, "udp": 1, "sctp": 2}


class CriContainers:
    """Implements `ContainerRuntime`. `logs`: the folder for their files."""

    def __init__(self, socket: Path, logs: Path = LOGS, client: CriClient | None = None) -> None:
        self._client = client or CriClient(str(socket), kinds=making_messages)
        self._logs = logs
        self._commands = CriCommands(self._client)

    async def close(self) -> None:
        """As the Protocol."""
        self._client.close()

    async def capacity(self) -> tuple[int, int]:
        """As the Protocol: the runtime does not say, and runs on this host."""
        await self._ask("Version")
        return (os.cpu_count() or 1) * 1000, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    async def list(self, label: str) -> tuple[ListedContainer, ...]:
        """As the Protocol."""
        name, _, value = label.partition("=")
        pods, containers = await self._both({name: value})
        found = []
        for container in last_attempts(containers):
            status = await self._status(container.id)
            if status is not None:
                labels = dict(container.labels)
                code = int(status.exit_code) if status.state == _EXITED else None
                image = str(container.image.image)
                state = status_of(status)
                found.append(ListedContainer(labels.get(NAME, ""), container.id, image, state, "", code, labels))
        made = {container.pod_sandbox_id for container in containers}
        for pod in pods:
            if pod.id not in made:
                labels = dict(pod.labels)
                found.append(ListedContainer(labels.get(NAME, ""), pod.id, "", "dead", "", None, labels))
        return tuple(found)

    async def changes(self, label: str) -> AsyncIterator[str]:
        """As the Protocol."""
        before: dict[str, tuple[str, str]] | None = None
        while True:
            now = {listed.id: (listed.status, listed.health) for listed in await self.list(label)}
            if before is not None and now != before:
                yield "changed"
            before = now
            await asyncio.sleep(_POLL_S)

    async def inspect(self, name: str) -> FleetContainer | None:
        """As the Protocol."""
        pods, containers = await self._both({NAME: name})
        if not containers:
            return _without_container(name, pods[0]) if pods else None
        *earlier, last = sorted(containers, key=attempt_of)
        try:
            status = (await self._ask("ContainerStatus", container_id=last.id)).status
            pid = (await asyncio.to_thread(self._client.limits, last.id)).pid
        except Vanished:
            return None
        is_running = status.state == _RUNNING
        ended = await self._status(earlier[-1].id) if status.state != _EXITED and earlier else status
        return FleetContainer(
            name=name,
            id=str(status.id),
            image=str(status.image.image),
            status=status_of(status),
            health="",
            health_said="",
            exit_code=int((ended or status).exit_code),
            error=str((ended or status).message),
            pid=(pid or 0) if is_running else 0,
            started_s=status.started_at / 1e9,
            restarts=attempt_of(last),
            out_of_memory=(ended or status).reason == "OOMKilled",
            log_path=str(status.log_path),
            log_id=str(last.pod_sandbox_id),
            labels=dict(status.labels),
        )

    async def create(
        self, name: str, template: ContainerTemplate, environment: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        """As the Protocol."""
        volume = next((mount.source for mount in template.mounts if mount.is_volume), "")
        if volume:
            raise Permanent(f"volume {volume}: a runtime by CRI has no volumes of its own; mount a folder of the host")
        await self._image(template.image)
        own = {**labels, NAME: name, GRACE: str(template.stop_grace_s)}
        folder = self._logs / name
        recipe = recipe_of(template)
        if recipe is not None:
            own[SUPERVISED] = "true"
        pod = _pod(name, template, own, folder)
        container: JsonObject = {
            "metadata": {"name": template.appkey},
            "image": {"image": template.image, "user_specified_image": template.image},  # CRI-O refuses without
            "command": list(template.entrypoint),
            "args": list(template.command),
            "envs": [{"key": key, "value": value} for key, value in environment.items()],
            "mounts": [
                {"container_path": mount.target, "host_path": mount.source, "readonly": mount.is_read_only}
                for mount in template.mounts
            ],
            "labels": own,
            "log_path": f"{template.appkey}/0.log",
            "linux": {"resources": _resources(template)},
        }
        if recipe is not None:
            pod["annotations"] = {RECIPE: recipe.noted(pod, container)}
        (folder / template.appkey).mkdir(parents=True, exist_ok=True)
        self._hold(name).unlink(missing_ok=True)
        made = await self._made("RunPodSandbox", config=pod)
        await self._made("CreateContainer", pod_sandbox_id=made.pod_sandbox_id, config=container, sandbox_config=pod)

    async def start(self, name: str) -> None:
        """As the Protocol."""
        for container in (await self._both({NAME: name}))[1]:
            if container.state == _CREATED:
                await self._made("StartContainer", container_id=container.id)

    async def stop(self, name: str) -> None:
        """As the Protocol. Noted first, where it may be started again, so that it is not, whoever is killed when; where
        that cannot be written, its pod ends too.
        """
        pods, containers = await self._both({NAME: name})
        unnoted = []
        try:
            if any(SUPERVISED in pod.labels for pod in pods):
                self._hold(name).parent.mkdir(parents=True, exist_ok=True)
                self._hold(name).touch()
        except OSError:
            unnoted = [*pods]
        for container in containers:
            if container.state == _CREATED and attempt_of(container):
                await self._made("RemoveContainer", container_id=container.id)
                continue
            grace_s = int(dict(container.labels).get(GRACE, "10"))
            with suppress(Vanished):
                await self._ask("StopContainer", grace_s + _STOP_MARGIN_S, container_id=container.id, timeout=grace_s)
        for pod in unnoted:
            await self._made("StopPodSandbox", pod_sandbox_id=pod.id)

    async def remove(self, name: str) -> None:
        """As the Protocol."""
        for pod in (await self._both({NAME: name}))[0]:
            with suppress(Vanished):
                await self._ask("StopPodSandbox", _STOP_MARGIN_S, pod_sandbox_id=pod.id)
                await self._ask("RemovePodSandbox", _STOP_MARGIN_S, pod_sandbox_id=pod.id)

    async def command(self, container: str, command: Sequence[str], columns: int, rows: int) -> CriExec:
        """As the Protocol."""
        return await self._commands.open(container, command, columns, rows)

    def _hold(self, name: str) -> Path:
        """A file that is there once a container was asked to stop."""
        return self._logs / name / "stopped"

    async def _both(self, labels: Mapping[str, str]) -> tuple[Sequence[Any], Sequence[Any]]:
        """Pods and containers with these labels."""
        pods, containers = await asyncio.gather(
            self._ask("ListPodSandbox", filter={"label_selector": dict(labels)}),
            self._ask("ListContainers", filter={"label_selector": dict(labels)}),
        )
        return pods.items, containers.containers

    async def _status(self, container: str) -> Any:
        try:
            return (await self._ask("ContainerStatus", container_id=container)).status
        except Vanished:
            return None

    async def _image(self, image: str) -> None:
        found = await asyncio.to_thread(self._client.call, "ImageStatus", IMAGES, image={"image": image})
        if not found.image.id:
            try:
                await asyncio.to_thread(self._client.call, "PullImage", IMAGES, _PULL_S, image={"image": image})
            except CotenantError as error:
                raise Permanent(f"image {image}: {error}") from error

    async def _made(self, method: str, **fields: object) -> Any:
        """A call that changes something: where the runtime is there, its refusal is one."""
        try:
            return await self._ask(method, _STOP_MARGIN_S, **fields)
        except Transient as error:
            await self._ask("Version")
            raise Permanent(str(error)) from error

    async def _ask(self, method: str, timeout_s: float = 0.0, **fields: object) -> Any:
        return await asyncio.to_thread(partial(self._client.call, method, SERVICE, timeout_s, **fields))


def status_of(status: Any) -> str:
    """As Docker's words."""
    return _STATUS.get(status.state, "dead")


def attempt_of(container: Any) -> int:
    """How often the container of this pod was made before."""
    return int(container.metadata.attempt)


def last_attempts(containers: Sequence[Any]) -> Sequence[Any]:
    """One of each pod."""
    return tuple({container.pod_sandbox_id: container for container in sorted(containers, key=attempt_of)}.values())


def _pod(name: str, template: ContainerTemplate, labels: Mapping[str, str], folder: Path) -> JsonObject:
    network = NETWORK_OF_NODE if template.network == "host" else 0
    ports = [
        {
            "protocol": _PROTOCOLS.get(port.protocol, 0),
            "container_port": port.container,
            "host_port": port.host,
            "host_ip": port.address,
        }
        for port in template.ports
    ]
    return {
        "metadata": {"name": name, "uid": name, "namespace": NAMESPACE},
        "log_directory": str(folder),
        "port_mappings": [] if network else ports,
        "labels": dict(labels),
        "linux": {"security_context": {"namespace_options": {"network": network}}},
    }


def _resources(template: ContainerTemplate) -> JsonObject:
    found: JsonObject = {}
    if template.cpu_milli:
        found["cpu_shares"] = max(2, template.cpu_milli * 1024 // 1000)
    if template.cpu_limit_milli:
        found |= {"cpu_period": _CPU_PERIOD_US, "cpu_quota": template.cpu_limit_milli * _CPU_PERIOD_US // 1000}
    if template.memory_limit_bytes:
        found["memory_limit_in_bytes"] = template.memory_limit_bytes
    return found


def _without_container(name: str, pod: Any) -> FleetContainer:
    said = "its pod was made, and no container"
    return FleetContainer(
        name, pod.id, "", "dead", "", "", 0, said, 0, 0.0, 0, out_of_memory=False, labels=dict(pod.labels)
    )
