"""What tests of several folders share: the fake workloads, in place of the real ones."""

import os
from pathlib import Path

import pytest


def pytest_report_header() -> str:
    """Which API servers the cases of tests/kube run on."""
    real = os.environ.get("COTENANT_TEST_KUBECONFIG")
    return (
        f"kube: local server, and the one of {real}"
        if real
        else "kube: local server only (COTENANT_TEST_KUBECONFIG is not set)"
    )


FAKES = Path(__file__).parent / "fakes"


@pytest.fixture
def fake_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds the workloads `fake` and `fake-packing`, in this process and in those it starts."""
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.setenv("COTENANT_SCENARIOS", "fake_scenarios")
