"""A `cotenant up` in a process of its own, and a client for its API.

Everything waits by polling a condition until a deadline. Processes are found by their parent and ended by their pid.
Linux (/proc).
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import pytest
from tests.fakes import waiting
from tests.fakes.servers import api_roles
from tests.fakes.waiting import patience
from tools.tree import python_path

T = TypeVar("T")
ENVIRONMENT = {**os.environ, "PYTHONPATH": python_path(), "PYTHONUNBUFFERED": "1"}
MERGE = "application/merge-patch+json"
READY_S = 180.0  # the first start on a machine compiles the kernels
LAST_WORDS = "Ctrl-C ends it"
AWAY = (OSError, http.client.HTTPException)  # no server answers


def eventually(what: str, found: Callable[[], T], within_s: float = 30.0, *, away: bool = False) -> T:
    """The first true value of `found`, asked twenty times a second; `away`: the server may be gone meanwhile."""
    return waiting.eventually(what, found, within_s, tolerated=AWAY if away else (), interval_s=0.05)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def command(pid: int) -> list[str]:
    """A process's arguments; [] when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except (FileNotFoundError, ProcessLookupError):
        return []


def run(*arguments: object, within_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    """A `cotenant` command to its end."""
    words = [sys.executable, "-m", "cotenant", *map(str, arguments)]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=patience(within_s), env=ENVIRONMENT, check=False
    )


class Refused(AssertionError):
    """The server rejected a request."""


