"""Runs an hour of `cotenant lab compare --on ray://`, and whether its figures are those of this machine.

    python -m bench.ray [--workers 1,2] [--nodes 20] [--hours 2] [--seeds 8] [--json]

A Ray cluster of this machine is started for each count of workers: a head without CPUs, and nodes of one CPU each. The
same comparison (policies `cotenant` and `kube-default` on the founding workload with `--nodes` nodes and `--hours`
hours of arrivals) runs here first, in as many processes, then there. Both figures are of wall time from the first
submission, with the start of the worker processes; kernels are compiled before, the connection (`connect_s`) and the
start of the cluster are not counted.
`identical` says that every figure that does not measure time is equal to the bit. Limits: everything shares one
machine's cores, so nothing is said about networks. Needs the extra `ray`.
"""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from numpy.typing import NDArray

from bench.machine import show
from cotenant.model.errors import InvalidInput
from cotenant_lab import experiment
from cotenant_lab.contract import RunResult, RunSpec
from cotenant_lab.experiment import ExperimentPlan, Task
from cotenant_lab.ray_cluster import connect, load_ray
from cotenant_lab.storage import RunRecord, load_result
from cotenant_lab.workers import FinishedTask, perform_all

TIMED = (
    "decision_p50_us",
    "decision_p99_us",
    "decision_total_s",
    "run_s",
)  # measures of time differ between any two runs
_START_S = 240.0
_POLICIES = ("cotenant", "kube-default")


@dataclass(slots=True)
class LocalRay:
    """A Ray cluster of processes of this machine. `workers`: one process group for each node of one CPU."""

    address: str
    head: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    def kill_node(self, index: int) -> None:
        """Send SIGKILL to a node, as a machine that is lost; workers, which have process groups of their own, end
        when they miss it.
        """
        os.killpg(self.workers[index].pid, signal.SIGKILL)
        self.workers[index].wait()


@contextmanager
def local_ray(workers: int, environment: Mapping[str, str] = os.environ) -> Iterator[LocalRay]:
    """A cluster with `workers` nodes of one CPU each, and the address of its client server; ended with all of its
    processes.
    """
    ray = load_ray()

    host = ray.util.get_node_ip_address()  # Ray replaces loopback by it
    port, client_port = _free_port(), _free_port()
    started: list[subprocess.Popen[bytes]] = []
    own = {**environment, "RAY_worker_niceness": "0"}  # 15 by default: other load would be served first
    with TemporaryDirectory(prefix="ray", dir="/tmp") as folder:  # the paths of Ray's sockets are limited to 107 bytes

        def start(*arguments: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
            command += ["--object-store-memory", "80000000", "--temp-dir", f"{folder}/{len(started)}", *arguments]
            log = open(f"{folder}/{len(started)}.log", "wb")  # noqa: SIM115 - the process keeps it
            process = subprocess.Popen(
                command, env=own, stdout=log, stderr=log, stdin=subprocess.DEVNULL, process_group=0
            )  # of this session: Linux divides a busy machine's CPU among sessions
            log.close()
            started.append(process)
            return process

        head = start(
            *("--head", "--num-cpus", "0", "--port", str(port), "--ray-client-server-port", str(client_port)),
            *("--include-dashboard", "false", "--node-ip-address", host),
        )
        try:
            _listening(host, port, head, folder)

            def node() -> subprocess.Popen[bytes]:
                return start("--address", f"{host}:{port}", "--num-cpus", "1")

            cluster = LocalRay(f"ray://{host}:{client_port}", head, [node() for _ in range(workers)])
            _listening(host, client_port, head, folder)
            _complete(cluster, node, folder)
            yield cluster
        finally:
            for process in reversed(started):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            for process in started:
                process.wait()


def _complete(cluster: LocalRay, node: Callable[[], subprocess.Popen[bytes]], folder: str) -> None:
    """Wait until every node has registered. One whose head did not answer within Ray's own 30 s ends, and is started
    again.
    """
    until, workers = time.monotonic() + _START_S, len(cluster.workers)
    while time.monotonic() < until:
        cluster.workers[:] = [one if one.poll() is None else node() for one in cluster.workers]
        with suppress(InvalidInput):  # its client server is not ready
            connected = connect(cluster.address)
            connected.close()
            if connected.cpus == workers:
                return
        time.sleep(1)
    raise RuntimeError(f"the nodes did not register within {_START_S:g} s: {_logs(folder)}")


def _listening(host: str, port: int, process: subprocess.Popen[bytes], folder: str) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection((host, port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"Ray does not listen on port {port}: {_logs(folder)}")


def _logs(folder: str) -> str:
    return "\n".join(path.read_text(errors="replace")[-2_000:] for path in sorted(Path(folder).glob("*.log")))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])


