from __future__ import annotations

import pytest

from cotenant.model.arrays import CPU, MEMORY, PODS
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import (
    BATCH_CPU,
    BATCH_MEMORY,
    FIRST,
    GPU_MEMORY_RATIO,
    MID_CPU,
    Amounts,
    ContainerAmounts,
    ResourceAxis,
    Unit,
    format_amount,
    kubernetes_name,
    parse_amount,
    pod_requests,
    unit_of,
)


def asks(cpu: int, memory: int = 0, is_sidecar: bool = False) -> ContainerAmounts:
    return ContainerAmounts(Amounts.of({"cpu": cpu, "memory": memory}), is_sidecar=is_sidecar)


def test_the_first_columns_are_those_of_the_arrays() -> None:
    assert (FIRST[CPU], FIRST[MEMORY], FIRST[PODS]) == ("cpu", "memory", "pods")
    assert ResourceAxis().names == FIRST


def test_each_resource_in_its_unit() -> None:
    parsed = Amounts.parse(
        {
            "cpu": "1.5",
            "memory": "1Gi",
            "pods": 110,
            "ephemeral-storage": "10G",
            BATCH_CPU: 4000,
            BATCH_MEMORY: "2Gi",
            MID_CPU: "1k",
            GPU_MEMORY_RATIO: "50",
            "hugepages-2Mi": "4Mi",
            "example.com/widget": "3",
        }
    )
    assert dict(parsed) == {
        "cpu": 1500,
        "memory": 1 << 30,
        "pods": 110,
        "ephemeral-storage": 10**10,
        "kubernetes.io/batch-cpu": 4000,
        "kubernetes.io/batch-memory": 2 << 30,
        "kubernetes.io/mid-cpu": 1000,
        "koordinator.sh/gpu-memory-ratio": 50,
        "hugepages-2Mi": 4 << 20,
        "example.com/widget": 3,
    }
    assert [unit_of(n) for n in ("cpu", BATCH_CPU, "hugepages-1Gi", GPU_MEMORY_RATIO, "example.com/widget")] == [
        Unit.MILLI_CPU,
        Unit.MILLI_CPU,
        Unit.BYTES,
        Unit.PERCENT,
        Unit.COUNT,
    ]
    assert kubernetes_name("batch-cpu") == BATCH_CPU
    assert kubernetes_name("cpu") == "cpu"


def test_amounts_are_written_as_they_are_read() -> None:
    for name, text in [("cpu", "1500m"), ("memory", "1536Mi"), (BATCH_CPU, "2500"), ("nvidia.com/gpu", "8")]:
        assert format_amount(name, parse_amount(name, text)) == text


def test_cpu_and_bytes_round_up() -> None:
    assert parse_amount("cpu", "100.1m") == 101
    assert parse_amount("memory", "1.5") == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cpu", "-1"),
        ("memory", "-1n"),
        ("cpu", "1e13"),
        ("memory", "8Pi"),
        ("memory", "1e18"),
        (BATCH_CPU, "0.5"),
        ("nvidia.com/gpu", "1500m"),
        ("cpu", "NaN"),
    ],
)
def test_negative_absurd_and_divided_amounts_name_the_field(name: str, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Amounts.parse({name: text}, "spec.containers[0].resources.requests")
    assert caught.value.field == f"spec.containers[0].resources.requests.{name}"


def test_amounts_built_by_hand_are_checked_too() -> None:
    for items in [(("cpu", -1),), (("cpu", 2**53),), (("cpu", 1), ("cpu", 2)), (("cpu", True),), (("cpu", 1.5),)]:
        with pytest.raises(InvalidInput):
            Amounts(items)  # type: ignore[arg-type]
    assert Amounts((("memory", 1), ("cpu", 2))) == Amounts.of({"cpu": 2, "memory": 1})


def test_arithmetic_treats_absent_as_zero() -> None:
    a, b = Amounts.of({"cpu": 1, "memory": 5}), Amounts.of({"cpu": 2, "pods": 1})
    assert a + b == Amounts.of({"cpu": 3, "memory": 5, "pods": 1})
    assert a.maximum(b) == Amounts.of({"cpu": 2, "memory": 5, "pods": 1})
    assert a + Amounts() == a == Amounts().maximum(a)
    assert a.get("nothing") == 0
    assert "cpu" in a
    assert str(Amounts.of({"cpu": 1500, "memory": 1 << 30})) == "cpu 1500m, memory 1Gi"


def test_a_pod_asks_for_the_larger_of_its_phases() -> None:
    assert pod_requests([asks(100, 10), asks(200, 20)]) == Amounts.of({"cpu": 300, "memory": 30})
    # one init container needs more CPU, the running phase more memory
    assert pod_requests([asks(100, 50)], [asks(500, 10), asks(400, 20)]) == Amounts.of({"cpu": 500, "memory": 50})


def test_sidecars_run_beside_what_starts_after_them() -> None:
    sidecar = asks(100, is_sidecar=True)
    # running: 300 + 100; init after the sidecar: 350 + 100
    assert pod_requests([asks(300)], [sidecar, asks(350)]).get("cpu") == 450
    # the same init container before the sidecar runs alone
    assert pod_requests([asks(300)], [asks(350), sidecar]).get("cpu") == 400
    assert pod_requests([asks(10)], [sidecar, asks(1, is_sidecar=True), asks(50)]).get("cpu") == 151


def test_overhead_is_added_and_pod_level_amounts_replace() -> None:
    overhead = Amounts.of({"cpu": 7, "memory": 3})
    assert pod_requests([asks(100)], [asks(200)], overhead).get("cpu") == 207
    assert pod_requests([asks(100, 10)], (), overhead, Amounts.of({"cpu": 50})) == Amounts.of({"cpu": 57, "memory": 13})


def test_a_limit_alone_is_the_request() -> None:
    only_limit = ContainerAmounts(Amounts.of({"cpu": 100}), Amounts.of({"cpu": 400, "memory": 9}))
    assert pod_requests([only_limit]) == Amounts.of({"cpu": 100, "memory": 9})


def test_the_axis_grows_at_its_end() -> None:
    axis = ResourceAxis().extended(["nvidia.com/gpu", "cpu", BATCH_CPU, "nvidia.com/gpu"])
    assert axis.names == (*FIRST, "nvidia.com/gpu", BATCH_CPU)
    assert axis.extended(["memory"]) is axis
    assert axis.row(Amounts.of({"memory": 9, "nvidia.com/gpu": 2})) == [0, 9, 0, 2, 0]
    with pytest.raises(InvalidInput, match="example"):
        axis.row(Amounts.of({"example.com/other": 1}))
    with pytest.raises(InvalidInput):
        ResourceAxis(("memory", "cpu", "pods"))
    with pytest.raises(InvalidInput):
        ResourceAxis((*FIRST, "x", "x"))
