"""Containers of Docker as values, and what can be done with one."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from urllib.parse import quote

import msgspec

from cotenant.drivers.docker.client import DockerClient, InUse, NotThere
from cotenant.model.errors import Permanent
from cotenant.model.fleet.containers import FleetContainer, ListedContainer
from cotenant.model.fleet.template import ContainerTemplate, HealthCheck
from cotenant.model.json_object import JsonMapping, JsonObject

_EXITED = re.compile(r"Exited \((\d+)\)")
_GROUP = "cotenant.io/group"  # of a volume: the first group that named it
_PULL_S, _STOP_S = 600.0, 900.0


class DockerContainers:
    """The containers of one daemon, by name."""

    def __init__(self, docker: DockerClient) -> None:
        self._docker = docker

    async def capacity(self) -> tuple[int, int]:
        """CPUs in milli-CPU and memory in bytes of the daemon's host."""
        info = await self._docker.get("/info")
        return int(info["NCPU"]) * 1000, int(info["MemTotal"])

    async def list(self, label: str) -> tuple[ListedContainer, ...]:
        """All with this label (NAME=VALUE), also those that ended."""
        found = await self._docker.get(
            "/containers/json", {"all": "true", "filters": msgspec.json.encode({"label": [label]}).decode()}
        )
        return tuple(_listed(entry) for entry in found)

    async def changes(self, label: str) -> AsyncIterator[str]:
        """What happens to containers with this label, as it happens, until the daemon goes away (`Transient`)."""
        filters = msgspec.json.encode({"label": [label], "type": ["container"]}).decode()
        async for event in self._docker.lines("GET", "/events", {"filters": filters}):
            yield str(event.get("Action", ""))

    async def inspect(self, name: str) -> FleetContainer | None:
        """The container; None where there is none."""
        try:
            found = await self._docker.get(f"/containers/{quote(name)}/json")
        except NotThere:
            return None
        return _container(found)

    async def create(
        self, name: str, template: ContainerTemplate, environment: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        """Make it, not started. The image is pulled where it is not there. Raises `InUse` where the name is in use."""
        body = _body(template, environment, labels)
        await self._volumes(template, labels)
        try:
            await self._docker.post("/containers/create", body, {"name": name})
        except NotThere:
            await self._pull(template.image)
            await self._docker.post("/containers/create", body, {"name": name})

    async def start(self, name: str) -> None:
        """Start it; nothing where it runs."""
        await self._docker.post(f"/containers/{quote(name)}/start")

    async def stop(self, name: str) -> None:
        """SIGTERM, after the container's grace SIGKILL; nothing where it does not run or is not there."""
        try:
            await self._docker.post(f"/containers/{quote(name)}/stop", timeout_s=_STOP_S)
        except NotThere:
            return

    async def remove(self, name: str) -> None:
        """Remove it with its anonymous volumes; nothing where it is not there."""
        try:
            await self._docker.delete(f"/containers/{quote(name)}", {"force": "true", "v": "true"})
        except NotThere:
            return
        except InUse as error:
            if "already in progress" not in str(error):
                raise

    async def _volumes(self, template: ContainerTemplate, labels: Mapping[str, str]) -> None:
        """Those that are not there yet; one that is there is taken as it is."""
        for mount in template.mounts:
            if mount.is_external:
                try:
                    await self._docker.get(f"/volumes/{quote(mount.source)}")
                except NotThere:
                    raise Permanent(f"volume {mount.source} is external, and is not there on this host") from None
            elif mount.is_volume:
                await self._docker.post(
                    "/volumes/create", {"Name": mount.source, "Labels": {_GROUP: labels.get(_GROUP, "")}}
                )

    async def _pull(self, image: str) -> None:
        name, colon, tag = image.rpartition(":")
        if not colon or "/" in tag or "@" in image:
            name, tag = image, "" if "@" in image else "latest"
        parameters = {"fromImage": name, "tag": tag} if tag else {"fromImage": name}
        try:
            async for line in self._docker.lines("POST", "/images/create", parameters, _PULL_S):
                if "error" in line:
                    raise Permanent(str(line["error"]))
        except (NotThere, Permanent) as error:
            raise Permanent(f"image {image}: {error}") from error


def _listed(found: JsonMapping) -> ListedContainer:
    said = str(found.get("Status", ""))
    exited = _EXITED.search(said)
    health = next((word for word in ("unhealthy", "healthy") if f"({word})" in said), "")
    if "(health: starting)" in said:
        health = "starting"
    return ListedContainer(
        name=str(found["Names"][0]).lstrip("/") if found.get("Names") else str(found["Id"])[:12],
        id=str(found["Id"]),
        image=str(found.get("Image", "")),
        status=str(found.get("State", "")),
        health=health,
        exit_code=int(exited[1]) if exited else None,
        labels=found.get("Labels") or {},
    )


def _container(found: JsonMapping) -> FleetContainer:
    state = found["State"]
    health = state.get("Health") or {}
    log = health.get("Log") or [{}]
    log_configuration = (found.get("HostConfig") or {}).get("LogConfig") or {}
    return FleetContainer(
        name=str(found["Name"]).lstrip("/"),
        id=str(found["Id"]),
        image=str(found["Config"]["Image"]),
        status=str(state["Status"]),
        health=str(health.get("Status", "")).replace("none", ""),
        health_said=" ".join(str(log[-1].get("Output", "")).split())[:200],
        exit_code=int(state.get("ExitCode", 0)),
        error=str(state.get("Error", "")),
        pid=int(state.get("Pid", 0)),
        started_s=_seconds(str(state.get("StartedAt", ""))),
        restarts=int(found.get("RestartCount", 0)),
        out_of_memory=bool(state.get("OOMKilled", False)),
        log_path=str(found.get("LogPath") or log_configuration.get("Path") or ""),
        log_driver=str(log_configuration.get("Type", "")),
        labels=found["Config"].get("Labels") or {},
    )


def _seconds(text: str) -> float:
    """Docker writes nanoseconds, and year 1 for never."""
    if not text or text.startswith("0001-"):
        return 0.0
    whole, _, rest = text.partition(".")
    digits = re.match(r"\d*", rest)
    at = datetime.fromisoformat(whole.rstrip("Z") + "+00:00").timestamp()
    return at + (float(f"0.{digits[0]}") if digits and digits[0] else 0.0)


def _body(template: ContainerTemplate, environment: Mapping[str, str], labels: Mapping[str, str]) -> JsonObject:
    host: JsonObject = {"RestartPolicy": {"Name": template.restart, "MaximumRetryCount": template.max_restarts}}
    if template.network:
        host["NetworkMode"] = template.network
    if template.cpu_milli:
        host["CpuShares"] = max(2, template.cpu_milli * 1024 // 1000)
    if template.cpu_limit_milli:
        host["NanoCpus"] = template.cpu_limit_milli * 1_000_000
    if template.memory_limit_bytes:
        host["Memory"] = template.memory_limit_bytes
    body: JsonObject = {
        "Image": template.image,
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "Labels": dict(labels),
        "StopTimeout": template.stop_grace_s,
        "HostConfig": host,
    }
    if template.ports and template.network != "host":
        host["PortBindings"] = {
            f"{port.container}/{port.protocol}": [
                {"HostIp": other.address, "HostPort": str(other.host)}
                for other in template.ports
                if (other.container, other.protocol) == (port.container, port.protocol)
            ]
            for port in template.ports
        }
        body["ExposedPorts"] = {f"{port.container}/{port.protocol}": {} for port in template.ports}
    if template.mounts:
        host["Binds"] = [f"{mount.source}:{mount.target}" + ":ro" * mount.is_read_only for mount in template.mounts]
    if template.command:
        body["Cmd"] = list(template.command)
    if template.entrypoint:
        body["Entrypoint"] = list(template.entrypoint)
    if template.health is not None:
        body["Healthcheck"] = _health(template.health)
    return body


def _health(check: HealthCheck) -> JsonObject:
    return {
        "Test": list(check.test),
        "Interval": int(check.interval_s * 1e9),
        "Timeout": int(check.timeout_s * 1e9),
        "StartPeriod": int(check.start_period_s * 1e9),
        "Retries": check.retries,
    }
