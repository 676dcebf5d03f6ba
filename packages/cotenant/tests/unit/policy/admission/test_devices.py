"""GPU requests at admission."""

from __future__ import annotations

import pytest

from cotenant.policy.admission.devices import check_devices

GPU, SHARED = "koordinator.sh/gpu", "koordinator.sh/gpu.shared"
MEMORY, RATIO = "koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio"


@pytest.mark.parametrize(
    ("requests", "rules"),
    [
        ({GPU: "0"}, ["gpu-zero"]),
        ({GPU: "150"}, ["gpu-not-whole"]),
        ({GPU: "70"}, []),
        ({GPU: "150", SHARED: "1"}, ["gpu-and-shared"]),
        ({SHARED: "0", RATIO: "50"}, ["shared-zero"]),
        ({SHARED: "0"}, ["shared-zero", "no-memory"]),
        ({SHARED: "1", MEMORY: "0", RATIO: "0"}, ["no-memory"]),
        ({SHARED: "1", MEMORY: "0", RATIO: "50"}, []),
    ],
)
def test_an_amount_of_nothing_asks_for_no_device(requests: dict[str, str], rules: list[str]) -> None:
    pod = {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}
    assert [device.rule for device in check_devices(pod)] == rules
