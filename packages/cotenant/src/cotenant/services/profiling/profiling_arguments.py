"""What a person asks about slow requests, as options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

SLOW = Group("Joined with the spans of slow requests", sort_key=1)


@dataclass(frozen=True, slots=True)
class SlowArguments:
    """The options."""

    slow: Annotated[
        bool, Parameter(negative=(), help="Which frames hold the time of slow requests, by their spans.", group=SLOW)
    ] = False
    of: Annotated[
        str, Parameter(help="Whose requests: guid (service.instance.id), pod or service. Default: TARGET.", group=SLOW)
    ] = ""
    slowest: Annotated[float, Parameter(help="Share of the requests that is called slow.", group=SLOW)] = 0.1
    min_ms: Annotated[float, Parameter(help="And only those that took so long.", group=SLOW)] = 0.0
    traces: Annotated[
        str,
        Parameter(
            help="Where `cotenant traces` listens. Default: as `cotenant up` wrote it, else http://127.0.0.1:4318.",
            group=SLOW,
        ),
    ] = ""
    traces_token_file: Annotated[Path | None, Parameter(help="File with its token.", group=SLOW)] = None
    traces_ca: Annotated[Path | None, Parameter(help="Authority of its certificate, as PEM.", group=SLOW)] = None