class Client:
    """An API client by kubeconfig. It opens a connection per request, so it works across a restart of the server."""

    def __init__(self, kubeconfig: Path) -> None:
        text = kubeconfig.read_text()
        self.url = _field(text, "server")
        self.token = _field(text, "token")
        authority = base64.b64decode(_field(text, "certificate-authority-data")).decode()
        self._context = ssl.create_default_context(cadata=authority)

    def exchange(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", token: str | None = None
    ) -> tuple[int, Any]:
        """Status and document of one request."""
        where = urlsplit(self.url)
        assert where.hostname is not None
        connection = http.client.HTTPSConnection(
            where.hostname, where.port, timeout=patience(10), context=self._context
        )
        try:
            headers = {"authorization": f"Bearer {self.token if token is None else token}"}
            if body is not None:
                headers["content-type"] = content_type
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            raw = answer.read()
        finally:
            connection.close()
        is_whole = raw.startswith(b"{") and b"\n{" not in raw  # not a watch's lines
        return answer.status, json.loads(raw) if is_whole else raw

    def ok(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """The document of a request that must succeed."""
        status, document = self.exchange(method, path, body, content_type)
        if status >= 300:
            raise Refused(f"{method} {path}: {status} {document}")
        return document

    def get(self, path: str, **query: str) -> Any:
        return self.ok("GET", path + (f"?{urlencode(query)}" if query else ""))

    def items(self, path: str, **query: str) -> list[Any]:
        found: list[Any] = self.get(path, **query)["items"]
        return found

    def create(self, path: str, obj: dict[str, Any]) -> Any:
        return self.ok("POST", path, obj)

    def patch(self, path: str, body: Any) -> Any:
        return self.ok("PATCH", path, body, MERGE)

    def delete(self, path: str) -> Any:
        return self.ok("DELETE", path)

    def namespace(self, name: str) -> str:
        """A new namespace's pods."""
        self.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return f"/api/v1/namespaces/{name}/pods"

    def changes(self, path: str, since: str) -> list[Any]:
        """All watch events since a resourceVersion until now."""
        where = urlencode({"watch": "true", "resourceVersion": since, "timeoutSeconds": "1"})
        status, raw = self.exchange("GET", f"{path}?{where}")
        if status >= 300:
            raise Refused(f"watch {path}: {status} {raw}")
        text = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
        return [json.loads(line) for line in text.splitlines()]


class Story:
    """All watch events of a path since a resourceVersion. The server keeps those of some minutes: a case that may take
    longer looks at each of its steps.
    """

    def __init__(self, api: Client, path: str, since: str) -> None:
        self._api, self._path, self._since = api, path, since
        self._told: list[Any] = []

    def so_far(self) -> list[Any]:
        """Those until now."""
        self._told += (news := self._api.changes(self._path, self._since))
        if news:
            self._since = news[-1]["object"]["metadata"]["resourceVersion"]
        return self._told


class Up:
    """One `cotenant up`."""

    def __init__(self, directory: Path, *options: object, console: bool = False) -> None:
        """Without its console, which is one more process to start, unless the test is about that."""
        self.directory = directory
        self.output = directory.parent / f"{directory.name}.out"
        self.audit_log = directory.parent / f"{directory.name}.audit"
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "cotenant",
                    "up",
                    "--dir",
                    str(directory),
                    "--audit-log",
                    str(self.audit_log),
                    *map(str, options),
                    *([] if console else ["--no-console"]),
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=ENVIRONMENT,
            )
        self.pid = self.process.pid

    @property
    def said(self) -> str:
        """Its output so far."""
        return self.output.read_text()

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def ready(self) -> Client:
        """Wait until it reports that it is ready."""

        def is_ready() -> bool:
            assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.said}"
            return LAST_WORDS in self.said

        try:
            eventually("cotenant up is ready", is_ready, READY_S)
        except BaseException:
            self.kill()
            raise
        return Client(self.kubeconfig)

    def children(self) -> dict[str, int]:
        """The pids of its child processes, by name."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            words = command(int(path.name)) if parent == self.pid else []
            if len(words) > 3 and words[1:3] == ["-m", "cotenant"]:
                found[words[3]] = int(path.name)
        return found

    def page(self, what: str) -> str:
        """The metrics page of "scheduler" or "extender"."""
        found = re.search(r"metrics: (\S+)" if what == "scheduler" else r"extender: (\S+)", self.said)
        assert found is not None, self.said
        where = urlsplit(found[1])
        assert where.hostname is not None
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=patience(10))
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def asked(self, method: str, path: str, body: str = "", **headers: str) -> tuple[int, str]:
        """A page of the scheduler: what it has heard of by now."""
        where = urlsplit((self.directory / "scheduler-url").read_text().strip())
        assert where.hostname is not None
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=patience(10))
        try:
            named = {key.replace("_", "-"): value for key, value in headers.items()}
            connection.request(method, path, body or None, named)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def heard_of_cordon(self, node: str) -> bool:
        """Whether the scheduler knows that a node is cordoned. It hears of nodes and of pods by different watches."""
        status, text = self.asked("GET", f"/apis/v1/nodes/{node}")
        return status == 200 and bool(json.loads(text)["unschedulable"])

    def end(self, number: int = signal.SIGTERM, within_s: float = 30.0) -> int:
        """Signal it and return its exit status. Fails, and kills it, where it does not end in time or leaves
        children.
        """
        children = self.children()
        self.process.send_signal(number)
        try:
            status = self.process.wait(patience(within_s))
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end within {within_s:g} s:\n{self.said}") from None
        left = {name: pid for name, pid in children.items() if is_alive(pid)}
        assert not left, f"it left children: {left}"
        return status

    def kill(self) -> dict[str, int]:
        """kill -9. Returns the children that it had."""
        children = self.children()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.send_signal(signal.SIGCONT)
            self.process.wait()
        return children

    def __enter__(self) -> Up:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.end()
        if failure is None:
            api_roles.check(self.audit_log)


def kubectl(up: Up, *words: str, text: str | None = None, within_s: float = 90.0) -> str:
    """The output of a kubectl that must succeed. Skips the test where there is none."""
    binary = shutil.which("kubectl")
    if binary is None:
        pytest.skip("kubectl is not installed (Debian: apt-get install kubernetes-client)")
    environment = {**os.environ, "KUBECONFIG": str(up.kubeconfig), "HOME": str(up.directory.parent)}

    def answered() -> subprocess.CompletedProcess[str] | None:
        """None where it found the server too busy to greet it, for which it has a bound of its own."""
        done = subprocess.run(
            [binary, *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=patience(within_s),
            env=environment,
            check=False,
        )
        return None if done.returncode and "TLS handshake timeout" in done.stderr else done

    done = eventually(f"kubectl {words[0]} is answered", answered, within_s)
    assert done is not None
    assert done.returncode == 0, f"kubectl {' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def metric(page: str, name: str) -> float:
    """A sample of a metrics page, by its name with labels; 0 when absent."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else 0.0


def _field(text: str, name: str) -> str:
    found = re.search(rf"^\s*-?\s*{name}: *\"?([^\"\s]+)\"?$", text, re.MULTILINE)
    assert found is not None, f"no {name} in the kubeconfig"
    return found[1]
