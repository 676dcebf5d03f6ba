"""The part of Docker's Engine API that a fleet's agent uses, with containers that only pretend to run.

`fails` names what is refused, as ("start", "web"): an action on containers of that appkey. `starts` counts what really
began to run.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

APPKEY = "cotenant.io/appkey"


class FakeDocker:
    """One daemon behind a socket."""

    def __init__(self, socket: Path, images: tuple[str, ...] = ("image",)) -> None:
        self.socket = socket
        self.images = set(images)
        self.containers: dict[str, dict[str, Any]] = {}
        self.starts: Counter[str] = Counter()
        self.fails: set[tuple[str, str]] = set()
        self.unhealthy: set[str] = set()  # appkeys
        self.volumes: dict[str, dict[str, str]] = {}  # labels by name
        self.lists = 0  # that were asked for
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> FakeDocker:
        application = web.Application()
        application.add_routes(
            [
                web.get("/v1.41/info", self._info),
                web.get("/v1.41/events", self._events),
                web.get("/v1.41/containers/json", self._list),
                web.get("/v1.41/containers/{name}/json", self._inspect),
                web.post("/v1.41/containers/create", self._create),
                web.post("/v1.41/containers/{name}/start", self._start),
                web.post("/v1.41/containers/{name}/stop", self._stop),
                web.delete("/v1.41/containers/{name}", self._remove),
                web.post("/v1.41/images/create", self._pull),
                web.post("/v1.41/volumes/create", self._create_volume),
                web.get("/v1.41/volumes/{name}", self._volume),
            ]
        )
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self.socket)).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def running(self) -> set[str]:
        """Appkeys of what runs."""
        return {
            container["labels"][APPKEY] for container in self.containers.values() if container["status"] == "running"
        }

    async def end(self, appkey: str, exit_code: int, *, is_listed_late: bool = False) -> None:
        """A container ends by itself. `is_listed_late`: the list that its event brings still has it as it was."""
        lists = self.lists
        if is_listed_late:
            await self._tell()
            while self.lists == lists:
                await asyncio.sleep(0.01)
        for container in self.containers.values():
            if container["labels"][APPKEY] == appkey:
                container.update(status="exited", exit_code=exit_code)
        if not is_listed_late:
            await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _info(self, _: web.Request) -> web.Response:
        return web.json_response({"NCPU": 4, "MemTotal": 8 << 30})

    async def _events(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            async with self._changed:
                await self._changed.wait()
            await answer.write(b'{"Action":"change"}\n')

    async def _list(self, request: web.Request) -> web.Response:
        self.lists += 1
        (label,) = json.loads(request.query["filters"])["label"]
        name, _, value = label.partition("=")
        return web.json_response(
            [
                {
                    "Names": ["/" + key],
                    "Id": container["id"],
                    "Image": container["image"],
                    "State": container["status"],
                    "Status": f"Exited ({container['exit_code']}) now" if container["status"] == "exited" else "Up",
                    "Labels": container["labels"],
                }
                for key, container in self.containers.items()
                if container["labels"].get(name) == value
            ]
        )

    async def _inspect(self, request: web.Request) -> web.Response:
        found = self.containers.get(request.match_info["name"])
        if found is None:
            return _error(404, "No such container")
        health = "unhealthy" if found["labels"].get(APPKEY) in self.unhealthy else found["health"]
        return web.json_response(
            {
                "Id": found["id"],
                "Name": "/" + request.match_info["name"],
                "RestartCount": 0,
                "Config": {"Image": found["image"], "Labels": found["labels"]},
                "State": {
                    "Status": found["status"],
                    "ExitCode": found["exit_code"],
                    "Pid": 4242 if found["status"] == "running" else 0,
                    "StartedAt": found["started"],
                    "Health": {"Status": health, "Log": [{"Output": "said so"}]},
                },
            }
        )

    async def _create(self, request: web.Request) -> web.Response:
        name, body = request.query["name"], await request.json()
        if name in self.containers:
            return _error(409, f"Conflict. The container name {name} is already in use")
        if body["Image"] not in self.images:
            return _error(404, f"No such image: {body['Image']}")
        appkey = body["Labels"].get(APPKEY, "")
        if ("create", appkey) in self.fails:
            return _error(500, "create is broken")
        self.containers[name] = {
            "id": f"{len(self.starts):08d}{name.encode().hex()}"[:64],
            "image": body["Image"],
            "labels": body["Labels"],
            "environment": dict(entry.partition("=")[::2] for entry in body["Env"]),
            "host": body["HostConfig"],
            "status": "created",
            "health": "healthy",
            "exit_code": 0,
            "started": "0001-01-01T00:00:00Z",
        }
        await self._tell()
        return web.json_response({"Id": self.containers[name]["id"]}, status=201)

    async def _create_volume(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.volumes.setdefault(body["Name"], body["Labels"])
        return web.json_response({"Name": body["Name"]}, status=201)

    async def _volume(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        return web.json_response({"Name": name}) if name in self.volumes else _error(404, f"get {name}: no such volume")

    async def _start(self, request: web.Request) -> web.Response:
        found = self.containers.get(request.match_info["name"])
        if found is None:
            return _error(404, "No such container")
        if ("start", found["labels"][APPKEY]) in self.fails:
            return _error(500, "start is broken")
        if found["status"] == "running":
            return web.Response(status=304)
        found.update(status="running", started=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z"))
        self.starts[found["labels"][APPKEY]] += 1
        await self._tell()
        return web.Response(status=204)

    async def _stop(self, request: web.Request) -> web.Response:
        found = self.containers.get(request.match_info["name"])
        if found is None:
            return _error(404, "No such container")
        if ("stop", found["labels"][APPKEY]) in self.fails:
            return _error(500, "stop is broken")
        if found["status"] == "running":
            found.update(status="exited", exit_code=143)
        await self._tell()
        return web.Response(status=204)

    async def _remove(self, request: web.Request) -> web.Response:
        found = self.containers.pop(request.match_info["name"], None)
        await self._tell()
        return web.Response(status=204) if found is not None else _error(404, "No such container")

    async def _pull(self, request: web.Request) -> web.Response:
        return web.Response(text=json.dumps({"error": f"{request.query['fromImage']} is not to be had"}) + "\n")


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"message": message}, status=status)
