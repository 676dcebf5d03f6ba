"""One list of cases for every API server: always the local one, and the one named by COTENANT_TEST_KUBECONFIG.

Each case gets a client (`kube`), a namespace of its own, and, where it needs them, `kubectl` and a webhook server.
Nothing here may know which server it talks to, apart from what a case is told by `kube.is_local`.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import http.client
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import pytest
import yaml
from tests.fakes import waiting
from tests.fakes.servers import api_roles
from tests.fakes.waiting import patience

REAL = os.environ.get("COTENANT_TEST_KUBECONFIG", "")

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Response(NamedTuple):
    """A response. `json` is None if the body is not JSON."""

    code: int
    headers: dict[str, list[str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.json.get("message", ""))

    @property
    def reason(self) -> str:
        return str(self.json.get("reason", ""))

    def header(self, name: str) -> str:
        return ", ".join(self.headers.get(name.lower(), []))


class Refused(AssertionError):
    """A response that a case did not expect."""


class Watching:
    """An open watch, read line by line."""

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._answer = answer
        self.code = answer.status

    def next(self) -> dict[str, Any] | None:
        """The next event; None at the end of the stream."""
        line = self._answer.readline()
        return json.loads(line) if line else None

    def until(self, *types: str) -> list[dict[str, Any]]:
        """The next events, as many as requested."""
        found: list[dict[str, Any]] = []
        for _ in types:
            event = self.next()
            assert event is not None, f"the stream ended after {found}"
            found.append(event)
        assert [event["type"] for event in found] == list(types)
        return found

    def rest(self) -> list[dict[str, Any]]:
        """All events to the end of the stream."""
        found = []
        while (event := self.next()) is not None:
            found.append(event)
        return found

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Kube:
    """A small synchronous client. Paths are as in the API; a dict body is sent as JSON."""

    def __init__(self, kubeconfig: Path, *, is_local: bool) -> None:
        self.kubeconfig = kubeconfig
        self.is_local = is_local
        document = yaml.safe_load(kubeconfig.read_text())
        cluster = document["clusters"][0]["cluster"]
        user = document["users"][0]["user"]
        self.url = cluster["server"]
        self.token = user.get("token", "")
        if authority := cluster.get("certificate-authority-data"):
            self._context = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
        elif authority := cluster.get("certificate-authority"):
            self._context = ssl.create_default_context(cafile=authority)
        else:
            self._context = ssl._create_unverified_context()
        if user.get("client-certificate-data"):
            with tempfile.TemporaryDirectory() as folder:
                certificate, key = Path(folder, "crt"), Path(folder, "key")
                certificate.write_bytes(base64.b64decode(user["client-certificate-data"]))
                key.write_bytes(base64.b64decode(user["client-key-data"]))
                self._context.load_cert_chain(certificate, key)
        self._idle: http.client.HTTPConnection | None = None

    def now(self) -> str:
        """The time as the API writes it."""
        return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

    @property
    def trusting(self) -> ssl.SSLContext:
        """Trusts the server's certificate, and presents the client's where the kubeconfig has one."""
        return self._context

    def connect(self, timeout_s: float = 30.0) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=patience(timeout_s))
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=patience(timeout_s), context=self._context
        )

    def _headers(self, extra: dict[str, str]) -> dict[str, str]:
        headers = {"accept": "application/json", "user-agent": "kube-cases/1", **extra}
        if self.token:
            headers.setdefault("authorization", f"Bearer {self.token}")
        return {name: value for name, value in headers.items() if value}

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
        **query: str,
    ) -> Response:
        """Send one request and return the response, whatever its code."""
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        sent = self._headers({**({"content-type": content_type} if raw is not None else {}), **(headers or {})})
        target = path + ("?" + urlencode(query, quote_via=quote) if query else "")
        for attempt in range(2):
            connection = self._idle or self.connect()
            self._idle = None
            try:
                connection.request(method, target, raw, sent)
                answer = connection.getresponse()
                content = answer.read()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                connection.close()
                if attempt:
                    raise
                continue
            if answer.will_close:
                connection.close()
            else:
                self._idle = connection
            found: dict[str, list[str]] = {}
            for name, value in answer.getheaders():
                found.setdefault(name.lower(), []).append(value)
            return Response(answer.status, found, content)
        raise AssertionError("unreachable")

    def ok(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Send a request that must succeed. Returns the decoded document."""
        answer = self.request(method, path, body, **options)
        if answer.code >= 300:
            raise Refused(f"{method} {path}: {answer.code} {answer.body[:500]!r}")
        return answer.json

    def get(self, path: str, **query: str) -> Any:
        return self.ok("GET", path, **query)

    def create(self, path: str, obj: dict[str, Any], **query: str) -> Any:
        return self.ok("POST", path, obj, **query)

    def patch(self, path: str, body: Any, content_type: str = MERGE, **query: str) -> Any:
        return self.ok("PATCH", path, body, content_type=content_type, **query)

    def delete(self, path: str, body: Any = None, **query: str) -> Any:
        return self.ok("DELETE", path, body, **query)

    def watch(self, path: str, *, accept: str = "application/json", **query: str) -> Watching:
        """Open a watch. It ends after `timeoutSeconds` (two minutes by default)."""
        query.setdefault("timeoutSeconds", "120")
        connection = self.connect()
        target = path + "?" + urlencode({"watch": "true", **query}, quote_via=quote)
        connection.request("GET", target, headers=self._headers({"accept": accept}))
        return Watching(connection, connection.getresponse())

    def eventually(self, path: str, holds: Callable[[Any], bool], timeout_s: float = 30.0, **query: str) -> Any:
        """Read until a condition holds: the effect of a controller or another thread of the server."""

        def found() -> Any:
            answer = self.request("GET", path, **query)
            document = answer.json if answer.body.startswith(b"{") else {"code": answer.code}
            return (document,) if holds(document) else None

        return waiting.eventually(path, found, timeout_s, interval_s=0.05)[0]


