"""What tests of several folders share: the fake workloads, which cases are long, and the division among workers."""

import gc
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import distribution, recording, termination


def pytest_report_header() -> str:
    """Which API servers the cases of tests/kube run on."""
    real = os.environ.get("COTENANT_TEST_KUBECONFIG")
    return (
        f"kube: local server, and the one of {real}"
        if real
        else "kube: local server only (COTENANT_TEST_KUBECONFIG is not set)"
    )


ROOT = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Processes that cases start keep their identities in a folder of this run, and end with it."""
    gc.disable()  # a third of the time that collecting the cases takes, and all of them stay
    termination.end_like_an_interruption()
    folder = tempfile.mkdtemp(prefix="cotenant-test-state-")
    os.environ["XDG_STATE_HOME"] = folder
    # No case trusts the machine's own certificate authorities, and each process that imports aiohttp reads them twice.
    os.environ.setdefault("SSL_CERT_FILE", os.devnull)
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    record = os.environ.get("COTENANT_RECORD", "")
    if record and not hasattr(config, "workerinput"):
        config.pluginmanager.register(recording.Recorder(Path(record).absolute()))
    if config.pluginmanager.hasplugin("hypothesispytest"):  # not inside the emulated guest
        from hypothesis import HealthCheck, settings
        from tests.property.few import examples

        # The first example may compile a kernel, and other work may hold the machine's CPUs.
        slow = [HealthCheck.too_slow]
        # The same cases each time; `make properties` looks for new ones, and what it finds is kept as an `example`.
        fixed = not os.environ.get("COTENANT_RANDOM_PROPERTIES")
        settings.register_profile(
            "cotenant",
            settings.default,
            max_examples=examples(100),
            deadline=None,
            suppress_health_check=slow,
            derandomize=fixed,
            database=None,
        )
        settings.load_profile("cotenant")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the cases of `distribution.LONG`, which `make test` leaves to `make test-long`; on a worker, sort the
    cases by unit of work.
    """
    if hasattr(config, "workerinput"):
        distribution.sort(items)
    for item in items:
        if distribution.is_long(item.nodeid):
            item.add_marker(pytest.mark.long)


def pytest_collection_finish() -> None:
    """No case's garbage is looked for among the modules and all cases: a full collection is then short."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Units of work for `--dist loadscope`; any other distribution is pytest-xdist's own."""
    return distribution.scheduler(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.fixture(autouse=True)
def process_restored() -> Iterator[None]:
    """A case may run a command that configures logging or the collection of garbage in this process: neither reaches
    later cases.
    """
    root = logging.getLogger()
    level, thresholds = root.level, gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    root.setLevel(level)
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler:  # pytest's own are subclasses
            root.removeHandler(handler)


@pytest.fixture
def fake_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds the workloads `fake` and `fake-packing`, in this process and in those it starts."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("COTENANT_SCENARIOS", "tests.fakes.processes.fake_scenarios")
