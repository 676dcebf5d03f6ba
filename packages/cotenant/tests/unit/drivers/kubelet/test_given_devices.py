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

from cotenant.drivers.kubelet.given_devices import MAX_DEVICES, GivenDevices, messages

LONG_S = 600.0  # more than any test waits


class Kubelet(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The pod-resources API of devices by namespace, pod and resource."""

    def __init__(self, socket: Path) -> None:
        self.given: dict[tuple[str, str, str], list[str]] = {}
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
        assert details.method == "/v1.PodResourcesLister/List"
        kinds = messages()
        return grpc.unary_unary_rpc_method_handler(
            self._list,
            request_deserializer=kinds["ListRequest"].FromString,
            response_serializer=kinds["ListResponse"].SerializeToString,
        )

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
