"""Runs on a Ray cluster, stored by this process as if it had made them.

A sweep of hundreds of runs wants more than one machine, and its figures must not depend on where they were made. Each
run is a Ray task of one CPU. Its worker compares its environment with this process's (`environment.py`), refuses the
run where they differ, and returns the result, which this process stores under the digest of the specification. A run
whose worker is lost is submitted once more, then reported; Ray's own retries are off, because a run that ends its
process would be repeated without end.
Limits: the package and the traces that a workload reads must be on each machine, at the same paths; a cluster that has
no free CPU is waited for; Ray's client needs the same versions of Ray and Python on both sides.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cotenant.model.errors import CotenantError, InvalidInput, Permanent
from cotenant_lab import registry, workers
from cotenant_lab.contract import RunResult, RunSpec
from cotenant_lab.environment import Environment, difference, environment
from cotenant_lab.experiment import Task, calculate
from cotenant_lab.storage import save_result
from cotenant_lab.workers import FinishedTask

SCHEME = "ray://"
EXPECTED = "ray://HOST:PORT, such as ray://head:10001"
ATTEMPTS = 2  # of a run whose worker is lost
_COLOURS = re.compile("\x1b\\[[0-9;]*m")
_REACH_S = 5.0  # until a TCP connection must stand
_CONNECT_S = 60.0  # until Ray must have answered; it starts a process for each client
_WAIT_S = 5.0  # how long one call waits in the cluster
_MAX_SAID = 300  # characters of Ray's reason for not connecting; a version mismatch takes 250
_EXPECTED_WORKERS = "workers whose runs give the same figures"
# Names in `ray.exceptions`: the process or the machine was lost, not the run.
_LOST = ("WorkerCrashedError", "NodeDiedError", "LocalRayletDiedError", "OutOfMemoryError", "ObjectLostError")


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a worker receives. `file`: the content of the workload's file, which need not exist there."""

    spec: RunSpec
    expected: Environment
    address: str
    file: bytes | None = None


class _WorkerLost(Exception):
    """The process or the machine that did a run was lost."""


