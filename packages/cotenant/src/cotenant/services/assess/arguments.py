"""What a person asks of `cotenant assess`, and the checks that need nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.model.errors import InvalidInput
from cotenant.services.options import CLUSTER, COMMON, Context, Kubeconfig


@dataclass(frozen=True, slots=True)
class ReadArguments:
    """How a cluster is read."""

    kubeconfig: Annotated[Kubeconfig, Parameter(group=COMMON)] = None
    context: Context = ""
    limit_qps: Annotated[float, Parameter(help="Requests a second to the API server, at most.", group=CLUSTER)] = 20.0
    timeout_s: Annotated[float, Parameter(help="Seconds that one request may take.", group=CLUSTER)] = 60.0
    quiet: Annotated[bool, Parameter(negative=(), help="Print no progress.", group=COMMON)] = False


def check(request: ReadArguments) -> None:
    """Raises `InvalidInput`."""
    for option, value in (("--limit-qps", request.limit_qps), ("--timeout-s", request.timeout_s)):
        if not (isfinite(value) and value > 0):
            raise InvalidInput(option, value, "a number above 0")


def check_output(option: str, path: Path) -> None:
    """Raises `InvalidInput` where the file cannot be made, before a cluster is read for a minute."""
    if path.is_dir():
        raise InvalidInput(option, str(path), "a file, not a folder")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(option, str(path), "a file in a folder that exists")
