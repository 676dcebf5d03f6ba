"""A real server on the plant's core, and one measured stretch of open-loop load on it.

Several experiments measure the same service's tail. A server that stays for all rounds, and `measured`, which runs the
generator's process, passes on its report each second, and returns the counted latencies with the counters read at the
same instants.
Limits: as `servers.py`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.model.errors import Permanent, Unsupported
from cotenant.model.json_object import JsonMapping
from cotenant_lab.experiments.loads.open_loop import Slot
from cotenant_lab.experiments.loads.servers import SERVERS
from cotenant_lab.experiments.measures.histogram import Histogram
from cotenant_lab.experiments.measures.windows import WINDOW_US
from cotenant_lab.experiments.site.site import GENERATOR, Site

Live = Mapping[str, int | None]  # a second of the service: requests, p99_us, over


@dataclass(frozen=True, slots=True)
class GeneratorSettings:
    """The parameters of the generator."""

    rate: float = 1000.0  # requests a second
    items: int = 3000  # that a request scans
    seconds: float = 6.0  # that count
    settle_s: int = 3  # before them
    objective_ms: float = 3.0
    server: str = "redis"  # or another of `servers.py`

    @property
    def shown(self) -> str:
        """For people."""
        return SERVERS[self.server].says(self.rate, self.items)


@dataclass(frozen=True, slots=True)
class Stretch:
    """The results of a stretch of load, window by window, and the counters at its two ends."""

    live: list[Live]
    ends: tuple[Any, Any]
    slots: Sequence[Slot]  # windows of the monotonic clock; without those in which nothing was due
    is_realtime: bool  # whether the generator had its priority


def program(name: str, feature: str) -> str:
    """The path of a program. Raises `Unsupported` with how to install it."""
    found = shutil.which(name)
    if found is None:
        raise Unsupported(feature, f"{name} (apt-get install {name})")
    return found


def start(site: Site, group: str, load: GeneratorSettings) -> None:
    """Start the server in a group and fill it."""
    server, path = SERVERS[load.server], _socket(site)
    where = program(server.program, "load on a real server")
    site.start(group, [where, *server.arguments(path, site.scratch)])
    site.wait_for(server.program, path.exists)
    server.fill(path, load.items)


def measured(
    site: Site, load: GeneratorSettings, seed: int, read: Callable[[], Any], hear: Callable[[Live], None]
) -> Stretch:
    """Run the load once. `read` is called where the stretch that counts begins and ends; `hear` each second, with
    the report.
    """
    generator = site.start_python(
        GENERATOR,
        "cotenant_lab.experiments.loads.server_load",
        *("--server", load.server, "--items", str(load.items)),
        *("--socket", str(_socket(site)), "--rate", str(load.rate), "--seconds", str(load.settle_s + load.seconds)),
        *("--seed", str(seed), "--objective-us", str(round(load.objective_ms * 1000))),
        pipe=True,
    )
    final: JsonMapping = {}
    ends, live = [], []
    for line in generator.process.stdout or ():
        report = json.loads(line)
        if "live" not in report:
            final = report
            ends.append(read())
            break
        live.append(report["live"])
        if len(live) == load.settle_s:
            ends.append(read())
        hear(report["live"])
    if not final:
        generator.process.wait(10)
        raise Permanent(f"the load generator ended early: {generator.last_line()}")
    site.stop(generator)
    counts_from_us = final["began_us"] + load.settle_s * 1_000_000
    slots = [
        Slot(index, Histogram.from_pairs(answered), Histogram.from_pairs(sent))
        for index, answered, sent in final["windows"]
        if index * WINDOW_US >= counts_from_us
    ]
    return Stretch(live, (ends[0], ends[1]), slots, final["realtime"])


def _socket(site: Site) -> Path:
    return site.scratch / "server.sock"
