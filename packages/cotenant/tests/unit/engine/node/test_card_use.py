"""What of a reading of GPUs is whose, and what is nobody's that can be named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.node.card_use import card_sample
from cotenant.model.devices.card_sample import CardPath, CardSample
from cotenant.model.devices.gpu_use import GpuHolder, GpuProcess, GpuUse
from cotenant.model.errors import InvalidInput

LLM, TRAIN, LOAD = (GpuHolder(name) for name in ("shop/llm", "ml/train", "ml/load"))
CARD = GpuUse(
    "dcgm",
    0,
    bus="0000:17:00.0",
    sm_active_permille=600,
    memory_active_permille=300,
    pcie_sent_bytes_per_s=5,
    pcie_received_bytes_per_s=2,
    holders=(LLM,),
)
OTHER = replace(CARD, index=1, bus="0000:18:00.0", holders=(LOAD,), pcie_sent_bytes_per_s=900)
ROOTS = {"0000:17:00.0": "a", "0000:18:00.0": "a", "0000:97:00.0": "b"}
PIDS = {7: LLM, 8: TRAIN}
SHARED = replace(
    CARD,
    holders=(LLM, TRAIN),
    processes=(GpuProcess(7, sm_permille=200, memory_permille=100), GpuProcess(8, sm_permille=700, memory_permille=50)),
)


def sample(*uses: GpuUse, pids: dict[int, GpuHolder] = PIDS, roots: dict[str, str] = ROOTS) -> CardSample:
    return card_sample("shop/llm", uses, pids, roots.get, 1, 900)


def test_a_card_of_its_own_and_a_neighbour_under_its_root() -> None:
    found = sample(CARD, OTHER, replace(OTHER, index=2, bus="0000:97:00.0"))
    assert found.use == {
        CardPath.SM: {"shop/llm": 600},
        CardPath.MEMORY_BANDWIDTH: {"shop/llm": 300},
        CardPath.PCIE: {"shop/llm": 7, "ml/load": 902},
    }
    assert set(found.gaps) == {CardPath.HOST_CPU}


def test_a_shared_card_by_its_processes() -> None:
    found = sample(SHARED, OTHER)
    assert found.use[CardPath.SM] == {"shop/llm": 200, "ml/train": 700}
    assert found.use[CardPath.MEMORY_BANDWIDTH] == {"shop/llm": 100, "ml/train": 50}
    assert "PCIe bytes are of the card" in found.gaps[CardPath.PCIE]


@pytest.mark.parametrize(
    ("uses", "path", "why"),
    [
        ((replace(SHARED, processes=()),), CardPath.SM, "GPU 0 is shared by shop/llm, ml/train"),
        (
            (replace(SHARED, processes=(GpuProcess(9, sm_permille=1),)),),
            CardPath.SM,
            "process 9 on it belongs to no pod",
        ),
        ((replace(SHARED, processes=(GpuProcess(8),)),), CardPath.SM, "no source tells SM activity of process 8"),
        ((replace(CARD, sm_active_permille=None),), CardPath.SM, "does not tell SM activity of GPU 0"),
        ((replace(CARD, bus=""),), CardPath.PCIE, "known on their machine only"),
        ((CARD, replace(OTHER, bus="0000:99:00.0")), CardPath.PCIE, "known on their machine only"),
        ((CARD, replace(OTHER, pcie_sent_bytes_per_s=None)), CardPath.PCIE, "PCIe bytes of GPU 1"),
    ],
)
def test_what_is_not_measured_says_why(uses: tuple[GpuUse, ...], path: CardPath, why: str) -> None:
    found = sample(*uses)
    assert path not in found.use
    assert why in found.gaps[path]


def test_an_instance_is_no_neighbour_of_another() -> None:
    one = replace(CARD, instance="1g.10gb#1")
    found = sample(replace(CARD, holders=()), one, replace(one, instance="1g.10gb#2", holders=(TRAIN,)))
    assert found.use[CardPath.SM] == {"shop/llm": 600}
    assert "GPU 0 is shared by ml/train, shop/llm" in found.gaps[CardPath.PCIE]


def test_a_service_without_a_gpu() -> None:
    with pytest.raises(InvalidInput, match="a pod that holds a GPU here: ml/load"):
        sample(OTHER)
