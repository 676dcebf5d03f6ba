"""A share of a GPU as limits of MPS."""

from __future__ import annotations

import pytest

from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import DeviceType
from cotenant.model.devices.shares import MpsShare, share_of
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, LENT_GPU, Amounts

GIB = 1 << 30
CARDS = {0: 80 * GIB, 1: 80 * GIB, 3: 40 * GIB}


def part(minor: int, core: int = 0, ratio: int = 0, memory: int = 0, lent: int = 0) -> DeviceAllocation:
    amounts = {GPU_CORE: core, GPU_MEMORY_RATIO: ratio, GPU_MEMORY: memory, LENT_GPU: lent}
    given = Amounts.of({name: amount for name, amount in amounts.items() if amount})
    return DeviceAllocation(DeviceType.GPU, minor, given)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((part(0, 50, 50, 40 * GIB),), MpsShare(1, 50, 40 * 1024)),
        ((part(0, 50, 25),), MpsShare(1, 50, 20 * 1024)),
        ((part(0, memory=20 * GIB),), MpsShare(1, None, 20 * 1024)),
        ((part(0, 30),), MpsShare(1, 30, None)),
        ((part(0, lent=30),), MpsShare(1, 30, 24 * 1024)),
        ((part(0, lent=100),), MpsShare(1, 100, 80 * 1024)),  # a borrower is limited even where all is lent
        ((part(0, 50, 50, 60 * GIB),), MpsShare(1, 50, 40 * 1024)),  # amounts that disagree: the least
        ((part(0, 100, 50),), MpsShare(1, 100, 40 * 1024)),
        ((part(0, 100, 100, 80 * GIB),), None),
        ((part(0, 100),), None),
        ((part(0, 100, 0, 80 * GIB),), None),
        ((part(7, 100, 0, 80 * GIB),), MpsShare(1, 100, 80 * 1024)),  # of a card whose memory is not known
        ((part(0, 50, 50), part(3, 40, 50)), MpsShare(2, 40, 20 * 1024)),
        ((part(0, 100, 100), part(3, 50, 50)), MpsShare(2, 50, 20 * 1024)),
        ((DeviceAllocation(DeviceType.RDMA, 0, Amounts.of({"koordinator.sh/rdma": 50})),), None),
        ((), None),
    ],
)
def test_a_share_never_more_than_was_given(given: tuple[DeviceAllocation, ...], wanted: MpsShare | None) -> None:
    assert share_of(given, CARDS) == wanted


@pytest.mark.parametrize(
    ("lent", "threads"),
    [(30, 50), (50, 50), (51, 100), (100, 100)],
)
def test_who_borrows_beside_a_server_has_the_part_that_is_lent_there(lent: int, threads: int) -> None:
    assert share_of((part(0, lent=lent),), CARDS, beside=50) == MpsShare(1, threads, lent * 80 * 1024 // 100)
    assert share_of((part(0, 30, 30),), CARDS, beside=50) == MpsShare(1, 30, 24 * 1024), "no borrower"


def test_its_variables() -> None:
    assert MpsShare(2, 40, 20480).variables("/run/mps") == (
        ("CUDA_MPS_PIPE_DIRECTORY", "/run/mps"),
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "40"),
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=20480M,1=20480M"),
    )
    assert MpsShare(1, None, None).variables("/p") == (("CUDA_MPS_PIPE_DIRECTORY", "/p"),)