@dataclass(slots=True)
class RayCluster:
    """A connected cluster. `ray`: the library, or a double of the calls made here. `cpus`: runs at once."""

    ray: Any
    address: str
    cpus: int
    nodes: int = 1
    alive: bool = True  # the connection: no call of Ray may follow its loss, some would start a cluster on this machine

    def __str__(self) -> str:
        """Address and size, for the report."""
        return f"{self.address}: {self.nodes} node{'' if self.nodes == 1 else 's'}, {self.cpus} CPUs"

    def perform(self, tasks: Sequence[Task], jobs: int) -> Iterator[FinishedTask[Task]]:
        """Do every task, at most `jobs` at once; yields each when its result is stored, or it has failed. Closing the
        iterator cancels the rest.

        Raises `Permanent` if the connection is lost, and `InvalidInput` if a worker cannot load this package.
        """
        remote = self.ray.remote(num_cpus=1, max_retries=0)(run_assigned)
        waiting = deque((task, assignment, 1) for task, assignment in zip(tasks, self._assignments(tasks), strict=True))
        running: dict[Any, tuple[Task, Assignment, int]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    task, assignment, attempt = waiting.popleft()
                    with self._connected():
                        running[remote.remote(assignment)] = task, assignment, attempt
                with self._connected():
                    ready, _ = self.ray.wait(list(running), num_returns=1, timeout=_WAIT_S)
                for reference in ready:
                    task, assignment, attempt = running.pop(reference)
                    try:
                        finished = self._fetched(task, reference)
                    except _WorkerLost as lost:
                        if attempt < ATTEMPTS:
                            waiting.appendleft((task, assignment, attempt + 1))
                            continue
                        finished = FinishedTask(task, error=f"its worker was lost {ATTEMPTS} times: {lost}")
                    yield finished
        finally:
            for reference in running if self.alive else ():
                with suppress(Exception):  # the connection may be lost now
                    self.ray.cancel(reference, force=True)

    def close(self) -> None:
        """Disconnect; the cluster stays. Ray ends the runs that this connection submitted."""
        with suppress(Exception):  # the connection may be gone
            self.ray.shutdown()

    def _assignments(self, tasks: Sequence[Task]) -> list[Assignment]:
        """What workers receive. Files and traces are read once, before the first run, as their digests were."""
        specs = [task.spec for task in tasks]
        files = {spec.file: spec.file.read_bytes() for spec in specs if spec.file is not None}
        read = {spec: spec.traces if registry.entry(spec.workload).reads_traces else None for spec in specs}
        expected = {traces: environment(traces) for traces in set(read.values())}
        return [
            Assignment(spec, expected[read[spec]], self.address, files[spec.file] if spec.file else None)
            for spec in specs
        ]

    def _fetched(self, task: Task, reference: object) -> FinishedTask[Task]:
        """The outcome of a task that has ended, stored."""
        errors = self.ray.exceptions
        lost = tuple(getattr(errors, name) for name in _LOST)
        try:
            with self._connected():
                finished: FinishedTask[RunSpec] = self.ray.get(reference)
        except lost as error:
            raise _WorkerLost(_first_line(error)) from error
        except errors.RayTaskError as error:  # what a run raises is caught in the worker: this one could not begin
            raise self._refusal(f"on {_worker_named(error)}: {_last_line(error)}") from error
        except errors.RayError as error:
            return FinishedTask(task, error=f"Ray: {_first_line(error)}", detail=str(error))
        return _stored(task, finished)

    def _refusal(self, why: str) -> InvalidInput:
        return InvalidInput("--on", self.address, _EXPECTED_WORKERS, why)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        try:
            yield
        except (CotenantError, self.ray.exceptions.RayError):
            raise
        except Exception as error:  # Ray's client raises ConnectionError, gRPC's errors and plain exceptions
            self.alive = False
            raise Permanent(
                f"the connection to {self.address} was lost: {_first_line(error)}; finished runs are stored, the same "
                "command continues"
            ) from error


def run_assigned(assignment: Assignment) -> FinishedTask[RunSpec]:
    """Do one run in a worker of the cluster; the value is its result. `refused`: this machine cannot make the
    figures asked for.
    """
    workers.tune_process()
    wrong = _unfit(assignment)
    if wrong:
        refused = InvalidInput("--on", assignment.address, _EXPECTED_WORKERS, wrong)
        return FinishedTask(assignment.spec, error=str(refused), refused=refused)
    done = workers.perform(f"{__name__}:calculate_assigned", assignment)
    return FinishedTask(assignment.spec, done.value, done.error, done.detail, done.refused)


def calculate_assigned(assignment: Assignment) -> RunResult:
    """The result of one run, with the specification as it was asked for."""
    spec = assignment.spec
    if spec.file is None or assignment.file is None:
        return calculate(spec)
    with TemporaryDirectory(prefix="cotenant-") as folder:
        copy = Path(folder) / spec.file.name
        copy.write_bytes(assignment.file)
        return replace(calculate(replace(spec, file=copy)), spec=spec)


def _unfit(assignment: Assignment) -> str:
    """Why this machine must not do the run; empty if it may."""
    traces = assignment.spec.traces if assignment.expected.traces else None
    if traces is not None and not traces.is_dir():
        return f"on {socket.gethostname()}: there is no folder {traces}"
    found = difference(environment(traces), assignment.expected)
    return f"on {socket.gethostname()}: {found}" if found else ""


def _stored(task: Task, finished: FinishedTask[Any]) -> FinishedTask[Task]:
    error, detail = finished.error, finished.detail
    if finished.refused is None and not error:
        try:
            save_result(task.path, finished.value)
        except CotenantError as unsaved:
            error = str(unsaved)
    return FinishedTask(task, error=error, detail=detail, refused=finished.refused)


def connect(
    address: str, load: Callable[[], Any] | None = None, reach_s: float = _REACH_S, connect_s: float = _CONNECT_S
) -> RayCluster:
    """Connect to `ray://HOST:PORT` within `reach_s` + `connect_s` seconds. `load` imports the library.

    Raises `InvalidInput` if the address is malformed or does not answer, and if the library is not installed.
    """
    host, port = _host_and_port(address)
    try:
        ray = (load or load_ray)()
    except ImportError as error:
        raise InvalidInput(
            "--on", address, "the extra `ray`", "install it with: pip install 'cotenant-lab[ray]'"
        ) from error
    try:
        socket.create_connection((host, port), timeout=reach_s).close()
    except OSError as error:
        why = error.strerror or str(error)
        raise InvalidInput("--on", address, f"a Ray cluster that answers within {reach_s:g} s", why) from error
    _reach(ray, address, connect_s)
    cpus = int(ray.cluster_resources().get("CPU", 0))
    return RayCluster(ray, address, cpus, sum(1 for node in ray.nodes() if node["Alive"]))


def _reach(ray: Any, address: str, connect_s: float) -> None:
    """Let Ray connect in a thread of its own: it tries for longer than a user waits, and does not take a limit."""
    failure: list[BaseException] = []
    done = threading.Event()

    def reach() -> None:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
        except BaseException as error:
            failure.append(error)
        done.set()

    # What goes wrong is raised here, in one line.
    log = logging.getLogger("ray")
    log.setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threading.Thread(target=reach, daemon=True).start()
        answered = done.wait(connect_s)
    log.setLevel(logging.CRITICAL)  # Ray's client sets it to INFO
    logging.getLogger("ray.util.client.logsclient").disabled = True  # it does not propagate
    if not answered:
        raise InvalidInput("--on", address, f"a Ray client server that answers within {connect_s:g} s")
    if failure:
        said = " ".join(_lines(failure[0]))[:_MAX_SAID]
        port = "; its port is that of `ray start --head --ray-client-server-port`, 10001 by default"
        hint = said + port if isinstance(failure[0], ConnectionError) else said
        raise InvalidInput("--on", address, "a Ray client server", hint) from failure[0]


def load_ray() -> Any:
    """The library. Raises `ImportError` if it is not installed."""
    os.environ.setdefault(
        "RAY_ENABLE_AUTO_CONNECT", "0"
    )  # else a call without a connection starts a cluster on this machine
    import ray

    return ray


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.removeprefix(SCHEME).rpartition(":")
    if not (address.startswith(SCHEME) and colon and host and port.isdecimal() and 0 < int(port) < 65536):
        raise InvalidInput("--on", address, EXPECTED)
    return host.strip("[]"), int(port)


def _first_line(error: BaseException) -> str:
    return _lines(error)[0]


def _worker_named(error: BaseException) -> str:
    found = re.search(r"ip=([^,)\s]+)", str(error))
    return found.group(1) if found else "a worker"


def _last_line(error: BaseException) -> str:
    return _lines(error)[-1]


def _lines(error: BaseException) -> list[str]:
    said = _COLOURS.sub("", str(error)).strip().splitlines()
    return [line.strip() for line in said] or [type(error).__name__]
