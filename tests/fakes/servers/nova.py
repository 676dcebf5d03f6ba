"""A cloud's identity and compute APIs as their references describe them, in memory: what openstacksdk asks for.

Each look at a server takes what is being done to it one step on.
Source: OpenStack Identity API v3 and Compute API reference.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

PAGE = 2  # the cloud's own maximum of servers a page
FLAVORS = {"1": ("m1.small", 1, 2048), "2": ("m1.large", 4, 8192)}
_ENDS = {
    "os-start": ("SHUTOFF", "powering-on", {"status": "ACTIVE"}),
    "os-stop": ("ACTIVE", "powering-off", {"status": "SHUTOFF"}),
    "pause": ("ACTIVE", "pausing", {"status": "PAUSED"}),
    "unpause": ("PAUSED", "unpausing", {"status": "ACTIVE"}),
}


class Nova:
    """The cloud. `servers` by id, as Nova writes them."""

    def __init__(self) -> None:
        self.url = ""
        self.servers: dict[str, dict[str, Any]] = {}
        self.groups: list[dict[str, Any]] = []
        self.gives_up = False  # on migrations and resizes: the server is as before
        self._due: dict[str, dict[str, Any]] = {}
        self._clock = 0

    def server(self, uid: str, name: str, status: str = "ACTIVE", *, flavor: str = "1", **more: Any) -> None:
        self.servers[uid] = {
            "id": uid, "name": name, "tenant_id": "project", "status": status, "OS-EXT-STS:task_state": None,
            "OS-EXT-SRV-ATTR:host": "host-a", "flavor": _flavor(flavor), "metadata": {}, "updated": self._now(), **more,
        }  # fmt: skip

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        parts = urlsplit(target)
        match [word for word in parts.path.split("/") if word]:
            case ["identity", "v3", "auth", "tokens"]:
                return 201, self._token()
            case ["identity"] | ["identity", "v3"]:
                links = [{"rel": "self", "href": f"{self.url}/identity/v3"}]
                version = {"id": "v3.14", "status": "stable", "links": links}
                return 200, {"version": version}
            case ["compute"] | ["compute", "v2.1"]:
                link = {"rel": "self", "href": f"{self.url}/compute/v2.1"}
                version = {"id": "v2.1", "status": "CURRENT", "version": "2.95", "min_version": "2.1", "links": [link]}
                return 200, {"version": version}
            case ["compute", "v2.1", "servers", "detail"]:
                return 200, self._page(parse_qs(parts.query))
            case ["compute", "v2.1", "flavors"]:
                return 200, {"flavors": [{"id": uid, "name": flavor[0]} for uid, flavor in FLAVORS.items()]}
            case ["compute", "v2.1", "os-server-groups"]:
                return 200, {"server_groups": self.groups}
            case ["compute", "v2.1", "servers", uid, "action"]:
                return self._act(self.servers[uid], body)
            case ["compute", "v2.1", "servers", uid, "metadata"]:
                self.servers[uid]["metadata"].update(body["metadata"])
                return 200, {}
            case ["compute", "v2.1", "servers", uid, "metadata", key]:
                del self.servers[uid]["metadata"][key.replace("%3A", ":")]
                return 204, None
        return 404, {"itemNotFound": {"message": f"{target} is not there", "code": 404}}

    def _page(self, query: dict[str, list[str]]) -> dict[str, Any]:
        rows = [dict(server) for server in self.servers.values()]
        for uid, change in self._due.items():  # what this look does not show yet
            self.servers[uid].update({**change, "OS-EXT-STS:task_state": None, "updated": self._now()})
        self._due = {}
        if "marker" in query:
            rows = rows[[row["id"] for row in rows].index(query["marker"][0]) + 1 :]
        page: dict[str, Any] = {"servers": rows[:PAGE]}
        if len(rows) > PAGE:
            page["servers_links"] = [{"rel": "next", "href": f"{self.url}/?marker={rows[PAGE - 1]['id']}"}]
        return page

    def _act(self, server: dict[str, Any], body: dict[str, Any]) -> tuple[int, Any]:
        ((action, value),) = body.items()
        if action in _ENDS:
            needs, task, change = _ENDS[action]
            if server["status"] != needs:
                return 409, self._conflict(action, server)
        elif action == "reboot" and value["type"] == "SOFT" and server["status"] != "ACTIVE":
            return 409, self._conflict(action, server)
        elif action == "reboot":
            task, change = "rebooting", {"status": "ACTIVE"}
            server["status"] = "REBOOT"
        elif action == "os-migrateLive":
            task, change = "migrating", {"status": "ACTIVE", "OS-EXT-SRV-ATTR:host": "host-b"}
            server["status"] = "MIGRATING"
        elif action == "resize":
            task, change = "resize_migrating", {"status": "VERIFY_RESIZE", "flavor": _flavor(value["flavorRef"])}
            server["status"] = "RESIZE"
        elif action == "confirmResize" and server["status"] == "VERIFY_RESIZE":
            server["status"] = "ACTIVE"
            return 204, None
        else:
            return 409, self._conflict(action, server)
        if self.gives_up:
            change = {"status": "ACTIVE"}
        server["OS-EXT-STS:task_state"] = task
        self._due[server["id"]] = change
        return 202, None

    @staticmethod
    def _conflict(action: str, server: dict[str, Any]) -> Any:
        said = f"Cannot '{action}' instance {server['id']} while it is in vm_state {server['status'].lower()}"
        return {"conflictingRequest": {"code": 409, "message": said}}

    def _token(self) -> Any:
        def service(kind: str, url: str) -> dict[str, Any]:
            endpoint = {"interface": "public", "region": "r", "region_id": "r", "url": url, "id": kind}
            return {"type": kind, "name": kind, "id": kind, "endpoints": [endpoint]}

        catalog = [service("identity", f"{self.url}/identity"), service("compute", f"{self.url}/compute/v2.1")]
        project = {"id": "project", "name": "demo", "domain": {"id": "default", "name": "Default"}}
        user = {"id": "user", "name": "demo", "domain": {"id": "default", "name": "Default"}}
        times = {"issued_at": "2026-01-01T00:00:00.000000Z", "expires_at": "2099-01-01T00:00:00.000000Z"}
        return {"token": {"methods": ["password"], "user": user, "project": project, "catalog": catalog, **times}}

    def _now(self) -> str:
        self._clock += 1
        return f"2026-01-01T00:{self._clock // 60:02}:{self._clock % 60:02}Z"


def _flavor(uid: str) -> dict[str, Any]:
    name, vcpus, ram = FLAVORS[uid]
    return {"original_name": name, "vcpus": vcpus, "ram": ram}


@contextmanager
def cloud(folder: Path) -> Iterator[Nova]:
    """The cloud, and a clouds.yaml in `folder` that calls it `test`."""
    nova = Nova()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            code, found = nova.answer(self.command, self.path, body)
            content = b"" if found is None else json.dumps(found).encode()
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.send_header("x-subject-token", "token")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    nova.url = f"http://127.0.0.1:{server.server_address[1]}"
    auth = {"auth_url": f"{nova.url}/identity", "username": "demo", "password": "secret", "project_name": "demo",
            "user_domain_name": "Default", "project_domain_name": "Default"}  # fmt: skip
    (folder / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"test": {"auth": auth, "region_name": "r"}}}))
    try:
        yield nova
    finally:
        server.shutdown()
        server.server_close()
