"""A client of a container runtime over its socket.

Without the API server, only the runtime knows which pods and containers exist and their labels. Plain blocking calls
with a deadline, over one channel that is recreated after the runtime was unavailable; answers become values of our own.
The library is imported at first use.
Limits: CRI v1 (containerd from 1.6, CRI-O from 1.23). Without `call` it only reads.

Source: Kubernetes cri-api, pkg/apis/runtime/v1/api.proto; containerd's and CRI-O's verbose container status (`info`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from cotenant.drivers.cri.messages import CONTAINER_RUNNING, NETWORK_OF_NODE, SANDBOX_READY, SERVICE, messages
from cotenant.model.cluster.labels import Labels
from cotenant.model.errors import Permanent, Transient, Unsupported
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.model.machine.knob import Vanished

NEEDS = "a container runtime with CRI v1, and grpcio with protobuf"
_MAX_BYTES = 16 << 20  # of one answer, kubelet's own limit


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A pod sandbox of the runtime."""

    id: str
    uid: str
    namespace: str
    name: str
    ready: bool
    created_at_ns: int
    labels: Labels
    annotations: Labels


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A running container."""

    id: str
    sandbox_id: str
    name: str
    created_at_ns: int


@dataclass(frozen=True, slots=True)
class SandboxNetwork:
    """The source addresses of a pod's packets. On the node's own network it has none of its own."""

    addresses: tuple[str, ...]
    of_node: bool


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """A container's resources at its start, and its first process; None = not reported."""

    pid: int | None
    cpu_request_m: int | None
    cpu_limit_m: int | None
    memory_limit_bytes: int | None


class CriClient:
    """One runtime at `socket`. All methods raise `Transient` where it does not answer, `Unsupported` where it does
    not support CRI v1.
    """

    def __init__(self, socket: str, timeout_s: float = 5.0, kinds: Callable[[], JsonMapping] = messages) -> None:
        """`kinds`: the messages that are known."""
        self.socket = socket
        self._timeout_s = timeout_s
        self._kinds = kinds
        self._channel: Any = None
        self._grpc: Any = None
        self._calls: JsonObject = {}

    def close(self) -> None:
        """Close the socket; a later call connects again."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
            self._calls.clear()

    def version(self) -> str:
        """The runtime's name and version."""
        answer = self._call("Version")
        return f"{answer.runtime_name} {answer.runtime_version}"

    def sandboxes(self) -> tuple[Sandbox, ...]:
        """All pods, including finished ones."""
        return tuple(
            Sandbox(
                id=item.id,
                uid=item.metadata.uid,
                namespace=item.metadata.namespace,
                name=item.metadata.name,
                ready=item.state == SANDBOX_READY,
                created_at_ns=item.created_at,
                labels=Labels.of(dict(item.labels)),
                annotations=Labels.of(dict(item.annotations)),
            )
            for item in self._call("ListPodSandbox").items
        )

    def containers(self) -> tuple[RunningContainer, ...]:
        """The running containers."""
        return tuple(
            RunningContainer(item.id, item.pod_sandbox_id, item.metadata.name, item.created_at)
            for item in self._call("ListContainers").containers
            if item.state == CONTAINER_RUNNING
        )

    def network(self, sandbox_id: str) -> SandboxNetwork:
        """A pod's addresses. Raises `Vanished` where the runtime no longer knows it."""
        status = self._call("PodSandboxStatus", pod_sandbox_id=sandbox_id).status
        addresses = (status.network.ip, *(entry.ip for entry in status.network.additional_ips))
        of_node = status.linux.namespaces.options.network == NETWORK_OF_NODE
        return SandboxNetwork(() if of_node else tuple(address for address in addresses if address), of_node)

    def limits(self, container_id: str) -> ContainerLimits:
        """A container's limits and first process. Raises `Vanished` where the runtime no longer knows it."""
        answer = self._call("ContainerStatus", container_id=container_id, verbose=True)
        pid = _pid(dict(answer.info))
        if not answer.status.HasField("resources"):
            return ContainerLimits(pid, None, None, None)
        linux = answer.status.resources.linux
        request = (linux.cpu_shares * 1000 + 512) // 1024 if linux.cpu_shares > 2 else 0
        limit = linux.cpu_quota * 1000 // linux.cpu_period if linux.cpu_quota > 0 and linux.cpu_period > 0 else 0
        return ContainerLimits(pid, request, limit, max(0, linux.memory_limit_in_bytes))

    def call(self, method: str, service: str = SERVICE, timeout_s: float = 0.0, **fields: object) -> Any:
        """A call of the interface, with the fields of its request; `timeout_s` 0: the usual time."""
        return self._call(method, service, timeout_s, **fields)

    def _call(self, method: str, service: str = SERVICE, timeout_s: float = 0.0, **fields: object) -> Any:
        try:
            kinds = self._kinds()
            call = self._calls.get(method) or self._connect(method, service)
        except ImportError as error:
            raise Unsupported("pods by the container runtime", NEEDS) from error
        try:
            return call(kinds[f"{method}Request"](**fields), timeout=timeout_s or self._timeout_s)
        except self._grpc.RpcError as error:
            raise self._error(method, error) from error

    def _connect(self, method: str, service: str) -> Any:
        if self._channel is None:
            self._grpc = importlib.import_module("grpc")
            options = (
                ("grpc.max_receive_message_length", _MAX_BYTES),
                ("grpc.enable_http_proxy", 0),
                ("grpc.use_local_subchannel_pool", 1),  # else a new channel inherits the back-off of the old one
            )
            self._channel = self._grpc.insecure_channel(f"unix://{self.socket}", options=options)
        kinds = self._kinds()
        call = self._calls[method] = self._channel.unary_unary(
            f"/{service}/{method}",
            request_serializer=kinds[f"{method}Request"].SerializeToString,
            response_deserializer=kinds[f"{method}Response"].FromString,
        )
        return call

    def _error(self, method: str, error: Any) -> Exception:
        codes, what = self._grpc.StatusCode, f"{self.socket}: {method}: {error.details()}"
        match error.code():
            case codes.UNIMPLEMENTED:
                return Unsupported(f"{method} of {self.socket}", NEEDS)
            case codes.NOT_FOUND:
                return Vanished(what)
            case codes.PERMISSION_DENIED | codes.UNAUTHENTICATED:
                return Permanent(what)
            case codes.UNAVAILABLE:
                self.close()  # the next call reconnects at once: callers have their own period
                return Transient(what)
            case _:
                return Transient(what)


class _Info(msgspec.Struct, frozen=True):
    """The part of the verbose status that both containerd and CRI-O put under the key `info`."""

    pid: int = 0


def _pid(info: dict[str, str]) -> int | None:
    try:
        return msgspec.json.decode(info.get("info", ""), type=_Info).pid or None
    except (msgspec.DecodeError, UnicodeError):
        return None
