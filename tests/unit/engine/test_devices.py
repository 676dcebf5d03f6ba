"""The device ledger: never over capacity, exact, and it notices when it is not."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.engine.devices import DeviceLedger, Grant
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.policy.placement.gpu_state import ANY_MODEL, GpuNodes, GpuShapes


def ledger() -> DeviceLedger:
    """Two nodes with 2 and 1 GPUs; shapes: 0.6 GPU, 2 GPUs, CPU only."""
    count = np.array([2, 1], np.int64)
    nodes = GpuNodes(
        cpu_free=np.zeros(2, np.int64),
        memory_free=np.zeros(2, np.int64),
        gpu_free=np.zeros((2, 2), np.int64),
        cpu=np.array([8_000, 4_000], np.int64),
        memory=np.array([100, 100], np.int64),
        gpu_count=count,
        model=np.zeros(2, np.int64),
    )
    shapes = GpuShapes(
        cpu=np.array([2_000, 2_000, 1_000], np.int64),
        memory=np.array([10, 10, 10], np.int64),
        gpu_count=np.array([1, 2, 0], np.int64),
        gpu_milli=np.array([600, 1000, 0], np.int64),
        models=np.full(3, ANY_MODEL, np.int64),
    )
    return DeviceLedger(nodes, shapes)


def test_starts_idle_and_without_devices_a_node_lacks() -> None:
    book = ledger()
    assert book.nodes.gpu_free.tolist() == [[1000, 1000], [1000, 0]]
    assert book.nodes.cpu_free.tolist() == [8_000, 4_000]
    book.validate()


def test_allocate_release_round_trip() -> None:
    book = ledger()
    book.allocate(7, 0, 0, 0b10)
    assert book.nodes.gpu_free.tolist() == [[1000, 400], [1000, 0]]
    book.validate()
    assert book.release(7) == Grant(row=0, shape=0, devices=0b10)
    assert book.nodes.gpu_free.tolist() == [[1000, 1000], [1000, 0]]
    book.validate()


@pytest.mark.parametrize(
    ("owner", "row", "shape", "devices", "field"),
    [
        (1, 0, 0, 0b01, "owner"),  # holds already
        (2, 2, 0, 0b01, "row"),
        (2, 0, 1, 0b11, "shape"),  # one device is in use
        (2, 0, 0, 0b11, "devices"),  # one device asked for
        (2, 0, 0, 0b00, "devices"),
        (2, 1, 0, 0b10, "devices"),  # no such device
        (2, 0, 0, 0b01, "devices"),  # fits the node, not this device
        (2, 0, 0, -2, "devices"),
    ],
)
def test_refused_allocation_changes_nothing(owner: int, row: int, shape: int, devices: int, field: str) -> None:
    book = ledger()
    book.allocate(1, 0, 0, 0b01)
    with pytest.raises(InvalidInput) as refused:
        book.allocate(owner, row, shape, devices)
    assert refused.value.field == field
    assert book.nodes.gpu_free.tolist() == [[400, 1000], [1000, 0]]
    assert list(book.grants) == [1]
    book.validate()


def test_nothing_is_given_back_twice() -> None:
    book = ledger()
    book.allocate(1, 1, 2, 0)
    book.release(1)
    with pytest.raises(InvalidInput):
        book.release(1)
    book.validate()


@pytest.mark.parametrize("column", ["cpu_free", "memory_free", "gpu_free"])
def test_validate_notices_a_column_that_drifted(column: str) -> None:
    book = ledger()
    book.allocate(1, 0, 1, 0b11)
    getattr(book.nodes, column)[1] -= 1
    with pytest.raises(Permanent, match=f"{column} of node 1"):
        book.validate()


def test_random_grants_stay_within_capacity() -> None:
    book, rng = ledger(), np.random.default_rng(5)
    refused = 0
    for step in range(400):
        if book.grants and rng.random() < 0.4:
            book.release(int(rng.choice(list(book.grants))))
        else:
            try:
                book.allocate(step, int(rng.integers(2)), int(rng.integers(3)), int(rng.integers(4)))
            except InvalidInput:
                refused += 1
        assert book.nodes.gpu_free.min() >= 0
        book.validate()
    assert 0 < refused < 400
