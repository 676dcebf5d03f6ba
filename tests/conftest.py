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


TESTS = Path(__file__).parent
FAKES = TESTS / "fakes"
# Cases that wait for real processes, servers and cgroups: somebody else's load on a shared machine can starve one of them.
SHARED_MACHINE = {"e2e", "fault", "kube", "node"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A case that depends on the machine's mood is tried once more, and listed when it was; every other case has one try."""
    if not config.pluginmanager.hasplugin("rerunfailures"):
        return  # inside the emulated guest, which loads no plugins
    for item in items:
        if item.path.relative_to(TESTS).parts[0] in SHARED_MACHINE:
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=2))


@pytest.fixture
def fake_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds the workloads `fake` and `fake-packing`, in this process and in those it starts."""
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.setenv("COTENANT_SCENARIOS", "fake_scenarios")
