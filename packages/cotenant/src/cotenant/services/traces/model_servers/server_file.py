"""The file that says which model servers are read: by address, and by the labels of pods.

An address out of a tenant's object could be anything that this process reaches, so the operator names addresses, or
says whose pods serve, on which port and path. Replicas of a Deployment come and go under new addresses: `pods` finds
them by their labels in the service's own namespace, whose counts they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from cotenant.drivers.http.trust import TlsTrust
from cotenant.drivers.modelserver.access import ScrapeAccess
from cotenant.model.document import read_struct
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.spans import SpanSource
from cotenant.model.urls import split_url

MAX_SERVERS = 500
OPTION = "--model-servers"
_MAX_FILE_BYTES = 1 << 20


class ModelServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One replica. `service` is NAMESPACE/NAME; without `pod` no node can act for it."""

    service: str
    url: str
    pod: str = ""
    node: str = ""
    ca_file: str = ""
    token_file: str = ""
    server_name: str = ""

    @property
    def access(self) -> ScrapeAccess:
        """How it is reached."""
        return _access(self)

    @property
    def source(self) -> SpanSource:
        """As whose counts they are counted."""
        namespace, _, name = self.service.partition("/")
        pod = self.pod or urlsplit(self.url).netloc.rpartition("@")[2]
        return SpanSource(name, namespace, pod, host=self.node, pod_namespace=namespace, sender=namespace)


class ServingPods(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The pods with all of these labels, in the namespace of `service`, serve it on this port and path."""

    service: str
    labels: dict[str, str]
    port: int
    path: str = "/metrics"
    scheme: Literal["http", "https"] = "http"
    ca_file: str = ""
    token_file: str = ""
    server_name: str = ""

    @property
    def namespace(self) -> str:
        """Of the pods."""
        return self.service.partition("/")[0]

    def selects(self, labels: dict[str, str]) -> bool:
        """Whether a pod of the namespace with these labels is one."""
        return all(labels.get(name) == value for name, value in self.labels.items())

    def at(self, address: str) -> str:
        """The URL of a replica with this address."""
        host = f"[{address}]" if ":" in address else address
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    def server(self, address: str, pod: str, node: str) -> ModelServer:
        """The replica with this address."""
        return ModelServer(self.service, self.at(address), pod, node, self.ca_file, self.token_file, self.server_name)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    servers: list[ModelServer] = []
    pods: list[ServingPods] = []


@dataclass(frozen=True, slots=True)
class ModelServerFile:
    """What it says."""

    servers: tuple[ModelServer, ...] = ()
    pods: tuple[ServingPods, ...] = ()

    @property
    def services(self) -> frozenset[str]:
        """NAMESPACE/NAME of all that it names."""
        return frozenset(server.service for server in self.servers) | {pods.service for pods in self.pods}

    def __bool__(self) -> bool:
        return bool(self.servers or self.pods)


def read_model_servers(path: Path) -> ModelServerFile:
    """The file of `--model-servers`. Raises `InvalidInput`."""
    try:
        text = path.read_bytes() if path.stat().st_size <= _MAX_FILE_BYTES else b""
    except OSError as error:
        raise InvalidInput(OPTION, str(path), str(error.strerror or error)) from None
    expected = (
        "servers: a list of service, url, pod and node; pods: one of service, labels, port, path and scheme; "
        "both with caFile, tokenFile and serverName"
    )
    found = read_struct(_File, text, f"{OPTION} {path}", expected)
    if not 1 <= len(found.servers) + len(found.pods) <= MAX_SERVERS:
        raise InvalidInput(OPTION, f"{len(found.servers)} servers, {len(found.pods)} pods", f"1 to {MAX_SERVERS}")
    for service in (*(server.service for server in found.servers), *(pods.service for pods in found.pods)):
        namespace, slash, name = service.partition("/")
        if not (namespace and slash and name) or "/" in name:
            raise InvalidInput(f"{OPTION}: service", service, "NAMESPACE/NAME")
    for server in found.servers:
        if split_url(server.url) is None:
            raise InvalidInput(f"{OPTION}: url", server.url, "http://HOST:PORT/metrics")
    if len({server.url for server in found.servers}) < len(found.servers):
        raise InvalidInput(OPTION, str(path), "each url once")
    for pods in found.pods:
        if not pods.labels:
            raise InvalidInput(f"{OPTION}: labels", "{}", "at least one label", "without one every pod would serve")
        if not 1 <= pods.port <= 65535:
            raise InvalidInput(f"{OPTION}: port", pods.port, "1 to 65535")
        if not pods.path.startswith("/") or split_url(pods.at("10.0.0.1")) is None:
            raise InvalidInput(f"{OPTION}: path", pods.path, "a path such as /metrics")
    for server in found.servers:
        _check_access(server, server.url)
    for pods in found.pods:
        _check_access(pods, pods.at("10.0.0.1"))
    return ModelServerFile(tuple(found.servers), tuple(found.pods))


def _access(of: ModelServer | ServingPods) -> ScrapeAccess:
    return ScrapeAccess(
        Path(of.ca_file) if of.ca_file else None, Path(of.token_file) if of.token_file else None, of.server_name
    )


def _check_access(of: ModelServer | ServingPods, url: str) -> None:
    """Raises `InvalidInput` for files that cannot be read, and for what would have no effect or give a token away."""
    for field, value in (("caFile", of.ca_file), ("serverName", of.server_name), ("tokenFile", of.token_file)):
        if value and not url.startswith("https://"):
            hint = "without TLS anybody on the way could read a token" if field == "tokenFile" else ""
            raise InvalidInput(f"{OPTION}: {field}", value, "with https only", hint)
    access = _access(of)
    try:
        TlsTrust(access.ca_file, "caFile").context()
        access.token()
    except InvalidInput as error:
        raise error.of(OPTION) from None