class _Local:
    """The local server, in a thread with its own event loop."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.audit_log = folder / "audit"
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="api server", daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(patience(30)), "the local server does not start"
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        if self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(patience(15))

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._failure = error
            self._started.set()
            raise

    async def _serve(self) -> None:
        from cotenant.drivers.http.certificates import ensure
        from cotenant.drivers.http.private_files import write_private
        from cotenant.drivers.http.tls import Tls
        from cotenant.drivers.http.tokens import new_token
        from cotenant_local.apiserver.admission.webhooks import attach
        from cotenant_local.apiserver.assembly import assemble
        from cotenant_local.apiserver.custom.serving import CustomKinds
        from cotenant_local.apiserver.http.app import ApiServerApp
        from cotenant_local.apiserver.http.audit import AuditLog
        from cotenant_local.apiserver.http.auth import Credentials, kubeconfig
        from cotenant_local.apiserver.http.server import ApiServer
        from cotenant_local.apiserver.storage.store import Store

        self._stop = asyncio.Event()
        api = assemble(Store(), taints_new_nodes=False)
        await api.bootstrap()
        kinds = CustomKinds(api)
        api.admission.append(kinds)
        await kinds.start()
        webhooks = attach(api)
        token = new_token()
        now = datetime.datetime.now(datetime.UTC)
        certificates = ensure(self._folder / "tls", ("127.0.0.1",), now)
        audit = AuditLog(self.audit_log)
        app = ApiServerApp(api, Credentials(token), audit=audit)
        server = ApiServer(app, tls=Tls(certificates.certificate, certificates.key))
        await server.start()
        text = kubeconfig(server.url, token, ca_pem=certificates.authority_pem)
        write_private(self.kubeconfig, text)
        self._started.set()
        await self._stop.wait()
        await server.stop()
        audit.close()
        await kinds.stop()
        await webhooks.close()
        await api.close()


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    server = _Local(tmp_path_factory.mktemp("apiserver"))
    server.start()
    yield Kube(server.kubeconfig, is_local=True)
    server.stop()
    api_roles.check(server.audit_log)


@pytest.fixture(scope="session", params=["local", *(["real"] if REAL else [])])
def kube(request: pytest.FixtureRequest) -> Kube:
    """The server under test."""
    if request.param == "local":
        found: Kube = request.getfixturevalue("local")
        return found
    return Kube(Path(REAL), is_local=False)


@pytest.fixture
def namespace(kube: Kube) -> Iterator[str]:
    """A namespace for this case."""
    name = f"case-{uuid.uuid4().hex[:8]}"
    kube.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    kube.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture
def configs(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
def node(kube: Kube) -> Iterator[str]:
    """A ready node for this case."""
    name = f"node-{uuid.uuid4().hex[:8]}"
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    status = {"conditions": [ready], "capacity": capacity, "allocatable": capacity}
    kube.create(
        "/api/v1/nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": status}
    )
    # a server taints new nodes as not ready, and the controller that would take that back need not be there
    kube.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
    yield name
    kube.request("DELETE", f"/api/v1/nodes/{name}")


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """A small pod."""
    metadata = {"name": name, "labels": {"app": name}}
    containers = [{"name": "c", "image": "registry.example/app:1"}]
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": containers, **spec}}


@pytest.fixture
def make_pod() -> Callable[..., dict[str, Any]]:
    return pod


class Kubectl:
    """Runs kubectl against the server under test."""

    def __init__(self, binary: str, kubeconfig: Path, namespace: str, home: Path) -> None:
        self._binary = binary
        self._namespace = namespace
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(home),
            "KUBECACHEDIR": str(home / "cache"),
        }

    def run(
        self, *words: str, text: str | None = None, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [self._binary, "--namespace", self._namespace, *words]
        env = {**self._environment, **(environment or {})}
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=patience(60), env=env, check=False
        )

    def __call__(self, *words: str, text: str | None = None, environment: dict[str, str] | None = None) -> str:
        """Run a command that must succeed. Returns its output."""
        done = self.run(*words, text=text, environment=environment)
        assert done.returncode == 0, f"kubectl {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [self._binary, "--namespace", self._namespace, *words]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self._environment
        )


def binaries() -> list[str]:
    """The kubectl on the path, and those named by COTENANT_TEST_KUBECTL (separated by colons)."""
    named = [one for one in os.environ.get("COTENANT_TEST_KUBECTL", "").split(":") if one]
    return [*([found] if (found := shutil.which("kubectl")) else []), *named] or [""]


@pytest.fixture(params=binaries(), ids=lambda binary: "kubectl" if "/tmp" not in binary else "other kubectl")
def kubectl(
    request: pytest.FixtureRequest, kube: Kube, namespace: str, tmp_path_factory: pytest.TempPathFactory
) -> Kubectl:
    """kubectl in this case's namespace."""
    if not request.param:
        pytest.skip("kubectl is not installed (Debian: apt-get install kubernetes-client)")
    return Kubectl(request.param, kube.kubeconfig, namespace, tmp_path_factory.getbasetemp())


