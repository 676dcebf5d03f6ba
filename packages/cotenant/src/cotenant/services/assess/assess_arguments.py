"""What a person asks of `cotenant assess`, and the checks that need nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from cotenant.drivers.kube.kinds.durations import duration_s
from cotenant.model.errors import InvalidInput
from cotenant.services.options import CLUSTER, COMMON, Context, Kubeconfig, WorkloadKinds

USE = Group("Use over time", sort_key=1)


@dataclass(frozen=True, slots=True)
class ReadArguments:
    """How a cluster is read."""

    kubeconfig: Annotated[Kubeconfig, Parameter(group=COMMON)] = None
    context: Context = ""
    limit_qps: Annotated[float, Parameter(help="Requests a second to the API server, at most.", group=CLUSTER)] = 20.0
    timeout_s: Annotated[float, Parameter(help="Seconds that one request may take.", group=CLUSTER)] = 60.0
    workload_kinds: Annotated[WorkloadKinds, Parameter(group=CLUSTER)] = None
    quiet: Annotated[bool, Parameter(negative=(), help="Print no progress.", group=COMMON)] = False
    prometheus: Annotated[
        str,
        Parameter(
            help="URL of a Prometheus (or Mimir, Thanos) with the use of pods. Default: NodeMetrics, else requests.",
            group=USE,
        ),
    ] = ""
    watch: Annotated[
        str, Parameter(help="Without a Prometheus: sample metrics.k8s.io for so long, such as 10m.", group=USE)
    ] = ""
    days: Annotated[float, Parameter(help="Days of its history.", group=USE)] = 7.0
    step_s: Annotated[int, Parameter(help="Seconds of a step: 60, 300, 600, 900, 1800 or 3600.", group=USE)] = 300
    headers: Annotated[
        tuple[str, ...],
        Parameter(
            name="--prometheus-header",
            help="NAME: VALUE of every query, such as X-Scope-OrgID: team; @FILE: from a file. May be repeated.",
            group=USE,
        ),
    ] = ()
    matchers: Annotated[
        tuple[str, ...],
        Parameter(
            name="--prometheus-match",
            help="LABEL=VALUE of every query, such as cluster=eu-1. May be repeated.",
            group=USE,
        ),
    ] = ()
    resume: Annotated[
        Path | None,
        Parameter(help="Folder in which what was read of the history is kept, to go on after a break.", group=USE),
    ] = None


def check(request: ReadArguments) -> None:
    """Raises `InvalidInput`."""
    for option, value in (("--limit-qps", request.limit_qps), ("--timeout-s", request.timeout_s)):
        if not (isfinite(value) and value > 0):
            raise InvalidInput(option, value, "a number above 0")
    if not (0 < request.days <= 400):
        raise InvalidInput("--days", request.days, "above 0, 400 at most")
    if request.watch and request.prometheus:
        raise InvalidInput("--watch", request.watch, "no --prometheus beside it: one source of use")
    pairs_of("--prometheus-match", request.matchers, "=")
    for header in request.headers:
        if not header.startswith("@"):
            pairs_of("--prometheus-header", (header,), ":")
    _check_source(request)


def _check_source(request: ReadArguments) -> None:
    """What a source of use would refuse, before a cluster is read for a minute. Imports it only where it is asked for,
    so that other refusals stay cheap.
    """
    if request.watch:
        lasts_s = duration_s(request.watch, "--watch")
        from cotenant.drivers.kube.usage.sampling import SamplingPeriod

        SamplingPeriod(lasts_s)
    if request.prometheus:
        from cotenant.drivers.prometheus.client import Prometheus
        from cotenant.drivers.prometheus.use_reading import HistoryRequest

        Prometheus(request.prometheus)
        HistoryRequest(request.days, request.step_s)


def check_risk(risk_percent: float) -> None:
    """Raises `InvalidInput`."""
    if not 0.01 <= risk_percent <= 20:
        raise InvalidInput("--risk-percent", risk_percent, "0.01 to 20")


def check_output(option: str, path: Path) -> None:
    """Raises `InvalidInput` where the file cannot be made, before a cluster is read for a minute."""
    if path.is_dir():
        raise InvalidInput(option, str(path), "a file, not a folder")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(option, str(path), "a file in a folder that exists")


def pairs_of(option: str, written: Sequence[str], mark: str) -> dict[str, str]:
    """NAME`mark`VALUE as a mapping. Raises `InvalidInput`, without the value, which may be a secret."""
    found = {}
    for text in written:
        name, has_mark, value = text.partition(mark)
        if not has_mark or not name.strip():
            raise InvalidInput(option, name[:40], f"NAME{mark}VALUE")
        found[name.strip()] = value.strip()
    return found
