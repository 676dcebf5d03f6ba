"""What tests of several folders share: the fake workloads, in place of the real ones."""

from pathlib import Path

import pytest

FAKES = Path(__file__).parent / "fakes"


@pytest.fixture
def fake_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds the workloads `fake` and `fake-packing`, in this process and in those it starts."""
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.setenv("COTENANT_SCENARIOS", "fake_scenarios")
