"""The simulated DRA drivers on the local server: what they publish, and again when it changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes.waiting import soon
from tests.fault.local_controllers.test_running import Cluster, serve

from cotenant.model.cluster.annotations import UNHEALTHY_DEVICES
from cotenant.model.errors import InvalidInput
from cotenant_local.apiserver.contract import MERGE
from cotenant_local.controllers.runtime.actions import DEVICE_CLASSES, NODES, RESOURCE_SLICES
from cotenant_local.nodes.devices.driver import SimulatedDrivers
from cotenant_local.nodes.devices.shapes import DeviceShape, gpus, pool_of, read_shape

PARTS = Path(__file__).parents[3] / "examples" / "14-devices.yaml"


def drive(shape: DeviceShape, case: Callable[[Cluster, SimulatedDrivers], Awaitable[None]]) -> None:
    async def with_drivers(cluster: Cluster) -> None:
        await cluster.api.create(cluster.api.target(*NODES), {"metadata": {"name": "n"}})
        await cluster.run()
        drivers = SimulatedDrivers(cluster.informers, ["n"], shape)
        await drivers.start()
        try:
            await case(cluster, drivers)
        finally:
            await drivers.stop()

    serve(with_drivers)


def the_devices(slices: list[Any]) -> list[Any]:
    return [device for one in slices for device in one["spec"].get("devices", ())]


def generations(slices: list[Any]) -> set[int]:
    return {one["spec"]["pool"]["generation"] for one in slices}


def test_gpus_and_their_class() -> None:
    async def case(cluster: Cluster, _: SimulatedDrivers) -> None:
        (made,) = await cluster.all(DEVICE_CLASSES, "")
        assert made["spec"]["selectors"][0]["cel"]["expression"] == 'device.driver == "gpu.cotenant.io"'
        (found,) = await cluster.all(RESOURCE_SLICES, "")
        assert found["spec"]["nodeName"] == found["spec"]["pool"]["name"] == "n"
        first, second = found["spec"]["devices"]
        assert first["attributes"]["index"] == {"int": 0}
        assert second["attributes"]["uuid"] == {"string": "GPU-n-1"}
        assert first["capacity"] == {"memory": {"value": "80Gi"}}

    drive(gpus(2), case)


def test_many_devices_are_several_slices_of_one_pool() -> None:
    async def case(cluster: Cluster, _: SimulatedDrivers) -> None:
        slices = await cluster.all(RESOURCE_SLICES, "")
        assert [len(one["spec"]["devices"]) for one in slices] == [128, 128, 44]
        assert {one["spec"]["pool"]["resourceSliceCount"] for one in slices} == {3}

    drive(gpus(300), case)


def test_parts_of_gpus_count_what_they_take() -> None:
    async def case(cluster: Cluster, _: SimulatedDrivers) -> None:
        slices = await cluster.all(RESOURCE_SLICES, "")
        counters, *others = [one["spec"] for one in slices]
        assert [one["name"] for one in counters["sharedCounters"]] == [f"gpu-{i}" for i in range(4)]
        assert len(the_devices(slices)) == 4 + 4 * 8
        assert all("devices" in one for one in others)

    drive(read_shape(str(PARTS)), case)


def test_unhealthy_devices_are_tainted_in_a_new_generation() -> None:
    async def case(cluster: Cluster, _: SimulatedDrivers) -> None:
        for named, tainted in (("gpu-1", ["gpu-1"]), (None, [])):
            before = generations(await cluster.all(RESOURCE_SLICES, ""))
            body = msgspec.json.encode({"metadata": {"annotations": {UNHEALTHY_DEVICES: named}}})
            await cluster.api.patch(cluster.api.target(*NODES, "", "n"), body, MERGE)

            async def is_so(tainted: list[str] = tainted, before: set[int] = before) -> bool:
                slices = await cluster.all(RESOURCE_SLICES, "")
                found = [one["name"] for one in the_devices(slices) if one.get("taints")]
                return found == tainted and generations(slices) == {max(before) + 1}

            await soon("the taints are published", is_so)

    drive(gpus(3), case)


def test_a_slice_that_is_deleted_is_published_again() -> None:
    async def case(cluster: Cluster, _: SimulatedDrivers) -> None:
        (found,) = await cluster.all(RESOURCE_SLICES, "")
        await cluster.api.delete(cluster.api.target(*RESOURCE_SLICES, "", found["metadata"]["name"]))

        async def is_there() -> bool:
            slices = await cluster.all(RESOURCE_SLICES, "")
            return bool(slices) and slices[0]["metadata"]["uid"] != found["metadata"]["uid"]

        await soon("the slice is there again", is_there)

    drive(gpus(1), case)


def test_another_shape_after_a_restart_is_a_new_generation() -> None:
    async def case(cluster: Cluster, drivers: SimulatedDrivers) -> None:
        await drivers.stop()
        second = SimulatedDrivers(cluster.informers, ["n"], gpus(130))
        await second.start()
        slices = await cluster.all(RESOURCE_SLICES, "")
        assert len(the_devices(slices)) == 130
        assert generations(slices) == {2}
        await second.stop()
        third = SimulatedDrivers(cluster.informers, ["n"], gpus(130))
        await third.start()
        assert generations(await cluster.all(RESOURCE_SLICES, "")) == {2}
        await third.stop()

    drive(gpus(1), case)


def test_shapes_that_are_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "shape.yaml"
    for text in (
        "drivers: 3",
        "drivers: [{name: d, devices: [{for: {g: x}, name: a}]}]",
        "other: 1",
        "drivers: [{name: d, devices: [{for: {g: 100, h: 100}, name: a}]}]",
    ):
        wrong.write_text(text)
        with pytest.raises(InvalidInput, match="--dra"):
            read_shape(str(wrong))
    with pytest.raises(InvalidInput, match="--dra"):
        read_shape(str(tmp_path / "missing"))
    with pytest.raises(InvalidInput, match="--dra"):
        read_shape("5000")


def test_numbers_and_names_are_filled_in() -> None:
    pool = pool_of(gpus(2).drivers[0], "n-1", frozenset({"gpu-0"}))
    first, second = pool.slices[0]["devices"]
    assert first["taints"] == [{"key": "cotenant.io/unhealthy", "effect": "NoExecute"}]
    assert "taints" not in second
    assert second["name"] == "gpu-1"
