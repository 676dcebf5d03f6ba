"""Cases of this folder run in a guest whose controllers are on cgroup v2, all in one boot; each case here reports its
result there.

A case is written as any other. On the host its body is not run: the first one boots the guest for all that were
selected, and every case looks its own result up. Where the run is spread over processes, they share one guest.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node.guest.machine import INSIDE, KUBELET, RESULTS, SYSTEMD, V2, ZONES, Case, run

from cotenant.drivers.qemu.packages import GuestUnavailable

HERE = Path(__file__).parent
IN_GUEST = INSIDE in os.environ
REQUEST = "COTENANT_TEST_EXPERIMENTS"
_selected: dict[str, list[str]] = {}  # by name of the guest's kind
_results: dict[str, tuple[dict[str, Case] | str, str]] = {}  # the cases, or why there is no guest; the console
KINDS = {"v2": V2, "kubelet": KUBELET, "zones": ZONES, "systemd": SYSTEMD}


def _is_here(item: pytest.Item) -> bool:
    """Whether a case is one of this folder: asked for every case of the suite by every worker, so without making
    paths.
    """
    return str(item.path).startswith(f"{HERE}{os.sep}")


def _kind(path: Path) -> str:
    """Cases below `zones` need a kernel with sched_ext, those below `systemd` need that as the first process;
    `kubelet` would take the others' time.
    """
    return next((name for name in ("zones", "systemd", "kubelet") if HERE / name in path.parents), "v2")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On the host, cases are looked up instead of run."""
    if IN_GUEST:
        return
    for item in items:
        if _is_here(item) and isinstance(item, pytest.Function):
            item.add_marker(pytest.mark.slow)
            item.runtest = lambda item=item: _look_up(item)  # type: ignore[method-assign]
            item.setup = lambda: None  # type: ignore[method-assign]


def _left_out(item: pytest.Item) -> str:
    """Why a case is not run here; "" if it is."""
    marker = item.get_closest_marker("on_request")
    return "" if marker is None or os.environ.get(REQUEST) else f"{marker.args[0]}; {REQUEST}=1 runs it"


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Those that are left after -k and -m. In the guest nothing is collected as garbage any more: each collection,
    and each fork after one, would copy all of memory.
    """
    if IN_GUEST:
        gc.collect()
        gc.freeze()
        gc.disable()
    for item in session.items:
        if _is_here(item) and (IN_GUEST or not _left_out(item)):
            _selected.setdefault(_kind(item.path), []).append(item.nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """In the guest, a case's end is told by a line on a serial port."""
    if not IN_GUEST or not (report.when == "call" or report.outcome != "passed"):
        return
    said = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
    line = json.dumps({"id": report.nodeid, "outcome": report.outcome, "said": said[-6000:]}) + "\n"
    port = os.open(RESULTS, os.O_WRONLY | os.O_NOCTTY)
    try:
        # a port takes a little at a time
        data = line.encode()
        while data:
            data = data[os.write(port, data) :]
    finally:
        os.close(port)


def _look_up(item: pytest.Item) -> None:
    if why := _left_out(item):
        pytest.skip(why)
    kind = _kind(item.path)
    if kind not in _results:
        _results[kind] = _run_once(item.config, kind)
    results, console = _results[kind]
    if isinstance(results, str):
        pytest.skip(f"no guest: {results}")
    case = results.get(item.nodeid)
    if case is None:
        pytest.fail(f"the guest told nothing of it; its console ends:\n{console[-3000:]}", pytrace=False)
    if case.outcome == "skipped":
        pytest.skip(f"in the guest: {case.said}")
    if case.outcome != "passed":
        pytest.fail(f"in the guest:\n{case.said}", pytrace=False)


def _run_once(config: pytest.Config, kind: str) -> tuple[dict[str, Case] | str, str]:
    """The results, or why there is no guest; and the console's text."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return _run(kind)
    # the folder that the workers' own stand in, as pytest-xdist's manual has it; no fixture can be asked for here
    place = config._tmp_path_factory.getbasetemp().parent / f"guest-{kind}.json"  # type: ignore[attr-defined]
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            results, console = _run(kind)
            cases = (
                results
                if isinstance(results, str)
                else {name: [case.outcome, case.said] for name, case in results.items()}
            )
            place.write_text(json.dumps([cases, console]))
        cases, console = json.loads(place.read_text())
    return (cases if isinstance(cases, str) else {name: Case(*case) for name, case in cases.items()}), console


def _run(kind: str) -> tuple[dict[str, Case] | str, str]:
    try:
        told = run(_selected[kind], KINDS[kind])
    except GuestUnavailable as error:
        return str(error), ""
    return told.cases, f"{told.kernel}, {told.seconds:.0f} s\n{told.console}"


@pytest.fixture(scope="session")
def disk() -> Iterator[int]:
    """The guest's disk, read around the page cache."""
    at = os.open("/dev/vda", os.O_RDONLY | os.O_DIRECT)
    yield at
    os.close(at)
