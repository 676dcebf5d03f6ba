"""Asking a kubelet over its socket which devices it gave, one that does not answer included."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from threading import Event
from typing import Any

import pytest

pytest.importorskip("grpc")
import grpc
from tests.fakes.waiting import eventually, patience

from cotenant.drivers.kubelet.given_devices import (
    MAX_DEVICES,
    POD_RESOURCES,
    GivenDevices,
    KubeletDevices,
    devices_of_kubelet,
    messages,
)
from cotenant.model.errors import Transient

LONG_S = 600.0  # more than any test waits


class Kubelet(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The pod-resources API of devices by namespace, pod and resource."""

    def __init__(self, socket: Path) -> None:
        self.given: dict[tuple[str, str, str], list[str]] = {}
        self.offered: list[str] = []
        self.goes_on = Event()
        self.goes_on.set()
        self.failure: grpc.StatusCode | None = None
        self.asked = 0
        self._server = grpc.server(futures.ThreadPoolExecutor(2), handlers=(self,))
        self._server.add_insecure_port(f"unix://{socket}")
        self._server.start()

    def stop(self) -> None:
        self.goes_on.set()
        self._server.stop(None).wait()

    def service(self, details: Any) -> Any:
        kinds = messages()
        if details.method == "/v1.PodResourcesLister/GetAllocatableResources":
            return grpc.unary_unary_rpc_method_handler(
                self._offered,
                request_deserializer=kinds["GetAllocatableResourcesRequest"].FromString,
                response_serializer=kinds["GetAllocatableResourcesResponse"].SerializeToString,
            )
        assert details.method == "/v1.PodResourcesLister/List"
        return grpc.unary_unary_rpc_method_handler(
            self._list,
            request_deserializer=kinds["ListRequest"].FromString,
            response_serializer=kinds["ListResponse"].SerializeToString,
        )

    def _offered(self, request: object, context: Any) -> Any:
        answer = messages()["GetAllocatableResourcesResponse"]()
        for device in self.offered:
            answer.devices.add(resource_name="nvidia.com/gpu", device_ids=[device])
        return answer

    def _list(self, request: object, context: Any) -> Any:
        self.asked += 1
        self.goes_on.wait(patience(30.0))
        if self.failure is not None:
            context.abort(self.failure, "not now")
        answer = messages()["ListResponse"]()
        for (namespace, name, resource), devices in self.given.items():
            pod = answer.pod_resources.add(name=name, namespace=namespace)
            pod.containers.add(name="log")
            pod.containers.add(name="x").devices.add(resource_name=resource, device_ids=devices)
        return answer


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    made = Kubelet(tmp_path / "kubelet.sock")
    made.given["ml", "train", "nvidia.com/gpu"] = ["GPU-b", "GPU-a"]
    made.given["ml", "serve", "amd.com/gpu"] = ["0000:83:00.0"]
    yield made
    made.stop()


def asked(tmp_path: Path, patience_s: float = LONG_S, **more: Any) -> GivenDevices:
    return GivenDevices(tmp_path / "kubelet.sock", patience_s=patience_s, cards=(tmp_path,), **more)


ALL = (("0000:83:00.0", "ml/serve"), ("GPU-a", "ml/train"), ("GPU-b", "ml/train"))


def test_the_devices_of_all_containers(kubelet: Kubelet, tmp_path: Path) -> None:
    devices = asked(tmp_path)
    assert devices() == ALL
    del kubelet.given["ml", "train", "nvidia.com/gpu"]
    assert devices() == ALL[:1]


def test_nobody_is_asked_without_a_socket_or_without_a_card(kubelet: Kubelet, tmp_path: Path) -> None:
    assert GivenDevices(tmp_path / "nowhere.sock", cards=(tmp_path,))() == ()
    assert GivenDevices(tmp_path / "kubelet.sock", cards=(tmp_path / "nvidiactl",))() == ()
    assert kubelet.asked == 0


def test_a_kubelet_that_hangs_delays_nobody_and_its_last_answer_counts_for_a_while(
    kubelet: Kubelet, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    devices = asked(tmp_path, clock=lambda: now[0])
    assert devices() == ALL
    kubelet.goes_on.clear()
    devices._apart._patience_s = 0.0  # type: ignore[union-attr]
    for now[0] in (10.0, 20.0, 300.0):
        assert devices() == ALL
    now[0] = 301.0
    assert devices() == ()
    kubelet.goes_on.set()
    assert eventually("an answer", lambda: devices() or None, tolerated=()) == ALL


def test_one_that_refuses_is_said_once(kubelet: Kubelet, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    kubelet.failure = grpc.StatusCode.UNIMPLEMENTED
    devices = asked(tmp_path)
    assert [devices() for _ in range(3)] == [()] * 3
    assert len([record for record in caplog.records if "devices that the kubelet gave" in record.getMessage()]) == 1


def test_more_devices_than_any_machine_has_are_refused(kubelet: Kubelet, tmp_path: Path) -> None:
    kubelet.given["ml", "train", "nvidia.com/gpu"] = [f"GPU-{number}" for number in range(MAX_DEVICES)]
    assert asked(tmp_path)() == ()


def test_who_may_take_a_device_away_asks_now_and_is_told_what_is_offered_too(tmp_path: Path) -> None:
    assert devices_of_kubelet(tmp_path / "no-kubelet") == KubeletDevices()
    socket = tmp_path / POD_RESOURCES
    socket.parent.mkdir()
    with pytest.raises(Transient, match="which pods hold devices is not known: the kubelet at"):
        devices_of_kubelet(tmp_path, patience(2.0))
    kubelet = Kubelet(socket)
    kubelet.given["ml", "serve", "nvidia.com/mig-1g.10gb"] = ["MIG-b"]
    kubelet.offered = ["MIG-b", "MIG-a", "MIG-b"]
    try:
        found = devices_of_kubelet(tmp_path, patience(2.0))
        assert found == KubeletDevices((("MIG-b", "ml/serve"),), ("MIG-a", "MIG-b"))
        kubelet.failure = grpc.StatusCode.UNAVAILABLE
        with pytest.raises(Transient, match="is not known"):
            devices_of_kubelet(tmp_path, patience(2.0))
    finally:
        kubelet.stop()
