"""Gets a copy of a cluster: from its API server, a file of ours, or files of kubectl."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Unavailable
from cotenant.drivers.kube.kinds.durations import duration_s
from cotenant.drivers.kube.kinds.workload.declarations import workload_kinds
from cotenant.drivers.kube.snapshot.anonymise import Words, anonymised
from cotenant.drivers.kube.snapshot.archive import read_archive, renamed_history
from cotenant.drivers.kube.snapshot.exported import read_exported
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot
from cotenant.drivers.kube.snapshot.snapshot_reading import Progress, read_snapshot
from cotenant.drivers.kube.usage.sampling import SamplingPeriod, sample_use
from cotenant.drivers.prometheus.client import Prometheus, PrometheusClient
from cotenant.drivers.prometheus.part_files import PartFiles
from cotenant.drivers.prometheus.use_reading import HistoryRequest, read_history
from cotenant.drivers.prometheus.use_reading import Progress as HistoryProgress
from cotenant.model.assess.history import ClusterHistory
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.groups.workload_kind import WorkloadKind
from cotenant.services.assess.assess_arguments import ReadArguments, pairs_of

AGENT = "cotenant-assess"
BURST = 1  # so that no second has more requests than the limit


def read_cluster(request: ReadArguments, progress: Progress) -> ClusterSnapshot:
    """Read a cluster with lists. Raises `CotenantError` where nodes or pods cannot be read."""
    own = _own(request.workload_kinds)
    access = load_access(request.kubeconfig, request.context)

    async def read() -> ClusterSnapshot:
        async with Client(
            access, qps=request.limit_qps, burst=BURST, in_flight=1, timeout_s=request.timeout_s, user_agent=AGENT
        ) as client:
            return await read_snapshot(client, time.time(), progress, own=own)

    try:
        return asyncio.run(read())
    except Unavailable as error:
        why = str(error).partition(": ")[2] or str(error)
        raise Transient(f"the API server {access.server} does not answer: {why}") from error


def read_use(request: ReadArguments, progress: HistoryProgress, *, by_container: bool = False) -> ClusterHistory | None:
    """Use over time from the Prometheus that is named; None where none is. `by_container`: of each container, where
    the source has them. Raises `CotenantError`.
    """
    if request.watch:
        return _sampled(request, progress, by_container)
    if not request.prometheus:
        return None
    headers: dict[str, str] = {}
    for written in request.headers:
        line = _line(Path(written[1:])) if written.startswith("@") else written
        headers |= pairs_of("--prometheus-header", (line,), ":")
    prometheus = Prometheus(request.prometheus, headers)
    matchers = pairs_of("--prometheus-match", request.matchers, "=")
    wanted = HistoryRequest(request.days, request.step_s, matchers, by_container=by_container)
    store = PartFiles(request.resume, request.prometheus, headers) if request.resume is not None else None

    async def read() -> ClusterHistory:
        async with PrometheusClient(prometheus, monotonic=time.monotonic) as client:
            return await read_history(client, wanted, time.time(), store=store, progress=progress)

    return asyncio.run(read())


def _sampled(request: ReadArguments, progress: HistoryProgress, by_container: bool) -> ClusterHistory:
    """Use by metrics.k8s.io, sampled for the time of `--watch`."""
    watch = SamplingPeriod(duration_s(request.watch, "--watch"), by_container=by_container)
    access = load_access(request.kubeconfig, request.context)

    async def read() -> ClusterHistory:
        async with Client(
            access, qps=request.limit_qps, burst=BURST, in_flight=1, timeout_s=request.timeout_s, user_agent=AGENT
        ) as client:
            return await sample_use(
                lambda path: client.request("GET", path), watch, now=time.time, sleep=asyncio.sleep, progress=progress
            )

    return asyncio.run(read())


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise InvalidInput("--prometheus-header", f"@{path}", "a file with NAME: VALUE", str(error)) from None


def _own(folder: Path | None) -> tuple[WorkloadKind, ...]:
    """The kinds that a user declares. Raises `InvalidInput`."""
    return workload_kinds(folder) if folder is not None else ()


def read_files(paths: Sequence[Path], folder: Path | None = None) -> tuple[ClusterSnapshot, ClusterHistory | None]:
    """Read one file of `cotenant assess dump`, or any number of kubectl's, with what `folder` declares. Raises
    `InvalidInput`.
    """
    if not paths:
        raise InvalidInput("FILE", "none", "a file of `cotenant assess dump`, or files of kubectl get -o json")
    archives = [path for path in paths if _is_zip(path)]
    if not archives:
        return read_exported(paths, _own(folder)), None
    if len(paths) > 1:
        raise InvalidInput("FILE", ", ".join(map(str, paths)), "one file of `cotenant assess dump`, alone")
    return read_archive(archives[0])


def without_names(
    snapshot: ClusterSnapshot, history: ClusterHistory | None
) -> tuple[ClusterSnapshot, ClusterHistory | None]:
    """The copy and its history with words for names. The key of the words is forgotten."""
    words = Words(secrets.token_bytes(32))
    return anonymised(snapshot, words), None if history is None else renamed_history(history, words.of, words.each)


def _is_zip(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"PK"
    except OSError as error:
        raise InvalidInput(str(path), error.strerror or str(error), "a file that can be read") from None