def compared(workers: int, specs: Sequence[RunSpec], folder: Path) -> dict[str, Any]:
    """The same runs in `workers` processes of this machine, then on a cluster of as many nodes."""
    here = experiment.run_specs(tuple(specs), folder / "here", workers, perform=_in_processes)
    with local_ray(workers) as cluster:
        began = time.perf_counter()
        connected = connect(cluster.address)
        connect_s = time.perf_counter() - began
        try:
            there = experiment.run_specs(tuple(specs), folder / "there", workers, perform=connected.perform)
        finally:
            connected.close()
    return {
        "workers": workers,
        "runs": len(there.records),
        "runs_per_hour_here": round(len(here.records) / here.wall_s * 3600),
        "runs_per_hour_ray": round(len(there.records) / there.wall_s * 3600),
        "connect_s": round(connect_s, 1),
        "identical": len(there.records) == len(specs) and all(map(identical, here.records, there.records)),
    }


def _in_processes(tasks: Sequence[Task], jobs: int) -> Iterator[FinishedTask[Task]]:
    return perform_all("cotenant_lab.experiment:run_and_store", tasks, jobs)


def identical(one: RunRecord, other: RunRecord) -> bool:
    """Whether two runs are equal to the bit, in every figure that does not measure time."""
    a, b = load_result(one), load_result(other)
    nothing = dict.fromkeys(TIMED, 0.0)
    return pickle.dumps(_plain(replace(a, measures=replace(a.measures, **nothing)))) == pickle.dumps(
        _plain(replace(b, measures=replace(b.measures, **nothing)))
    )


def _plain(result: RunResult) -> object:
    """Numbers as text and arrays as bytes: NaN equals itself."""
    arrays: list[NDArray[Any]] = [
        result.slowdowns,
        *(curve for series in result.series for curve in (series.x, series.y)),
    ]
    machines = result.machine_map
    if machines is not None:
        arrays += [machines.machine, machines.cpu_share, machines.is_service]
    texts = (repr(result.spec), repr(result.measures), repr(result.by_class), result.notes)
    return texts, [array.tobytes() for array in arrays], machines.owner if machines else ()


def specs_of(nodes: int, hours: float, seeds: int, folder: Path) -> tuple[RunSpec, ...]:
    """Runs of the founding workload on a small cluster."""
    file = folder / "small.yaml"
    file.write_text(f"base: founding\nnodes: {nodes}\nhorizon_h: {hours:g}\n")
    return ExperimentPlan(RunSpec("founding", "", 0, 0.0, file=file), _POLICIES, tuple(range(seeds)), (0.77,)).specs()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with TemporaryDirectory(prefix="bench-ray-") as name:
        folder = Path(name)
        specs = specs_of(asked.nodes, asked.hours, asked.seeds, folder)
        try:
            experiment.run_specs(specs[: len(_POLICIES)], folder / "warm", 1)  # compiles
        except InvalidInput as error:
            parser.error(str(error))
        rows = [compared(int(count), specs, folder / count) for count in asked.workers.split(",")]
    show(rows, asked.json, [f"{len(specs)} runs of {asked.nodes} nodes and {asked.hours:g} h"])


if __name__ == "__main__":
    main()
