"""A container runtime that speaks CRI over a socket of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from cotenant.drivers.cri.messages import SERVICE, messages


@dataclass
class FakeContainer:
    id: str
    sandbox: str
    name: str
    running: bool = True
    pid: int | None = None
    shares: int | None = None  # None: the runtime does not tell resources
    quota: int = 0
    memory: int = 0


@dataclass
class FakeSandbox:
    id: str
    uid: str
    name: str
    namespace: str = "default"
    ready: bool = True
    created_at: int = 1
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()
    of_node: bool = False


class FakeCri(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, folder: Path) -> None:
        self.socket = str(folder / "cri.sock")
        self.sandboxes: list[FakeSandbox] = []
        self.containers: list[FakeContainer] = []
        self.asked: list[str] = []
        self.failure: grpc.StatusCode | None = None
        self._server: Any = None

    def start(self) -> FakeCri:
        self._server = grpc.server(futures.ThreadPoolExecutor(2), handlers=(self,))
        self._server.add_insecure_port(f"unix://{self.socket}")
        self._server.start()
        return self

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None

    def service(self, details: Any) -> Any:
        method = details.method.removeprefix(f"/{SERVICE}/")
        answer: Callable[[Any, Any], Any] | None = getattr(self, f"answer_{method}", None)
        if answer is None:
            return None
        kinds = messages()

        def handle(request: Any, context: Any) -> Any:
            self.asked.append(method)
            if self.failure is not None:
                context.abort(self.failure, "as the test said")
            return answer(request, context)

        return grpc.unary_unary_rpc_method_handler(
            handle,
            request_deserializer=kinds[f"{method}Request"].FromString,
            response_serializer=kinds[f"{method}Response"].SerializeToString,
        )

    def answer_Version(self, request: Any, context: Any) -> Any:  # noqa: N802
        return messages()["VersionResponse"](runtime_name="fake", runtime_version="1")

    def answer_ListPodSandbox(self, request: Any, context: Any) -> Any:  # noqa: N802
        return messages()["ListPodSandboxResponse"](
            items=[
                {
                    "id": one.id,
                    "metadata": {"name": one.name, "uid": one.uid, "namespace": one.namespace},
                    "state": 0 if one.ready else 1,
                    "created_at": one.created_at,
                    "labels": {"io.kubernetes.pod.uid": one.uid, **one.labels},
                    "annotations": one.annotations,
                }
                for one in self.sandboxes
            ]
        )

    def answer_ListContainers(self, request: Any, context: Any) -> Any:  # noqa: N802
        return messages()["ListContainersResponse"](
            containers=[
                {
                    "id": one.id,
                    "pod_sandbox_id": one.sandbox,
                    "metadata": {"name": one.name},
                    "state": 1 if one.running else 2,
                }
                for one in self.containers
            ]
        )

    def answer_PodSandboxStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        one = next((sandbox for sandbox in self.sandboxes if sandbox.id == request.pod_sandbox_id), None)
        if one is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such sandbox")
        assert one is not None
        first, *others = one.addresses or ("",)
        return messages()["PodSandboxStatusResponse"](
            status={
                "id": one.id,
                "network": {"ip": first, "additional_ips": [{"ip": address} for address in others]},
                "linux": {"namespaces": {"options": {"network": 2 if one.of_node else 0}}},
            }
        )

    def answer_ContainerStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        one = next((container for container in self.containers if container.id == request.container_id), None)
        if one is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such container")
        assert one is not None
        status: dict[str, Any] = {"id": one.id, "state": 1}
        if one.shares is not None:
            linux = {"cpu_period": 100_000, "cpu_quota": one.quota, "cpu_shares": one.shares}
            status["resources"] = {"linux": {**linux, "memory_limit_in_bytes": one.memory}}
        info = {"info": json.dumps({"pid": one.pid})} if request.verbose and one.pid is not None else {}
        return messages()["ContainerStatusResponse"](status=status, info=info)
