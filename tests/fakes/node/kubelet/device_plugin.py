"""A device plugin for a real kubelet: registers devices by name, all healthy, and allows every allocation.

Source: Kubernetes, kubelet/pkg/apis/deviceplugin/v1beta1 (names and numbers of fields).
"""

from __future__ import annotations

import functools
from concurrent import futures
from pathlib import Path
from threading import Event
from typing import Any

import grpc

from cotenant.drivers.cri.messages import Fields, made_of
from cotenant.model.json_object import JsonMapping

_FIELDS: Fields = {
    "Empty": {},
    "RegisterRequest": {"version": (1, "string"), "endpoint": (2, "string"), "resource_name": (3, "string")},
    "DevicePluginOptions": {"pre_start_required": (1, "bool")},
    "Device": {"id": (1, "string"), "health": (2, "string")},
    "ListAndWatchResponse": {"devices": (1, "*Device")},
    "ContainerAllocateRequest": {"devices_ids": (1, "*string")},
    "AllocateRequest": {"container_requests": (1, "*ContainerAllocateRequest")},
    "ContainerAllocateResponse": {},
    "AllocateResponse": {"container_responses": (1, "*ContainerAllocateResponse")},
}


@functools.cache
def messages() -> JsonMapping:
    """The classes by name."""
    return made_of(_FIELDS)


class DevicePlugin(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Serves `devices` of `resource` in the kubelet's folder of device plugins. Stop it."""

    def __init__(self, folder: Path, resource: str, devices: list[str]) -> None:
        self._folder, self._resource, self._devices = folder, resource, devices
        self._ends = Event()
        self._server = grpc.server(futures.ThreadPoolExecutor(4), handlers=(self,))
        self._server.add_insecure_port(f"unix://{folder / 'tests.sock'}")
        self._server.start()

    def register(self) -> None:
        """Make the kubelet connect."""
        kinds = messages()
        with grpc.insecure_channel(f"unix://{self._folder / 'kubelet.sock'}") as channel:
            call = channel.unary_unary(
                "/v1beta1.Registration/Register",
                request_serializer=kinds["RegisterRequest"].SerializeToString,
                response_deserializer=kinds["Empty"].FromString,
            )
            call(
                kinds["RegisterRequest"](version="v1beta1", endpoint="tests.sock", resource_name=self._resource),
                timeout=60,
            )

    def stop(self) -> None:
        """Serve no more."""
        self._ends.set()
        self._server.stop(None).wait()

    def service(self, details: Any) -> Any:
        """The handler of a call."""
        method = details.method.rpartition("/")[2]
        kinds = messages()
        if method == "ListAndWatch":
            return grpc.unary_stream_rpc_method_handler(
                self._listed, kinds["Empty"].FromString, kinds["ListAndWatchResponse"].SerializeToString
            )
        if method == "Allocate":
            return grpc.unary_unary_rpc_method_handler(
                self._allocated, kinds["AllocateRequest"].FromString, kinds["AllocateResponse"].SerializeToString
            )
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: kinds["DevicePluginOptions"](),
            kinds["Empty"].FromString,
            kinds["DevicePluginOptions"].SerializeToString,
        )

    def _listed(self, request: object, context: object) -> Any:
        answer = messages()["ListAndWatchResponse"]()
        for device in self._devices:
            answer.devices.add(id=device, health="Healthy")
        yield answer
        self._ends.wait()

    def _allocated(self, request: Any, context: object) -> Any:
        answer = messages()["AllocateResponse"]()
        for _ in request.container_requests:
            answer.container_responses.add()
        return answer