Answering = Callable[[dict[str, Any]], Any]


class Hook:
    """A webhook server on loopback. `answer` takes the AdmissionReview and returns a document, bytes, or a status
    code.
    """

    def __init__(self, folder: Path) -> None:
        from cotenant.drivers.http.certificates import ensure

        self.asked: list[dict[str, Any]] = []
        self.answer: Answering = lambda review: allow(review)
        hook = self
        certificates = ensure(folder, ("127.0.0.1", "hook.cases.svc"), datetime.datetime.now(datetime.UTC))
        self.ca_bundle = base64.b64encode(certificates.authority_pem).decode()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["content-length"])))
                hook.asked.append(review)
                answer = hook.answer(review)
                code = answer if isinstance(answer, int) else 200
                body = (
                    answer
                    if isinstance(answer, bytes)
                    else b""
                    if isinstance(answer, int)
                    else json.dumps(answer).encode()
                )
                self.send_response(code)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.certificate, certificates.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"https://127.0.0.1:{self.port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @staticmethod
    def allow(review: dict[str, Any], **more: Any) -> dict[str, Any]:
        """A response that allows the request."""
        return allow(review, **more)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def allow(review: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A response that allows the request."""
    response = {"uid": review["request"]["uid"], "allowed": True, **more}
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[Hook]:
    server = Hook(tmp_path / "hook")
    yield server
    server.stop()
