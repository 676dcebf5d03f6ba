"""metrics.k8s.io as a server's aggregation layer asks for it: what pods use is what a test says.

The server has to reach this machine's loopback address, as one on the same machine does.
"""

from __future__ import annotations

import datetime
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cotenant.drivers.http.certificates import ensure

GROUP = "/apis/metrics.k8s.io/v1beta1"
APISERVICES, NAME = "/apis/apiregistration.k8s.io/v1/apiservices", "v1beta1.metrics.k8s.io"
_KIND = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
Used = Callable[[str], Mapping[str, Mapping[str, str]]]  # of a namespace: by pod, by resource


def _answer(path: str, used: Used) -> dict[str, Any] | None:
    parts = path.removeprefix(GROUP).strip("/").split("/")
    if parts == [""]:
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1",
                "resources": [_KIND]}  # fmt: skip
    if len(parts) != 3 or (parts[0], parts[2]) != ("namespaces", "pods"):
        return None
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    items = [
        {
            "metadata": {"name": name, "namespace": parts[1]},
            "timestamp": now,
            "window": "1s",
            "containers": [{"name": "c", "usage": dict(usage)}],
        }
        for name, usage in used(parts[1]).items()
    ]
    return {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}


@contextmanager
def serving(folder: Path, used: Used) -> Iterator[int]:
    """On loopback, by TLS. Its port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer = _answer(urlsplit(self.path).path, used)
            body = json.dumps(answer or {"kind": "Status", "apiVersion": "v1", "code": 404}).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made = ensure(folder, ("localhost",), datetime.datetime.now(datetime.UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def registered(kube: Any, namespace: str, port: int) -> None:
    """The Service and the APIService by which a server finds it; the second is not in a namespace."""
    service = {"metadata": {"name": "pod-metrics"}, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    kube.create(f"/api/v1/namespaces/{namespace}/services", service)
    spec = {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": namespace, "name": "pod-metrics", "port": port},
    }
    kube.create(APISERVICES, {"metadata": {"name": NAME}, "spec": spec})
